"""Both memories do the same, and marks move by complete chains alone."""

from __future__ import annotations

import itertools
import sqlite3
from hashlib import sha256

from hypothesis import given, settings
from hypothesis import strategies as st

from nostr_client import hll
from nostr_client.count.claims import VOID, HeldEvent, ListMemory, ReadCoverage, Update
from nostr_client.count.claims.book import CLAIMS
from nostr_client.count.claims.coverage import (
    DAY,
    HOUR,
    Drift,
    EventChanges,
    Reread,
    gaps,
    holds,
    join,
)
from nostr_client.count.claims.held import HeldRows
from nostr_client.store.file.migrate import create

NOW = 1000
OFFSET = 8


def held(at: int, n: int) -> HeldEvent:
    """Every third does not count."""
    person = sha256(b"%d" % (n % 7)).digest()
    return HeldEvent(at, sha256(b"%d %d" % (at, n)).digest(), person, 0 if n % 3 else VOID)


EVENTS = st.builds(held, st.integers(0, NOW + 20), st.integers(0, 9))
SPANS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=8)


@st.composite
def updates(draw: st.DrawFn) -> Update:
    start = draw(st.integers(0, NOW))
    end = draw(st.none() | st.integers(start, NOW))
    return Update(
        start=start,
        end=end,
        upto=NOW if end is None else end,
        at=NOW + draw(st.integers(0, 5)),
        found=tuple(draw(st.lists(EVENTS, max_size=12))),
        holes=tuple(draw(st.lists(st.integers(start, end or NOW), max_size=2))),
    )


@given(SPANS)
def test_spans_hold_what_was_joined_and_gaps_are_the_rest(parts: list[tuple[int, int]]) -> None:
    spans: tuple[tuple[int, int], ...] = ()
    seconds: set[int] = set()
    for a, b in parts:
        spans = join(spans, a, b)
        seconds |= set(range(a, b + 1))
    assert {s for s in range(42) if holds(spans, s)} == seconds
    assert all(b + 1 < c for (_, b), (c, _) in itertools.pairwise(spans))
    missing = {s for a, b in gaps(spans, 5, 41) for s in range(a, b + 1)}
    assert missing == set(range(5, 42)) - seconds
    starts = [a for a, _ in gaps(spans, 5, 41)]
    assert starts == sorted(starts, reverse=True)


@settings(max_examples=150, deadline=None)
@given(st.lists(updates() | EVENTS, max_size=10), st.booleans(), st.booleans())
def test_the_memory_in_sqlite_does_what_the_one_in_memory_does(
    steps: list[Update | HeldEvent], replaces: bool, older: bool
) -> None:
    """`older`: the first half was written by a version that kept no number of what is held."""
    conn = sqlite3.connect(":memory:")
    create(conn, [CLAIMS])
    plain = ListMemory(replaces=replaces)
    for n, step in enumerate(steps):
        if older and 2 * n == len(steps):
            conn.execute("UPDATE claim_mark SET held = NULL")
        if not n % 2:  # a new one for each use, or one for several
            rows = HeldRows(conn, 1, 2, OFFSET, replaces=replaces)
        if isinstance(step, Update):
            assert rows.apply(step) == plain.apply(step)
        else:
            assert rows.add([step], NOW) == plain.add([step], NOW)
        assert rows.count(NOW - 9, None) == plain.count(NOW - 9, None)
        assert rows.count(0, NOW - 10) == plain.count(0, NOW - 10)
        rows.flush()
    rows = HeldRows(conn, 1, 2, OFFSET, replaces=replaces)
    assert rows.mark == plain.mark
    assert rows.ids_and_authors() == plain.ids_and_authors()
    assert set(rows.events()) == set(plain.events())
    for start, end in [(0, None), (0, 500), (300, 700), (NOW, None)]:
        assert rows.count(start, end) == plain.count(start, end)
    assert [rows.nth(100, n) for n in (1, 2, 9)] == [plain.nth(100, n) for n in (1, 2, 9)]
    assert rows.unseen(NOW + 9) == plain.unseen(NOW + 9)
    registers = conn.execute("SELECT registers FROM claim_mark").fetchone()
    authors = {event.author for event in plain.events() if event.counts}
    if registers is not None:
        assert registers[0] == hll.from_pubkeys(authors, OFFSET)
    conn.close()


@settings(max_examples=150)
@given(st.lists(updates(), max_size=8))
def test_after_an_update_the_window_holds_what_was_found(steps: list[Update]) -> None:
    memory = ListMemory()
    for step in steps:
        memory.apply(step)
        inside = {e.id for e in memory.events() if step.spans(e.created_at)}
        assert inside == {e.id for e in step.found if step.spans(e.created_at)}


def update(start: int, end: int | None, *found: HeldEvent, at: int = NOW, **rest: int) -> Update:
    upto = at if end is None else min(end, at)
    return Update(start=start, end=end, upto=upto, at=at, found=found, **rest)  # type: ignore[arg-type]


def test_last_read_waits_for_the_first_second() -> None:
    memory = ListMemory()
    memory.apply(update(400, None, held(900, 1)))
    assert memory.mark.last_read is None
    assert not memory.mark.complete
    memory.apply(update(0, 399))
    assert memory.mark.last_read == NOW
    assert memory.mark.complete


def test_events_of_the_future_are_held_and_move_nothing() -> None:
    memory = ListMemory()
    memory.apply(update(0, None, held(10, 1), held(NOW + 500, 2)))
    assert memory.count(0, None) == 2
    assert memory.mark.last_read == NOW
    assert memory.mark.newest == 10


def test_the_overlap_grows_with_lateness_and_one_old_event_does_not_blow_it_up() -> None:
    mark = ReadCoverage(covered=((0, 100 * DAY),), newest=100 * DAY)
    changes = EventChanges(added=1, gone=0, exposure=0.0, fresh=(100 * DAY - 3 * HOUR,))
    later = mark.moved(update(0, None, at=100 * DAY + 60), changes, 100 * DAY)
    assert later.overlap == 4.5 * HOUR
    very_late = EventChanges(added=1, gone=0, exposure=0.0, fresh=(50 * DAY,))
    assert mark.moved(update(0, None), very_late, 100 * DAY).overlap == HOUR
    nothing = EventChanges(added=0, gone=0, exposure=0.0)
    after = later.moved(update(0, None, at=103 * DAY + 60), nothing, 100 * DAY)
    assert after.overlap == 2.25 * HOUR


def test_reading_again_is_spread_over_the_period() -> None:
    policy = Reread(every=7 * DAY)
    mark = ReadCoverage(covered=((0, DAY),), swept_at=0)
    assert policy.due(mark, 700, 4 * HOUR) == 17
    assert policy.due(mark, 3, 2 * DAY) == 0
    assert policy.due(mark, 3, 3 * DAY) == 1
    assert policy.due(mark, 700, 30 * DAY) == 100
    assert policy.due(ReadCoverage(), 700, 30 * DAY) == 0


def test_what_may_have_changed_unseen_is_learnt_from_what_was_found_gone() -> None:
    assert Drift.of(ReadCoverage(), 0.0, 100) is None
    unknown = Drift.of(ReadCoverage(), 100 * DAY, 100)
    assert unknown is not None
    assert unknown.share == 0.01
    steady = Drift.of(ReadCoverage(exposure=1e6 * DAY), 100 * DAY, 100)
    assert steady is not None
    assert steady.share < 1e-5
    losing = Drift.of(ReadCoverage(exposure=1e4 * DAY, gone=1000), 100 * DAY, 100)
    assert losing is not None
    assert 0.09 < losing.share < 0.11
