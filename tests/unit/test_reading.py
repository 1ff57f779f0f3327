"""When a reading has reached the end: every event is found, or the walk says that some may lack."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nostr_client.codecs.filters import Filter
from nostr_client.codecs.messages import Hint
from nostr_client.network.paging.range_reader import MOST_BARREN, Walk
from nostr_client.protocol import SMALL, Stamp, StoredFrames
from nostr_client.protocol.state import cutting_limit
from tests.conftest import load_cases
from tests.simulation import Order, SimRelay, event, sent
from tests.strategies import lists_up_to

if TYPE_CHECKING:
    from nostr_client.count.claims import HeldEvent

NOW = 1_700_000_000
NOTES = Filter(kinds=[1])
CASES = [c for c in load_cases("cases.json") or () if c["category"] == "relay-flow"]


def walked(relay: SimRelay, *, most: int = 5_000, **options: int) -> Walk:
    """A walk over all that a relay has, to its end."""
    walk = Walk([NOTES], 0, None, **options)
    for _ in range(most):
        asked = walk.ask()
        if asked is None:
            return walk
        walk.take(*relay.answer(asked))
    raise AssertionError("the walk does not end")


def spread(n: int) -> list[HeldEvent]:
    return [event(NOW - 7 * i, i) for i in range(n)]


def dense(n: int, second: int = NOW) -> list[HeldEvent]:
    return [event(second, i) for i in range(n)]


SECONDS = st.one_of(st.integers(0, 40), st.integers(20, 23))
EVENTS = lists_up_to(SECONDS, 120).map(lambda times: [event(at, i) for i, at in enumerate(times)])


@settings(max_examples=200, deadline=None)
@given(
    EVENTS,
    st.integers(SMALL, 30),
    st.sampled_from(Order),
    st.booleans(),
    st.booleans(),
    st.sampled_from([10, 17, 500]),
)
def test_what_is_called_complete_is_complete(
    events: list[HeldEvent], cap: int, order: Order, hints: bool, exclusive: bool, page: int
) -> None:
    """Any cap that nobody states, any order, hints, and the second of `until` left out."""
    relay = SimRelay(events, cap=cap, order=order, hints=hints, exclusive=exclusive)
    walk = walked(relay, page=page)
    missing = set(relay.events) - set(walk.found)
    if walk.complete:
        assert not missing
    elif walk.reached is not None:
        lacking = {relay.events[id].created_at for id in missing}
        assert {at for at in lacking if at >= walk.reached} <= walk.holes


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 400), st.integers(SMALL, 120), st.sampled_from(Order), st.booleans())
def test_where_no_second_is_dense_everything_is_proven(
    n: int, cap: int, order: Order, hints: bool
) -> None:
    """It is not enough to doubt: what can be shown is shown."""
    relay = SimRelay(spread(n), cap=cap, order=order, hints=hints)
    walk = walked(relay)
    assert set(walk.found) == set(relay.events)
    assert walk.complete


@pytest.mark.parametrize("cap", [73, 78, 100, 499])
@pytest.mark.parametrize("n", [50, 100, 150, 500, 1_200])
def test_a_cap_that_is_no_round_number_cuts_nothing_off(cap: int, n: int) -> None:
    walk = walked(SimRelay(spread(n), cap=cap))
    assert len(walk.found) == n
    assert walk.complete


def test_a_hundred_events_in_one_second_at_a_cap_of_73_are_at_least_73() -> None:
    relay = SimRelay(dense(100), cap=73)
    walk = walked(relay)
    assert len(walk.found) == 73
    assert walk.holes == {NOW}
    assert not walk.complete
    assert relay.asked <= 8


@pytest.mark.parametrize(("n", "whole"), [(5, True), (9, True), (50, False)])
def test_a_relay_with_one_second_only_shows_its_cap_by_nothing(n: int, whole: bool) -> None:
    """Fewer than ten events are no cap; fifty may be one."""
    walk = walked(SimRelay(dense(n)))
    assert len(walk.found) == n
    assert walk.complete is whole


@pytest.mark.parametrize("cap", [1, 2, 5, 9])
def test_a_cap_of_a_few_events_shows_below_the_second_that_it_cuts(cap: int) -> None:
    """The page of that second is as large as every page before it, and older events come."""
    events = [*dense(cap + 3), *(event(NOW - 60 - i, 100 + i) for i in range(2 * cap))]
    walk = walked(SimRelay(events, cap=cap))
    assert NOW in walk.holes
    assert not walk.complete
    assert {event(NOW - 60 - 2 * cap + 1, 100 + 2 * cap - 1).id} <= set(walk.found)


@pytest.mark.parametrize("cap", [2, 5, 9])
def test_a_cap_of_a_few_events_that_showed_before_cuts_the_oldest_second_too(cap: int) -> None:
    events = [*spread(3 * cap), *dense(cap + 3, NOW - 9_000)]
    walk = walked(SimRelay(events, cap=cap))
    assert NOW - 9_000 in walk.holes
    assert not walk.complete
    whole = walked(SimRelay([*spread(3 * cap), *dense(cap - 1, NOW - 9_000)], cap=cap))
    assert whole.complete


@pytest.mark.parametrize("lists", [{}, {"authors": ["ab" * 32, "cd" * 32]}])
def test_a_second_that_a_few_events_fill_is_not_asked_in_parts(lists: dict[str, list[str]]) -> None:
    """A part that is cut would be as small as one that is whole."""
    relay = SimRelay(spread(20), cap=1)
    walk: Walk[HeldEvent] = Walk([NOTES.replace(**lists)], 0, None)
    while (asked := walk.ask()) is not None:
        walk.take(*relay.answer(asked))
    assert (len(walk.found), len(walk.holes)) == (20, 20)
    assert relay.asked <= 41


@pytest.mark.parametrize("n", [1, 2, 9])
def test_a_few_events_of_one_second_cost_one_more_req(n: int) -> None:
    relay = SimRelay(dense(n))
    assert walked(relay).complete
    assert relay.asked == 3


@pytest.mark.parametrize("hints", [False, True])
def test_a_filter_whose_ids_all_came_is_read_whole_at_once(hints: bool) -> None:
    """No limit can have cut a page that has every event that was asked for."""
    events = spread(12)
    relay = SimRelay(events, hints=hints)
    walk: Walk[HeldEvent] = Walk([Filter(ids=[one.id.hex() for one in events])], 0, None)
    while (asked := walk.ask()) is not None:
        page, frames = relay.answer(asked)
        walk.take(page, msgspec.structs.replace(frames, limit=cutting_limit([asked])))
    assert walk.complete
    assert relay.asked == 1


@pytest.mark.parametrize(
    ("filters", "limit"),
    [
        ([Filter(ids=["ab" * 32], limit=500)], None),
        ([Filter(ids=["ab" * 32, "cd" * 32], limit=1)], 1),
        ([Filter(ids=["ab" * 32])], None),
        ([Filter(kinds=[1], limit=7)], 7),
        ([Filter(ids=["ab" * 32]), Filter(kinds=[1], limit=7)], 8),
    ],
)
def test_ids_are_no_limit_that_cuts_an_answer(filters: list[Filter], limit: int | None) -> None:
    assert cutting_limit(filters) == limit


def test_a_larger_page_shows_that_a_second_was_not_cut() -> None:
    """Before it, after it, or in an earlier walk."""
    fifty = dense(50)
    assert walked(SimRelay([*fifty, *(event(NOW + 1 + i, i) for i in range(80))], cap=73)).complete
    assert walked(SimRelay([*fifty, *(event(NOW - 1 - i, i) for i in range(80))], cap=73)).complete
    assert walked(SimRelay(fifty), largest=73).complete


@pytest.mark.parametrize("order", list(Order))
def test_a_relay_that_sends_in_another_order_is_read_whole(order: Order) -> None:
    relay = SimRelay(spread(1_200), order=order)
    walk = walked(relay)
    assert len(walk.found) == 1_200
    assert walk.complete
    assert relay.asked <= 25


@pytest.mark.parametrize("hints", [False, True])
@pytest.mark.parametrize("n", [501, 510, 999, 1_200])
def test_the_oldest_sent_newest_first_are_not_taken_for_everything(n: int, hints: bool) -> None:
    """No REQ for what is older brings more; one for what is newer does."""
    walk = walked(SimRelay(spread(n), order=Order.OLDEST_TURNED, hints=hints))
    assert len(walk.found) == n
    assert walk.complete


def test_what_comes_while_the_order_is_shown_is_taken_in() -> None:
    relay, walk = SimRelay(spread(40)), Walk([NOTES], 0, None)
    for number in range(10):
        asked = walk.ask()
        if asked is None:
            break
        walk.take(*relay.answer(asked))
        relay.add(event(NOW + 10 + number, 1_000 + number))
    assert walk.complete
    assert set(walk.found) <= set(relay.events)
    assert relay.asked == 3


@pytest.mark.parametrize(("n", "reqs"), [(9, 2), (10, 3), (500, 3), (900, 4), (1_100, 4)])
def test_an_order_that_no_second_full_page_shows_costs_one_req(n: int, reqs: int) -> None:
    relay = SimRelay(spread(n))
    assert walked(relay).complete
    assert relay.asked == reqs


def test_ten_thousand_events_cost_one_req_to_prove_the_end_and_none_with_finish() -> None:
    """499 of a page are new: the second that it begins with has come before."""
    pages = -(-(10_000 - 1) // 499)
    plain, hinting = SimRelay(spread(10_000)), SimRelay(spread(10_000), hints=True)
    assert walked(plain).complete
    assert walked(hinting).complete
    assert hinting.asked == pages
    assert plain.asked == pages + 1


@pytest.mark.parametrize("n", [0, 1, 12, 499])
def test_after_finish_nothing_is_asked(n: int) -> None:
    relay = SimRelay(dense(n), hints=True)
    assert walked(relay).complete
    assert relay.asked == 1


class SaysFinish(SimRelay):
    """A relay that says `finish` at every page."""

    def answer(self, asked: Filter) -> tuple[list[HeldEvent], StoredFrames]:
        page, was_sent = super().answer(asked)
        return page, msgspec.structs.replace(was_sent, hint=Hint.FINISH)


def test_finish_on_a_page_of_exactly_the_limit_proves_nothing() -> None:
    relay = SaysFinish(spread(1_200))
    assert len(walked(relay).found) == 1_200


def test_finish_beside_a_larger_count_of_the_same_relay_proves_nothing() -> None:
    events = spread(300)
    assert len(walked(SaysFinish(events, cap=100)).found) == 100
    assert len(walked(SaysFinish(events, cap=100), least=300).found) == 300


def test_more_says_that_a_second_was_cut_however_small_the_page() -> None:
    relay = SimRelay(dense(8), cap=5, hints=True)
    walk = walked(relay)
    assert walk.holes == {NOW}
    assert not walk.complete


def test_a_relay_that_says_more_and_sends_nothing_is_not_read_to_its_end() -> None:
    walk = Walk([NOTES], 0, None)
    assert walk.ask() is not None
    walk.take([], StoredFrames(limit=500, hint=Hint.MORE))
    assert walk.ask() is None
    assert not walk.complete


def test_a_second_that_holds_more_than_a_page_is_passed_and_reported() -> None:
    """Case paging-dense-second, with older events below."""
    relay = SimRelay([*dense(1_200), *(event(5 + i, i) for i in range(30))])
    walk = walked(relay)
    assert walk.holes == {NOW}
    assert len(walk.found) == 530


@pytest.mark.parametrize("hints", [False, True])
@pytest.mark.parametrize("sent_of_it", [1, 2, 30])
def test_the_rest_of_a_second_that_a_page_cuts_comes_with_the_next_page(
    sent_of_it: int, hints: bool
) -> None:
    """The first page ends within a second of 31 events; nothing else is dense."""
    newer = [event(NOW + 1 + i, i) for i in range(500 - sent_of_it)]
    older = [event(NOW - 1 - i, i) for i in range(700)]
    relay = SimRelay([*newer, *dense(31), *older], hints=hints)
    walk = walked(relay)
    missing = set(relay.events) - set(walk.found)
    assert not missing, f"{len(missing)} events of the cut second are missing"
    assert walk.complete


def test_pages_are_turned_by_what_was_sent_not_by_what_was_kept() -> None:
    """The newest 1,000 events do not count: those below are found, and nothing is missing."""
    relay = SimRelay(spread(1_500))
    junk = {one.id for one in spread(1_000)}
    walk = Walk([NOTES], 0, None)
    while (asked := walk.ask()) is not None:
        page, was_sent = relay.answer(asked)
        walk.take([one for one in page if one.id not in junk], was_sent)
    assert set(walk.found) == set(relay.events) - junk
    assert walk.complete


class Junk(SimRelay):
    """A relay that fills every page with events that it makes up, and sends no other."""

    def __init__(self, order: Order) -> None:
        super().__init__(order=order)
        self._random = random.Random(1)

    def answer(self, asked: Filter) -> tuple[list[HeldEvent], StoredFrames]:
        self.asked += 1
        top = NOW if asked.until is None else asked.until
        low = asked.since or 0
        times = sorted((self._random.randint(low, max(low, top)) for _ in range(500)), reverse=True)
        if self.order is Order.NEWEST:
            times = [max(top - 1, low)] * 500
        elif self.order is Order.OLDEST:
            times.reverse()
        ids = [self._random.randbytes(32).hex() for _ in times]
        return [], StoredFrames(stamps=tuple(map(Stamp, times, ids)), limit=asked.limit)


@pytest.mark.parametrize("order", [Order.NEWEST, Order.OLDEST])
def test_made_up_events_end_a_walk_and_prove_nothing(order: Order) -> None:
    relay = Junk(order)
    walk = walked(relay)
    assert not walk.complete
    assert walk.stalled
    assert relay.asked <= 4 * MOST_BARREN


def test_a_second_of_which_each_page_brings_new_events_is_passed() -> None:
    """A relay that makes up new ids for one second does not hold us there."""
    walk, number = Walk([NOTES], 0, None), 0
    while (asked := walk.ask()) is not None:
        reaches = (asked.until is None or asked.until >= NOW) and (asked.since or 0) <= NOW
        number += reaches
        stamps = (Stamp(NOW, f"{number:064x}"),) if reaches else ()
        walk.take([], StoredFrames(stamps=stamps, limit=500))
        assert number < 20
    assert not walk.complete


def test_a_page_of_one_second_does_not_show_that_newer_events_come_first() -> None:
    """The oldest second alone fills the page of a relay that sends oldest first."""
    relay = SimRelay([*dense(20, 5), *spread(100)], cap=15, order=Order.OLDEST)
    walk = walked(relay)
    assert walk.holes == {5}
    assert len(walk.found) == 115


def test_an_unreadable_frame_leaves_a_hole_where_it_stood() -> None:
    events = spread(20)
    relay, walk = SimRelay(events), Walk([NOTES], 0, None)
    while (asked := walk.ask()) is not None:
        page = relay.page(asked)
        was_sent = sent(page, asked)
        stamps = tuple(
            None if one.id == events[15].id.hex() else one for one in was_sent.stamps if one
        )
        page = [one for one in page if one.id != events[15].id]
        walk.take(page, msgspec.structs.replace(was_sent, stamps=stamps))
    assert walk.unread == 1
    assert walk.holes == {events[14].created_at}
    assert not walk.complete


def test_a_page_of_unreadable_frames_alone_ends_the_walk() -> None:
    walk = Walk([NOTES], 0, None)
    assert walk.ask() is not None
    walk.take([], StoredFrames(stamps=(None, None), limit=500, hint=Hint.FINISH))
    assert walk.ask() is None
    assert walk.unread == 2
    assert not walk.complete


def test_a_relay_that_ignores_until_is_noticed() -> None:
    page = spread(500)
    walk = Walk([NOTES], 0, None)
    for _ in range(5):
        asked = walk.ask()
        if asked is None:
            break
        was_sent = sent(page, asked)
        walk.take(page if asked.until is None else [], was_sent)
    assert walk.ask() is None
    assert walk.stalled
    assert walk.reached is not None
    assert walk.reached > 0
    assert not walk.complete


class Forgets(SimRelay):
    """Sends oldest first, and never sends an event twice."""

    def _matching(self, asked: Filter) -> list[HeldEvent]:
        found = super()._matching(asked)
        for one in found[: min(self.cap, asked.limit or self.cap)]:
            self.remove(one.id)
        return found


def test_a_relay_that_does_not_repeat_itself_proves_nothing() -> None:
    walk = walked(Forgets(spread(1_200), order=Order.OLDEST))
    assert not walk.complete
    assert walk.stalled


def test_since_and_until_bound_the_walk() -> None:
    for order in Order:
        relay = SimRelay([event(at, 1) for at in range(100)], order=order, cap=SMALL)
        walk = Walk([Filter(kinds=[1], since=40, until=60)], 0, None)
        while (asked := walk.ask()) is not None:
            walk.take(*relay.answer(asked))
        assert sorted(one.created_at for one in walk.found.values()) == list(range(40, 61))
        assert walk.complete


def test_several_filters_are_each_read_to_their_end() -> None:
    """Events that match both filters do not end the second one early."""
    relay = SimRelay(spread(1_200))
    walk = Walk([Filter(kinds=[1]), Filter(kinds=[1, 7])], 0, None)
    while (asked := walk.ask()) is not None:
        walk.take(*relay.answer(asked))
    assert set(walk.found) == set(relay.events)
    assert walk.complete


@pytest.mark.skipif(not CASES, reason="the shared folder is not here")
def test_the_named_cases_are_the_ones_in_the_runner() -> None:
    named = {c["id"] for c in CASES if c["id"].startswith("paging-")}
    assert named == {"paging-dense-second", "paging-counts-invalid-events"}
