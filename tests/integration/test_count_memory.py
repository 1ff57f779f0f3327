"""Counting with a store: later counts read what is new, and earlier answers stand in."""

from __future__ import annotations

import sqlite3
from contextlib import AsyncExitStack, closing
from typing import TYPE_CHECKING

import pytest

from nostr_client import count
from nostr_client.client import NostrClient
from nostr_client.codecs.event import Event, EventTemplate
from nostr_client.codecs.filters import Filter
from nostr_client.errors import StoreError
from nostr_client.options import ReadBudget
from tests.faults import COUNT_REFUSALS, AnswersCount, RefusesCount
from tests.faulty_relay import Behaviour, FaultyRelay
from tests.worlds import NOTE, START, TARGET, Sketches, follow, reaction, signer

if TYPE_CHECKING:
    from pathlib import Path

    from nostr_client.count.result import CountResult

FOLLOWERS = count.followers(TARGET)
REACTIONS = count.reactions(NOTE)
REPOSTS = count.reposts(NOTE)
"""Every event that matches counts, so an equal COUNT of the relay proves its number."""
NOW = START + 1_000_000.0


def repost(i: int) -> Event:
    """The repost of NOTE by person `i`."""
    template = EventTemplate(kind=6, content="", tags=(("e", NOTE),), created_at=START + 10 * i)
    return signer(i).sign_now(template).event


def article(i: int, at: int) -> Event:
    """A version of article `i`."""
    template = EventTemplate(
        kind=30023, content=str(at), tags=(("d", f"{i}"),), created_at=START + at
    )
    return signer(1).sign_now(template).event


def plain() -> Behaviour:
    """A relay that knows no COUNT."""
    return RefusesCount(COUNT_REFUSALS["notice, rnostr"])


async def counted(
    path: Path, *relays: FaultyRelay, now: float = NOW, query: count.Query = FOLLOWERS, **rest: int
) -> CountResult:
    """One count by a client of its own, as two runs of a program are."""
    budget = ReadBudget(**rest) if rest else None
    async with NostrClient(timeout=5, store=path, budget=budget, now=lambda: now) as client:
        return await client.count(query, relays=[relay.url for relay in relays])


async def test_the_second_count_reads_what_is_new(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with FaultyRelay(plain(), events=[follow(i) for i in range(800)]) as relay:
        first = await counted(path, relay)
        relay.events += [follow(i, START + 900_000) for i in range(900, 905)]
        second = await counted(path, relay, now=NOW + 60)
    assert (first.value, first.exact) == (800, True)
    assert second.value == 805
    assert first.relays[0].events_read >= 800
    assert second.relays[0].last_read == NOW + 60
    # The overlap of an hour holds the events of the first count's last seconds.
    assert second.relays[0].events_read < 850


async def test_events_read_is_what_was_new(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    old = [reaction(i) for i in range(2000)]  # one each ten seconds
    async with FaultyRelay(plain(), events=old) as relay:
        first = await counted(path, relay, query=REACTIONS)
        relay.events += [reaction(10_000 + i) for i in range(7)]
        second = await counted(path, relay, query=REACTIONS, now=NOW + 60)
    assert first.relays[0].events_read >= 2000
    overlap = 3600 // 10
    assert 7 <= second.relays[0].events_read <= 7 + overlap + 3
    assert second.value == 2007


async def test_a_relay_that_counts_confirms_what_is_held(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    events = [repost(i) for i in range(2000)]
    async with FaultyRelay(events=list(events)) as relay:
        await counted(path, relay, query=REPOSTS)
        del relay.events[500]
        second = await counted(path, relay, query=REPOSTS, now=NOW + 60)
    assert second.events is not None
    assert (second.events.value, second.events.exact) == (1999, True)
    assert (second.value, second.exact) == (1999, False)  # of whom, a number does not tell
    assert second.relays[0].events_read < 0.25 * 2000


async def test_of_two_versions_the_newer_counts_with_a_store_too(tmp_path: Path) -> None:
    path, query = tmp_path / "store.db", count.query(Filter(kinds=[30023]))
    old, new = ([article(i, 10 * i + at) for i in range(10)] for at in (1, 2))
    async with (
        FaultyRelay(plain(), events=[*old, *new]) as careless,
        FaultyRelay(plain(), events=old) as behind,
    ):
        alone = await counted(path, careless, query=query)
        both = await counted(path, careless, behind, query=query)
        again = await counted(path, careless, behind, query=query, now=NOW + 60)
    assert [one.value for one in (alone, both, again)] == [10, 10, 10]


async def test_a_relay_that_does_not_count_is_not_called_exact_later(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with FaultyRelay(plain(), events=[reaction(i) for i in range(1000)]) as relay:
        await counted(path, relay, query=REACTIONS)
        second = await counted(path, relay, query=REACTIONS, now=NOW + 86_400)
    assert second.value == 1000
    assert not second.exact
    assert second.low is not None
    assert second.high is None
    assert 950 < second.low < 1000
    assert "read 20" in (second.relays[0].note or "")


async def test_an_earlier_answer_stands_in_for_a_relay_that_is_away(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with AsyncExitStack() as stack:
        events = [follow(i) for i in range(500)]
        sketches = await stack.enter_async_context(FaultyRelay(Sketches(), events=events[:300]))
        other = await stack.enter_async_context(FaultyRelay(Sketches(), events=events[200:]))
        await counted(path, sketches, other)
        await other.stop()
        later = await counted(path, sketches, other, now=NOW + 3600)
        much_later = await counted(path, sketches, other, now=NOW + 30 * 86_400)
    assert [c.status for c in later.relays] == ["ok", "unreachable"]
    assert any("counted with" in w for w in later.relays[1].warnings)
    assert later.value is not None
    assert later.value > 400
    assert much_later.value is not None
    assert much_later.value < 340


def is_open(result: CountResult) -> bool:
    """Whether a result leaves room for another number than its value."""
    return not result.exact and (result.high is None or (result.low or 0) < result.high)


@pytest.mark.parametrize("events", [0, 7, 300])
@pytest.mark.parametrize(
    "behaviour",
    [Sketches(), Behaviour(), plain(), Sketches(hll=None)],
    ids=["hll", "count", "events", "count without hll"],
)
async def test_what_stands_in_for_a_silent_relay_is_not_exact(
    tmp_path: Path, behaviour: Behaviour, events: int
) -> None:
    path = tmp_path / "store.db"
    async with FaultyRelay(behaviour, events=[follow(i) for i in range(events)]) as relay:
        first = await counted(path, relay)
        await relay.stop()
        later = await counted(path, relay, now=NOW + 60)
        async with NostrClient(timeout=5, store=path, now=lambda: NOW + 60) as client:
            shown = await client.explain(FOLLOWERS)
    assert (first.value, first.answered) == (events, 1)
    for result in (later, shown):
        assert result.answered == 0
        assert result.value == events
        assert is_open(result)
        assert any("not exact now" in warning for warning in result.relays[0].warnings)


async def test_old_events_that_came_late_are_not_counted_out(tmp_path: Path) -> None:
    """Nothing that the relay is asked for in the second round shows them."""
    path = tmp_path / "store.db"
    async with FaultyRelay(plain(), events=[reaction(10_000 + i) for i in range(102)]) as relay:
        assert (await counted(path, relay, query=REACTIONS)).exact
        relay.events += [reaction(i) for i in range(10)]
        second = await counted(path, relay, query=REACTIONS, now=NOW + 60)
    assert second.value == 102
    assert is_open(second)
    assert second.high is None
    assert second.lower_bound


async def test_an_equal_count_is_that_relay_s_number_and_no_union(tmp_path: Path) -> None:
    """One follower goes and one comes late: the relay's count stays, and who they are does not."""
    path = tmp_path / "store.db"
    async with AsyncExitStack() as stack:
        here, there = [
            await stack.enter_async_context(
                FaultyRelay(events=[follow(i, START - 900_000) for i in people])
            )
            for people in (range(100), range(50, 150))
        ]
        assert (await counted(path, here, there)).exact
        del here.events[40]
        here.events.append(follow(60_000, START - 900_000))
        union = await counted(path, here, there, now=NOW + 60)
        alone = await counted(path, here, now=NOW + 120)
    assert is_open(union)
    assert (alone.value, alone.exact) == (100, True)


@pytest.mark.parametrize("lost", [0, 1])
async def test_after_a_late_event_the_own_count_of_a_relay_is_its_number_again(
    lost: int, tmp_path: Path
) -> None:
    """What came late and what went are found by counts; then count and holding agree."""
    path = tmp_path / "store.db"
    events = [follow(i, START - 9_000_000 + 45_000 * i) for i in range(200)]
    async with FaultyRelay(Behaviour(), events=events) as relay:
        found = [await counted(path, relay)]
        relay.events.append(follow(500, START - 500_000))
        del relay.events[50 : 50 + lost]
        found += [await counted(path, relay, now=NOW + 3600 * hour) for hour in range(1, 4)]
        alone = await counted(path, relay, now=NOW + 4 * 3600)
        async with FaultyRelay(Behaviour(), events=events) as other:
            both = await counted(path, relay, other, now=NOW + 5 * 3600)
    truth = 201 - lost
    assert [(one.value, one.exact) for one in (*found[2:], alone)] == [(truth, True)] * 3
    assert not both.exact


async def test_few_events_are_read_whole_each_time(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with FaultyRelay(plain(), events=[reaction(10_000 + i) for i in range(5)]) as relay:
        await counted(path, relay, query=REACTIONS)
        relay.events += [reaction(1), reaction(2)]
        second = await counted(path, relay, query=REACTIONS, now=NOW + 60)
    assert (second.value, second.exact) == (7, True)


async def test_a_bare_zero_replaces_no_answer(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with FaultyRelay(Sketches(), events=[follow(i) for i in range(300)]) as relay:
        await counted(path, relay)
        relay.behaviour = AnswersCount({"count": 0})
        relay.events.clear()
        async with NostrClient(timeout=5, store=path, read=False, now=lambda: NOW + 9) as client:
            later = await client.count(FOLLOWERS, relays=relay.url)
    assert later.value == 300


async def test_a_first_reading_within_a_budget_is_continued(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with FaultyRelay(plain(), events=[follow(i) for i in range(1500)]) as relay:
        values = []
        for round_ in range(6):
            result = await counted(path, relay, now=NOW + round_, events=600)
            values.append((result.value, result.lower_bound))
    assert values[0] == (599, True)  # the oldest second of a page comes twice
    assert values[-1] == (1500, True)  # of six rounds none read the whole
    assert values == sorted(values, key=lambda pair: pair[0] or 0)


async def test_explaining_asks_nobody(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with AsyncExitStack() as stack:
        events = [follow(i) for i in range(400)]
        relays = [
            await stack.enter_async_context(FaultyRelay(Sketches(), events=events)),
            await stack.enter_async_context(FaultyRelay(plain(), events=events[:100])),
            await stack.enter_async_context(FaultyRelay(AnswersCount({"count": -1}))),
        ]
        await counted(path, *relays)
        for relay in relays:
            await relay.stop()
        before = [len(relay.received) for relay in relays]
        async with NostrClient(store=path, now=lambda: NOW) as client:
            result = await client.explain(FOLLOWERS)
        assert [len(relay.received) for relay in relays] == before
    parts = {part.relay: part for part in result.merged.parts}
    assert parts[relays[0].url].used == ("registers", "count")
    assert parts[relays[1].url].used == ("events",)
    assert parts[relays[2].url].used == ()
    assert parts[relays[2].url].reasons
    share = parts[relays[1].url].share
    assert share is not None
    assert 0.15 < share < 0.35


async def test_explaining_without_a_store_counts() -> None:
    async with FaultyRelay(Sketches(), events=[follow(i) for i in range(40)]) as relay:
        client = NostrClient(relay.url)
        result = await client.explain(FOLLOWERS)
        await client.close()
    assert result.value == 40


@pytest.mark.parametrize("lost", ["claim_mark", "claim_event", "claim"])
async def test_a_broken_store_is_a_store_error(tmp_path: Path, lost: str) -> None:
    path = tmp_path / "store.db"
    async with (
        FaultyRelay(plain(), events=[follow(i) for i in range(5)]) as relay,
        NostrClient(relay.url, timeout=5, store=path) as client,
    ):
        await client.count(FOLLOWERS)
        with closing(sqlite3.connect(path)) as other:
            other.execute(f"drop table {lost}")
        with pytest.raises(StoreError):
            await client.count(FOLLOWERS)
