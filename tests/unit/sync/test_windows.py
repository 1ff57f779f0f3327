"""Windows: they leave nothing out, never overlap, and every cut gets smaller."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nostr_client.codecs.filters import Filter
from nostr_client.sync.compare.items import LocalItems, no_items, united
from nostr_client.sync.compare.windows import SyncWindow, WindowSchedule, halve, plan, split_values
from nostr_client.sync.options import SyncOptions
from tests.strategies import lists_up_to

NOW = 2_000_000_000
STAMPS = lists_up_to(st.integers(0, 3_000), 200)


def items(stamps: list[int]) -> LocalItems:
    rows = sorted((stamp, random.Random(n).randbytes(32)) for n, stamp in enumerate(stamps))
    ids = np.frombuffer(b"".join(key for _, key in rows), np.uint8).reshape(len(rows), 32)
    return LocalItems(np.array([stamp for stamp, _ in rows], np.uint64), ids)


def check_cover(windows: list[SyncWindow], filter: Filter, whole: LocalItems) -> None:
    """End to end, gapless, and each window holds exactly its own items."""
    assert windows[0].filter.since == filter.since
    assert windows[-1].filter.until == filter.until
    for one, following in itertools.pairwise(windows):
        assert one.filter.until is not None
        assert following.filter.since == one.filter.until + 1
    assert b"".join(one.items.packed() for one in windows) == whole.packed()
    for one in windows:
        inside = whole.between(one.filter.since, one.filter.until)
        assert one.items.packed() == inside.packed()


@given(STAMPS, st.integers(1, 50))
def test_a_plan_covers_all_in_windows_of_about_the_size(stamps: list[int], size: int) -> None:
    filter, whole = Filter(kinds=[1]), items(stamps)
    windows = plan(filter, whole, size)
    check_cover(windows, filter, whole)
    most = max((stamps.count(one) for one in stamps), default=0)
    assert all(len(one.items) <= 2 * size + most for one in windows)


@given(STAMPS, st.integers(0, 3), st.one_of(st.none(), st.integers(1, 60)))
def test_halving_covers_the_same_and_ends(stamps: list[int], halved: int, most: int | None) -> None:
    filter, whole = Filter(since=0, until=4_000), items(stamps)
    waiting = [SyncWindow(filter, whole, halved)]
    seconds = 0
    while waiting:
        window = waiting.pop()
        smaller = halve(window, NOW, most)
        if not smaller:
            assert window.filter.since == window.filter.until
            seconds += 1
            if seconds > 40:
                return
            continue
        assert len(smaller) >= 2
        check_cover(smaller, window.filter, window.items)
        waiting += smaller


def test_an_open_window_is_halved_down_to_a_second() -> None:
    window = SyncWindow(Filter(), no_items())
    for depth in range(60):
        parts = halve(window, NOW)
        if not parts:
            assert 30 <= depth < 40
            return
        window = parts[0]
    pytest.fail("does not end")


def test_the_maximum_tells_how_many_parts() -> None:
    whole = items(list(range(1_000)))
    assert len(halve(SyncWindow(Filter(), whole), NOW, most=100)) == 21
    assert len(halve(SyncWindow(Filter(), whole), NOW, most=5_000)) == 2


def test_values_are_split_by_kind_then_author_then_tag_then_id() -> None:
    a, b = "a" * 64, "b" * 64
    both = Filter(kinds=[1, 2, 3], authors=[a, b], tags={"#t": ["x", "y"]})
    assert [one.kinds for one in split_values(both)] == [(1,), (2, 3)]
    assert [one.authors for one in split_values(both.replace(kinds=[1]))] == [(a,), (b,)]
    by_tag = split_values(both.replace(kinds=None, authors=None))
    assert [dict(one.tags) for one in by_tag] == [{"#t": ("x",)}, {"#t": ("y",)}]
    assert [one.ids for one in split_values(Filter(ids=[a, b]))] == [(a,), (b,)]
    assert split_values(Filter(kinds=[1], since=5, until=5)) == []


def test_sets_that_overlap_are_united_in_order() -> None:
    whole = items([5, 5, 1, 9, 7])
    parts = [whole.between(None, 5), whole.between(5, None)]
    assert united(parts).packed() == whole.packed()


def test_one_session_at_a_time_until_the_relay_speaks_then_several_until_it_is_crowded() -> None:
    windows = [SyncWindow(Filter(since=n, until=n), no_items()) for n in range(9)]
    schedule = WindowSchedule(windows, SyncOptions(in_flight=4))
    assert schedule.start().filter.since == 8, "newest first"
    assert not schedule.ready
    schedule.speaks()
    for _ in range(3):
        schedule.start()
    assert (schedule.running, schedule.ready) == (4, False)
    assert schedule.crowd()
    schedule.end()
    schedule.speaks()
    assert not schedule.ready, "3 run, and 3 are too many beside one more"
    schedule.end()
    assert schedule.ready


def test_halvings_are_capped_but_for_what_succeeds() -> None:
    schedule = WindowSchedule([], SyncOptions(halvings=3))
    assert [schedule.may_halve() for _ in range(4)] == [True, True, True, False]
    schedule.succeeded()
    assert schedule.may_halve()
