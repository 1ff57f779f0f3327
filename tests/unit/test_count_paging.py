"""Reading backwards: every event is found, or the walk says that some may be missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nostr_client.filters import Filter
from nostr_client.paging import Pager
from tests.conftest import load_cases

if TYPE_CHECKING:
    from collections.abc import Callable

Held = tuple[int, int]  # time, number
CASES = [c for c in load_cases("cases.json") or () if c["category"] == "relay-flow"]


def relay_page(held: list[Held], cap: int, asked: Filter) -> list[Held]:
    until = asked.until if asked.until is not None else 2**62
    found = sorted((h for h in held if (asked.since or 0) <= h[0] <= until), reverse=True)
    return found[: min(cap, asked.limit or cap)]


def walk(
    pager: Pager, page_of: Callable[[Filter], list[Held]], most: int = 10_000
) -> tuple[set[Held], int]:
    """Drive a pager over a made-up relay; gives what was found and the number of pages."""
    found: set[Held] = set()
    for pages in range(most):
        asked = pager.next_filter()
        if asked is None:
            return found, pages
        page = page_of(asked)
        times = [t for t, _ in page]
        fresh = set(page) - found
        found |= fresh
        pager.turn(len(page), len(fresh), min(times, default=None), max(times, default=None))
    raise AssertionError("the walk does not end")


HELD = st.lists(st.integers(0, 12), max_size=60).map(lambda times: list(zip(times, range(99))))  # noqa: B905


@settings(max_examples=300)
@given(HELD, st.integers(1, 8), st.integers(1, 8))
def test_complete_walks_found_everything(held: list[Held], cap: int, page: int) -> None:
    pager = Pager(Filter(), page=page, cap=cap)
    found, pages = walk(pager, lambda asked: relay_page(held, cap, asked))
    assert found <= set(held)
    if pager.complete:
        assert found == set(held)
    else:
        missing = {t for t, _ in set(held) - found}
        assert missing <= set(pager.dense)
    assert pages <= 2 * len(held) + 3


@settings(max_examples=200)
@given(HELD, st.integers(1, 8))
def test_a_cap_that_nobody_told_hides_at_most_one_second(held: list[Held], cap: int) -> None:
    pager = Pager(Filter(), page=500)
    found, _ = walk(pager, lambda asked: relay_page(held, cap, asked))
    hidden = {t for t, _ in set(held) - found} - set(pager.dense)
    assert hidden <= {min(t for t, _ in held)} if held else not hidden


def test_sparse_events_need_few_pages() -> None:
    held = [(t, 0) for t in range(1200)]
    pager = Pager(Filter())
    found, pages = walk(pager, lambda asked: relay_page(held, 500, asked))
    assert pager.complete
    assert len(found) == 1200
    assert pages == 4


def test_one_event_is_complete() -> None:
    pager = Pager(Filter())
    found, _ = walk(pager, lambda asked: relay_page([(5, 0)], 500, asked))
    assert found == {(5, 0)}
    assert pager.complete


@pytest.mark.parametrize("older", [0, 30])
def test_a_second_denser_than_a_page_is_reported(older: int) -> None:
    """Case paging-dense-second: 1,200 events of one second, pages of 500."""
    held = [(1_700_000_000, i) for i in range(1200)] + [(5 + i, i) for i in range(older)]
    pager = Pager(Filter())
    found, _ = walk(pager, lambda asked: relay_page(held, 500, asked))
    assert not pager.complete
    assert pager.dense == [1_700_000_000]
    assert {h for h in found if h[0] < 1_700_000_000} == set(held[1200:])


def test_a_page_is_full_by_frames_received() -> None:
    """Case paging-counts-invalid-events: 11 frames of which one is bad are a full page."""
    pager = Pager(Filter(), page=11)
    pager.turn(received=11, fresh=10, oldest=100, newest=110)
    following = pager.next_filter()
    assert following is not None
    assert following.until == 100


def test_a_relay_that_ignores_until_is_noticed() -> None:
    pager = Pager(Filter())
    pager.turn(500, 500, 100, 200)
    pager.turn(500, 0, 100, 100)
    pager.turn(500, 0, None, None)
    assert pager.next_filter() is None
    assert not pager.complete
    assert pager.stalled


def test_since_ends_the_walk() -> None:
    held = [(t, 0) for t in range(100)]
    pager = Pager(Filter(since=40, until=60), page=7)
    found, _ = walk(pager, lambda asked: relay_page(held, 500, asked))
    assert found == {(t, 0) for t in range(40, 61)}
    assert pager.complete


@pytest.mark.skipif(not CASES, reason="the shared folder is not here")
def test_the_named_cases_are_the_ones_above() -> None:
    named = {c["id"] for c in CASES if c["id"].startswith("paging-")}
    assert named == {"paging-dense-second", "paging-counts-invalid-events"}


def exclusive_page(held: list[Held], cap: int, asked: Filter) -> list[Held]:
    """As some relays do: the second of `until` is left out."""
    until = None if asked.until is None else asked.until - 1
    return relay_page(held, cap, asked.replace(until=until)) if until != -1 else []


@settings(max_examples=200)
@given(HELD, st.integers(1, 8), st.one_of(st.none(), st.integers(0, 12)))
def test_a_relay_that_leaves_out_the_second_of_until_hides_none(
    held: list[Held], cap: int, until: int | None
) -> None:
    pager = Pager(Filter(until=until), page=8, cap=cap)
    found, pages = walk(pager, lambda asked: exclusive_page(held, cap, asked))
    wanted = {h for h in held if until is None or h[0] < until + pager.exclusive}
    if pager.complete:
        assert found == wanted
    else:
        assert {t for t, _ in wanted - found} <= set(pager.dense)
    assert pages <= 3 * len(held) + 4
