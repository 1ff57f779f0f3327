"""Rounds of reading against made-up relays: nothing is skipped, and little is read twice."""

from __future__ import annotations

import random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nostr_client.codecs.filters import Filter
from nostr_client.codecs.messages import Hint
from nostr_client.count.claims import HeldEvent, ListMemory, Reread
from nostr_client.count.claims.coverage import DAY, HOUR
from nostr_client.count.reading.rounds import ReadPage, ReadRound
from nostr_client.network.paging.range_reader import Walk
from nostr_client.protocol import SMALL, StoredFrames
from tests.simulation import Order, SimRelay, drive, event
from tests.strategies import lists_up_to

NOW = 1_700_000_000
KINDS = Filter(kinds=[7])


def ids(memory: ListMemory) -> set[bytes]:
    return {one.id for one in memory.events()}


def history(n: int, *, seed: int = 1, span: int = 100 * DAY) -> list[HeldEvent]:
    rng = random.Random(seed)
    return [event(NOW - rng.randrange(span), i) for i in range(n)]


def read(
    memory: ListMemory, relay: SimRelay, now: int, *, told: bool = False, most: int | None = None
) -> int:
    count = relay.count(KINDS) if told else None
    return drive(ReadRound([KINDS], clock=now, reported=count), memory, relay, most=most)


def test_a_first_round_reads_everything_once() -> None:
    relay, memory = SimRelay(history(1200)), ListMemory()
    spent = read(memory, relay, NOW)
    assert ids(memory) == set(relay.events)
    assert memory.mark.last_read == NOW
    assert memory.mark.complete
    assert spent <= 1200 + 4


def test_the_second_round_reads_what_is_new_and_the_overlap() -> None:
    relay, memory = SimRelay(history(1200)), ListMemory()
    read(memory, relay, NOW)
    for i in range(10):
        relay.add(event(NOW + 60 * i, 5000 + i))
    assert read(memory, relay, NOW + HOUR) <= 30
    assert ids(memory) == set(relay.events)
    assert memory.mark.last_read == NOW + HOUR


def test_a_first_reading_that_was_cut_is_continued() -> None:
    relay, memory = SimRelay(history(1200), cap=100), ListMemory()
    for _ in range(2):
        read(memory, relay, NOW, most=4)
        assert memory.mark.last_read is None
        assert not memory.mark.complete
    read(memory, relay, NOW)
    assert ids(memory) == set(relay.events)
    assert memory.mark.last_read == NOW
    assert relay.read < 1300


def test_what_was_removed_is_found_within_the_period() -> None:
    relay, memory = SimRelay(history(700)), ListMemory()
    read(memory, relay, NOW)
    gone = list(relay.events)[::10]
    for id in gone:
        relay.remove(id)
    for hour in range(4, 7 * 24 + 9, 4):
        spent = read(memory, relay, NOW + hour * HOUR)
        assert spent <= 0.05 * 700
    assert ids(memory) == set(relay.events)
    assert memory.mark.gone == len(gone)


def test_counts_of_the_relay_find_a_removal_and_a_late_event_at_once() -> None:
    events = history(5000)
    relay, memory = SimRelay(events), ListMemory()
    read(memory, relay, NOW, told=True)
    assert memory.mark.confirmed_at == NOW
    relay.remove(events[77].id)
    relay.add(event(NOW - 3 * DAY, 9999))
    spent, asked = read(memory, relay, NOW + HOUR, told=True), relay.counts
    assert spent < 0.05 * 5000
    assert asked < 60
    assert ids(memory) == set(relay.events)


def test_a_relay_that_counts_what_it_does_not_give_is_not_searched_each_time() -> None:
    relay, memory = SimRelay(history(1000)), ListMemory()

    def dishonest() -> tuple[int, int]:
        reading = ReadRound([KINDS], clock=NOW, reported=1010)
        before = relay.read
        while reading.advance(memory):
            while (question := reading.question) is not None:
                if isinstance(question, ReadPage):
                    reading.page(*relay.answer(question.filter))
                else:
                    until = question.filter.until
                    reading.count(relay.count(question.filter) + 10 * (until is None))
        return relay.read - before, relay.counts

    dishonest()
    assert memory.mark.differs == 10
    assert memory.mark.confirmed_at is None
    spent, _ = dishonest()
    assert spent < 5


def test_a_denser_second_than_a_page_is_told() -> None:
    relay = SimRelay([event(NOW - 50, i) for i in range(350)], cap=100)
    relay.add(event(NOW - 99, 1))
    memory = ListMemory()
    read(memory, relay, NOW)
    assert memory.mark.holes == (NOW - 50,)
    assert not memory.mark.complete
    assert memory.count(0, NOW - 51) == 1
    for hour in range(1, 9):
        assert read(memory, relay, NOW + hour * HOUR) < 1000


@pytest.mark.parametrize("proof", ["count", "finish", "none"])
def test_a_dense_second_is_read_by_a_larger_limit_where_the_relay_lets(proof: str) -> None:
    """Its 1,234 events may be a cap: the relay's count or its hint shows that they are all."""
    events = [event(NOW - 50, i) for i in range(1234)]
    relay, memory = SimRelay(events, cap=5000, hints=proof == "finish"), ListMemory()
    read(memory, relay, NOW, told=proof == "count")
    assert ids(memory) == set(relay.events)
    assert memory.mark.complete == (proof != "none")


class Spoiled(SimRelay):
    """Sends one event, `bad`, as a frame that cannot be read."""

    bad = b""

    def answer(self, asked: Filter) -> tuple[list[HeldEvent], StoredFrames]:
        page, was_sent = super().answer(asked)
        stamps = tuple(None if s and s.id == self.bad.hex() else s for s in was_sent.stamps)
        good = [one for one in page if one.id != self.bad]
        return good, msgspec.structs.replace(was_sent, stamps=stamps)


@pytest.mark.parametrize("hints", [False, True])
def test_an_event_that_could_not_be_read_is_missed_until_it_is_read(hints: bool) -> None:
    relay, memory = Spoiled(history(700), hints=hints), ListMemory()
    relay.bad = list(relay.events)[300]
    read(memory, relay, NOW, told=True)
    assert not memory.mark.complete
    read(memory, relay, NOW + HOUR, told=True)
    assert not memory.mark.complete
    relay.bad = b""
    for day in range(1, 9):
        read(memory, relay, NOW + day * DAY, told=True)
    assert memory.mark.complete
    assert ids(memory) == set(relay.events)


def test_finish_beside_a_larger_count_does_not_end_a_round() -> None:
    """A relay that says `finish` at its cap, and counts truly."""
    relay, memory = SaysFinish(history(700), cap=100), ListMemory()
    read(memory, relay, NOW, told=True)
    assert ids(memory) == set(relay.events)
    for n in range(150):
        relay.add(event(NOW + 60 + n, n, 2))
    read(memory, relay, NOW + HOUR, told=True)
    assert ids(memory) == set(relay.events)


class SaysFinish(SimRelay):
    """A relay that says `finish` at every page."""

    def answer(self, asked: Filter) -> tuple[list[HeldEvent], StoredFrames]:
        page, was_sent = super().answer(asked)
        return page, msgspec.structs.replace(was_sent, hint=Hint.FINISH)


class ByKind(SimRelay):
    """A relay that looks at kinds: an event's kind is 1 for even amounts, else 7."""

    def _matching(self, asked: Filter) -> list[HeldEvent]:
        kinds = set(asked.kinds or ())
        return [e for e in super()._matching(asked) if (7 if e.amount % 2 else 1) in kinds]


def test_a_dense_second_is_narrowed_by_the_lists_of_the_filter() -> None:
    relay = ByKind([event(NOW - 50, i, amount=i) for i in range(180)], cap=100)
    memory = ListMemory()
    drive(ReadRound([Filter(kinds=[1, 7])], clock=NOW), memory, relay)
    assert ids(memory) == set(relay.events)
    assert memory.mark.complete


@pytest.mark.parametrize("ahead", [HOUR, DAY, 20 * DAY])
def test_a_clock_that_ran_ahead_makes_nothing_be_skipped(ahead: int) -> None:
    relay, memory = SimRelay(history(50)), ListMemory()
    read(memory, relay, NOW + ahead)
    relay.add(event(NOW + 100, 777))
    read(memory, relay, NOW + 200)
    assert ids(memory) == set(relay.events)


def test_late_events_within_the_overlap_are_seen_and_make_it_grow() -> None:
    relay, memory = SimRelay(history(50)), ListMemory()
    relay.add(event(NOW, 1))
    read(memory, relay, NOW)
    relay.add(event(NOW - 50 * 60, 2))
    read(memory, relay, NOW + 60)
    assert ids(memory) == set(relay.events)
    assert 74 * 60 < memory.mark.overlap <= 75 * 60
    relay.add(event(NOW - 70 * 60, 3))
    read(memory, relay, NOW + 120)
    assert ids(memory) == set(relay.events)


SECONDS = st.one_of(st.integers(NOW - 60, NOW + 9), st.integers(NOW - 3, NOW))
EVENTS = st.builds(event, SECONDS, st.integers(0, 400), st.integers(0, 3))
STEPS = st.lists(
    st.tuples(lists_up_to(EVENTS, 30), st.integers(0, 99), st.integers(1, 5), st.booleans()),
    min_size=1,
    max_size=5,
)


@settings(max_examples=200, deadline=None)
@given(STEPS, st.integers(SMALL, 16), st.booleans(), st.sampled_from(Order), st.booleans())
def test_any_relay_is_held_exactly_or_said_to_be_incomplete(
    steps: list[tuple[list[HeldEvent], int, int, bool]],
    cap: int,
    told: bool,
    order: Order,
    hints: bool,
) -> None:
    """Arrivals in any order of time, removals, cuts: read again, nothing differs."""
    relay, memory = SimRelay(cap=cap, order=order, hints=hints), ListMemory()
    policy = Reread(every=0.001, most_at_once=0.001)
    now = NOW
    for arrivals, victim, pages, cut in steps:
        for one in arrivals:
            relay.add(one)
        if relay.events and victim % 3 == 0:
            relay.remove(list(relay.events)[victim % len(relay.events)])
        now += 60
        reading = ReadRound([KINDS], clock=now, reread=policy, page=cap)
        drive(reading, memory, relay, countable=told, most=pages if cut else None)
    now += 60
    reading = ReadRound([KINDS], clock=now, reread=policy, page=cap)
    drive(reading, memory, relay, countable=told)
    missing = {relay.events[id].created_at for id in set(relay.events) - ids(memory)}
    assert missing <= set(memory.mark.holes)
    if memory.mark.complete:
        assert ids(memory) == set(relay.events)
        assert memory.mark.last_read == now


@settings(max_examples=200, deadline=None)
@given(lists_up_to(EVENTS, 80), st.integers(SMALL, 16), st.integers(NOW - 60, NOW))
def test_a_walk_reaches_its_start_and_knows_its_holes(
    events: list[HeldEvent], cap: int, start: int
) -> None:
    relay = SimRelay(events, cap=cap)
    walk = Walk([KINDS], start, None, page=cap)
    for _ in range(1000):
        asked = walk.ask()
        if asked is None:
            break
        walk.take(*relay.answer(asked))
        reached = walk.reached
        if reached is not None:
            wanted = {e.id for e in events if e.created_at >= reached}
            missing = {relay.events[id].created_at for id in wanted - set(walk.found)}
            assert missing <= walk.holes
    assert walk.reached == start
