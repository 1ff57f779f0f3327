"""What every event store must do; run over a file and over memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from nostr_client import hll
from nostr_client.codecs.event import MAX_TIME
from nostr_client.codecs.filters import Filter
from nostr_client.errors import InvalidFilter
from nostr_client.store.base import SaveStatus
from nostr_client.store.sqlite import SqliteStore
from tests.conformance.store_events import NOW, make, pubkey

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from nostr_client.codecs.keys import VerifiedEvent

URL = "wss://ours.example"


class Clock:
    now = float(NOW)

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["file", "memory"])
async def store(
    request: pytest.FixtureRequest, tmp_path: Path, clock: Clock
) -> AsyncIterator[SqliteStore]:
    path = ":memory:" if request.param == "memory" else str(tmp_path / "s.db")
    async with await SqliteStore.open(path, clock=clock, urls=[URL]) as opened:
        yield opened
        assert (await opened.verify()).problems == ()


async def save(store: SqliteStore, *events: VerifiedEvent) -> list[SaveStatus]:
    return [outcome.status for outcome in await store.save(events)]


async def ids(store: SqliteStore, *filters: Filter) -> list[str]:
    return [event.id for event in await store.query(filters or [Filter()])]


def newest(*events: VerifiedEvent) -> list[str]:
    ordered = sorted(events, key=lambda v: (-v.event.created_at, v.event.id))
    return [verified.event.id for verified in ordered]


async def test_an_event_comes_back_as_it_was(store: SqliteStore) -> None:
    event = make(kind=1, tags=(("e", "x"), ("single",), ("t", "")), content="a\x00b\u2028🤙")
    assert await store.save([event]) == [(event.event.id, SaveStatus.STORED, "")]
    assert await store.query([Filter()]) == [event.event]


async def test_nothing_saved_is_nothing_found(store: SqliteStore) -> None:
    assert await store.save([]) == []
    assert await store.query([Filter()]) == []
    assert await store.query([]) == []
    assert await store.count([Filter()]) == 0


async def test_a_duplicate_is_told_and_kept_once(store: SqliteStore) -> None:
    event = make()
    assert await save(store, event, event) == [SaveStatus.STORED, SaveStatus.DUPLICATE]
    assert await save(store, event) == [SaveStatus.DUPLICATE]
    assert await store.count([Filter()]) == 1


@pytest.mark.parametrize("kind", [0, 3, 10_000, 19_999])
async def test_a_replaceable_kind_keeps_the_newest(store: SqliteStore, kind: int) -> None:
    old, new = make(kind=kind, at=1), make(kind=kind, at=2)
    other = make(1, kind=kind, at=1)
    assert await save(store, old, other) == [SaveStatus.STORED] * 2
    assert await save(store, new) == [SaveStatus.STORED]
    assert await save(store, old) == [SaveStatus.SUPERSEDED]
    assert await ids(store) == newest(new, other)


@pytest.mark.parametrize("kind", [2, 9, 999, 9_999, 20_000 - 10_001, 40_000, 65_535])
async def test_a_regular_kind_keeps_all(store: SqliteStore, kind: int) -> None:
    assert (
        await save(store, make(kind=kind, at=1), make(kind=kind, at=2)) == [SaveStatus.STORED] * 2
    )


async def test_of_equal_times_the_lowest_id_stays(store: SqliteStore) -> None:
    both = [make(kind=0, content=text) for text in "abcdefgh"]
    low = min(both, key=lambda v: v.event.id)
    for event in both:
        await store.save([event])
    assert await ids(store) == [low.event.id]
    assert set(await save(store, *(e for e in both if e is not low))) == {SaveStatus.SUPERSEDED}


async def test_versions_in_one_batch(store: SqliteStore) -> None:
    v1, v2, v3 = (make(kind=3, at=at) for at in (1, 2, 3))
    assert await save(store, v2, v1, v3) == [
        SaveStatus.SUPERSEDED,
        SaveStatus.SUPERSEDED,
        SaveStatus.STORED,
    ]
    assert await ids(store) == [v3.event.id]


@pytest.mark.parametrize("kind", [30_000, 39_999])
async def test_an_address_is_kind_author_and_first_d(store: SqliteStore, kind: int) -> None:
    a1 = make(kind=kind, at=1, tags=(("d", "a"), ("d", "b")))
    b1 = make(kind=kind, at=1, tags=(("d", "b"),))
    a2 = make(kind=kind, at=2, tags=(("d", "a"),))
    assert (
        await save(store, a1, b1, make(1, kind=kind, at=1, tags=(("d", "a"),)))
        == [SaveStatus.STORED] * 3
    )
    assert await save(store, a2) == [SaveStatus.STORED]
    found = await store.query([Filter(authors=[pubkey(0)])])
    assert [event.id for event in found] == newest(a2, b1)


async def test_a_missing_d_is_an_empty_one(store: SqliteStore) -> None:
    none, bare = make(kind=30_000, at=1), make(kind=30_000, at=2, tags=(("d",), ("d", "x")))
    empty = make(kind=30_000, at=3, tags=(("d", ""),))
    for event in (none, bare, empty):
        assert await save(store, event) == [SaveStatus.STORED]
    assert await ids(store) == [empty.event.id]


@pytest.mark.parametrize("kind", [20_000, 29_999])
async def test_ephemeral_events_are_never_stored(store: SqliteStore, kind: int) -> None:
    event = make(kind=kind)
    assert await save(store, event, event) == [SaveStatus.EPHEMERAL] * 2
    assert await ids(store) == []


async def test_a_deletion_removes_and_blocks_its_authors_events_alone(store: SqliteStore) -> None:
    mine, theirs = make(content="mine"), make(1, content="theirs")
    late = make(content="late")
    request = make(kind=5, tags=tuple(("e", e.event.id) for e in (mine, theirs, late)))
    assert await save(store, mine, theirs) == [SaveStatus.STORED] * 2
    assert await save(store, request) == [SaveStatus.STORED]
    assert await ids(store) == newest(theirs, request)
    assert await save(store, late, mine, theirs) == [
        SaveStatus.DELETED,
        SaveStatus.DELETED,
        SaveStatus.DUPLICATE,
    ]
    asked = [mine.event.id, late.event.id, "00" * 32]
    assert await store.known(asked) == set(asked[:2])


async def test_another_authors_deletion_does_not_block_what_comes_later(
    store: SqliteStore,
) -> None:
    theirs = make(1)
    await store.save([make(kind=5, tags=(("e", theirs.event.id),))])
    assert await store.known([theirs.event.id]) == set()
    assert await save(store, theirs) == [SaveStatus.STORED]


async def test_deleting_in_the_same_batch(store: SqliteStore) -> None:
    note, article = make(), make(kind=30_023, tags=(("d", "x"),))
    request = make(kind=5, at=NOW, tags=(("e", note.event.id), ("a", f"30023:{pubkey(0)}:x")))
    assert await save(store, note, article, request, note) == [
        SaveStatus.DELETED,
        SaveStatus.DELETED,
        SaveStatus.STORED,
        SaveStatus.DELETED,
    ]
    assert await ids(store) == [request.event.id]


async def test_a_deletion_reaches_neither_deletions_nor_requests_to_vanish(
    store: SqliteStore,
) -> None:
    victim = make()
    first = make(kind=5, tags=(("e", victim.event.id),))
    vanish = make(kind=62, tags=(("relay", "wss://elsewhere.example"),))
    undo = make(kind=5, at=NOW, tags=(("e", first.event.id), ("e", vanish.event.id)))
    assert await save(store, victim, first, vanish, undo) == [
        SaveStatus.DELETED,
        SaveStatus.STORED,
        SaveStatus.STORED,
        SaveStatus.STORED,
    ]
    assert await save(store, victim, first, vanish) == [
        SaveStatus.DELETED,
        SaveStatus.DUPLICATE,
        SaveStatus.DUPLICATE,
    ]


async def test_an_address_is_deleted_up_to_the_requests_time(store: SqliteStore) -> None:
    def version(at: int) -> VerifiedEvent:
        return make(kind=30_023, at=at, tags=(("d", "a:b:c"),))

    def request(at: int, author: int = 0) -> VerifiedEvent:
        return make(author, kind=5, at=at, tags=(("a", f"30023:{pubkey(0)}:a:b:c"),))

    assert await save(store, version(10)) == [SaveStatus.STORED]
    assert await save(store, request(9), request(20, author=1)) == [SaveStatus.STORED] * 2
    assert await store.count([Filter(kinds=[30_023])]) == 1
    assert await save(store, request(10)) == [SaveStatus.STORED]
    assert await store.count([Filter(kinds=[30_023])]) == 0
    assert await save(store, request(5)) == [SaveStatus.STORED]
    assert await save(store, version(8), version(10)) == [SaveStatus.DELETED] * 2
    assert await save(store, version(11)) == [SaveStatus.STORED]


async def test_a_replaceable_kind_is_deleted_by_address(store: SqliteStore) -> None:
    profile = make(kind=0, at=10)
    await store.save([profile])
    await store.save([make(kind=5, at=10, tags=(("a", f"0:{pubkey(0)}:"),))])
    assert await store.count([Filter(kinds=[0])]) == 0
    assert await save(store, make(kind=0, at=9), make(kind=0, at=11)) == [
        SaveStatus.DELETED,
        SaveStatus.STORED,
    ]


async def test_odd_deletion_tags_do_no_harm(store: SqliteStore) -> None:
    key = pubkey(0)
    odd = ["", "x", "0:", f"x:{key}:", f"-1:{key}:", f"99999999999:{key}:d", f"5:{key}:"]
    odd += [f"1:{key}:", f"0:{key[:-1]}:", f"٣:{key}:"]
    tags = (("e",), ("a",), ("e", "zz"), ("e", pubkey(0).upper()), *(("a", v) for v in odd))
    note = make()
    assert await save(store, note, make(kind=5, tags=tags)) == [SaveStatus.STORED] * 2
    assert await store.count([Filter(kinds=[1])]) == 1


async def test_expired_events_are_refused_then_hidden_then_swept(
    store: SqliteStore, clock: Clock
) -> None:
    gone = make(tags=(("expiration", str(NOW)),))
    soon = make(tags=(("expiration", str(NOW + 10)), ("e", "aa" * 32)))
    stays = make(content="stays", tags=(("e", "aa" * 32),))
    assert await save(store, gone, soon, stays) == [
        SaveStatus.EXPIRED,
        SaveStatus.STORED,
        SaveStatus.STORED,
    ]
    assert await store.sweep() == 0
    by_tag = Filter(tags={"#e": ["aa" * 32]})
    assert await store.count([by_tag]) == 2
    clock.now += 10
    for filter in (Filter(), by_tag, Filter(ids=[soon.event.id, stays.event.id]),
                   Filter(authors=[pubkey(0)]), Filter(kinds=[1]), Filter(limit=5)):  # fmt: skip
        assert await ids(store, filter) == [stays.event.id]
        assert await store.count([filter]) == 1
        assert len((await store.negentropy_items(filter))[0]) == 1
    assert (await store.stats()).events == 2
    assert await store.sweep() == 1
    assert (await store.stats()).events == 1
    assert await save(store, soon) == [SaveStatus.EXPIRED]


@pytest.mark.parametrize("text", ["", "soon", "-1", "1.5", "1e9", "٣٣٣", "9" * 400])
async def test_an_expiration_that_is_no_time_is_none(store: SqliteStore, text: str) -> None:
    assert await save(store, make(tags=(("expiration", text),))) == [SaveStatus.STORED]


async def test_a_recipient_deletes_a_gift_wrap(store: SqliteStore) -> None:
    wrap = make(2, kind=1059, at=10, tags=(("p", pubkey(0)),))
    foreign = make(2, kind=1059, at=11, tags=(("p", pubkey(1)), ("e", pubkey(0))))
    note = make(2, kind=1, at=12, tags=(("p", pubkey(0)),))
    named = tuple(("e", one.event.id) for one in (wrap, foreign, note))
    deletion = make(0, kind=5, at=20, tags=named)
    await store.save([wrap, foreign, note])
    assert await save(store, deletion) == [SaveStatus.STORED]
    assert await ids(store) == newest(foreign, note, deletion)
    assert await save(store, wrap) == [SaveStatus.DELETED]


@pytest.mark.parametrize("deletion_first", [True, False])
async def test_a_recipient_deletes_a_gift_wrap_of_the_same_batch(
    store: SqliteStore, deletion_first: bool
) -> None:
    wrap = make(2, kind=1059, at=10, tags=(("p", pubkey(1)), ("p", pubkey(0))))
    deletion = make(0, kind=5, at=20, tags=(("e", wrap.event.id),))
    batch = [deletion, wrap] if deletion_first else [wrap, deletion]
    (outcome,) = [one for one in await store.save(batch) if one.id == wrap.event.id]
    assert await ids(store) == newest(deletion)
    assert outcome.reason == "its author or its recipient asked for its deletion"
    (outcome,) = await store.save([wrap])
    assert outcome.reason == "its author or its recipient asked for its deletion"


async def test_vanishing_takes_everything_up_to_its_time(store: SqliteStore) -> None:
    before, after = make(at=10), make(at=21)
    deletion, other = make(kind=5, at=11), make(1, at=10)
    wrap = make(2, kind=1059, at=10, tags=(("p", pubkey(0)),))
    new_wrap = make(2, kind=1059, at=30, tags=(("p", pubkey(0)),))
    vanish = make(kind=62, at=20, tags=(("relay", "ALL_RELAYS"),))
    await store.save([before, after, deletion, other, wrap, new_wrap])
    assert await save(store, vanish) == [SaveStatus.STORED]
    assert await ids(store) == newest(after, other, new_wrap, vanish)
    assert await save(store, before, deletion, wrap, make(at=20)) == [SaveStatus.VANISHED] * 4
    assert await save(store, vanish) == [SaveStatus.DUPLICATE]


async def test_vanishing_in_the_same_batch(store: SqliteStore) -> None:
    vanish = make(kind=62, at=20, tags=(("relay", URL),))
    wrap = make(2, kind=1059, at=10, tags=(("p", pubkey(0)),))
    assert await save(store, make(at=10), wrap, vanish, make(at=11), make(at=21)) == [
        SaveStatus.VANISHED,
        SaveStatus.VANISHED,
        SaveStatus.STORED,
        SaveStatus.VANISHED,
        SaveStatus.STORED,
    ]


async def test_vanishing_elsewhere_is_kept_and_not_followed(store: SqliteStore) -> None:
    await store.save([make(at=10)])
    assert await save(store, make(kind=62, at=20, tags=(("relay", "wss://other.example"),))) == [
        SaveStatus.STORED
    ]
    assert await store.count([Filter(kinds=[1])]) == 1


async def test_the_far_future_is_kept_and_counted_apart(store: SqliteStore) -> None:
    far = make(at=1_707_827_688_371)
    farthest = make(at=MAX_TIME)
    assert await save(store, far, farthest, make(at=0)) == [SaveStatus.STORED] * 3
    assert (await ids(store, Filter(limit=1))) == [farthest.event.id]
    stats = await store.stats()
    assert (stats.future, stats.oldest, stats.newest) == (2, 0, MAX_TIME)
    times, _ = await store.negentropy_items(Filter())
    assert times.tolist() == [0, 1_707_827_688_371, MAX_TIME]


async def test_since_and_until_are_inclusive(store: SqliteStore) -> None:
    events = [make(at=at) for at in (99, 100, 101)]
    await store.save(events)
    assert await ids(store, Filter(since=100, until=100)) == [events[1].event.id]
    assert await ids(store, Filter(since=100)) == newest(*events[1:])
    assert await ids(store, Filter(until=100)) == newest(*events[:2])
    assert await ids(store, Filter(until=0)) == []


@pytest.mark.parametrize(
    "filter",
    [
        Filter(ids=[]), Filter(authors=[]), Filter(kinds=[]), Filter(tags={"#e": []}),
        Filter(since=200, until=100), Filter(authors=["ab" * 32]), Filter(limit=0),
    ],
    ids=str,
)  # fmt: skip
async def test_what_matches_nothing(store: SqliteStore, filter: Filter) -> None:
    await store.save([make(at=150)])
    assert await ids(store, filter) == []
    assert len((await store.negentropy_items(filter))[0]) == 0
    if filter.limit is None:
        assert await store.count([filter]) == 0
        assert await store.distinct_authors([filter]) == 0


async def test_order_is_newest_first_then_by_id_also_at_the_limit(store: SqliteStore) -> None:
    events = [make(author, at=100, content=str(n)) for author in range(3) for n in range(10)]
    events += [make(at=101), make(at=99)]
    await store.save(events)
    assert await ids(store) == newest(*events)
    keys = [pubkey(n) for n in range(3)]
    for limit in range(1, 34):
        for filter in (Filter(limit=limit), Filter(authors=keys, kinds=[1, 2], limit=limit)):
            assert await ids(store, filter) == newest(*events)[:limit]


async def test_limits_cut_each_filter_and_doubles_are_one(store: SqliteStore) -> None:
    events = [make(at=at, kind=1 + at % 2) for at in range(10)]
    await store.save(events)
    both = [Filter(kinds=[1], limit=2), Filter(kinds=[1, 2], limit=3)]
    assert await ids(store, *both) == newest(*(events[at] for at in (9, 8, 7, 6)))
    assert await store.count(both) == 10
    assert await store.distinct_authors(both) == 1


async def test_every_condition_must_hold(store: SqliteStore) -> None:
    e, p, t = "ab" * 32, pubkey(5), "word"
    full = make(kind=7, at=50, tags=(("e", e), ("p", p), ("t", t)))
    near = [
        make(1, kind=7, at=50, tags=full.event.tags),
        make(kind=1, at=50, tags=full.event.tags),
        make(kind=7, at=50, tags=full.event.tags[:2]),
        make(kind=7, at=50, tags=full.event.tags[1:]),
        make(kind=7, at=51, tags=full.event.tags),
    ]
    await store.save([full, *near])
    exact = Filter(
        authors=[pubkey(0)], kinds=[7], since=50, until=50, tags={"#e": [e], "#p": [p], "#t": [t]}
    )
    for filter in (exact, exact.replace(ids=[full.event.id]), exact.replace(limit=5)):
        assert await ids(store, filter) == [full.event.id]
        assert await store.count([filter]) == 1
    assert await ids(store, exact.replace(ids=[near[0].event.id])) == []


async def test_several_values_of_one_tag_count_an_event_once(store: SqliteStore) -> None:
    values = [f"{n:02x}" * 32 for n in range(30)]
    events = [
        make(at=100 + n, kind=7, tags=(("e", values[n]), ("e", values[0]), ("e", values[0])))
        for n in range(30)
    ]
    await store.save(events)
    for limit in (1, 5, 29, 30, 31):
        filter = Filter(tags={"#e": values}, limit=limit)
        assert await ids(store, filter) == newest(*events)[:limit]
    assert await store.count([Filter(tags={"#e": values})]) == 30
    assert await store.count([Filter(tags={"#e": [values[0]]})]) == 30
    assert len((await store.negentropy_items(Filter(tags={"#e": values})))[0]) == 30


async def test_tags_are_found_by_exact_name_and_value(store: SqliteStore) -> None:
    event = make(tags=(("t", "a"), ("T", "b"), ("long", "c"), ("1", "d"), ("é", "e"), ("t",)))
    await store.save([event])
    assert await store.count([Filter(tags={"#t": ["a"]})]) == 1
    for name, value in (("#t", "b"), ("#T", "a"), ("#t", "A"), ("#t", ""), ("#l", "c")):
        assert await store.count([Filter(tags={name: [value]})]) == 0
    assert (await store.stats()).tags == 2


async def test_distinct_authors_and_registers(store: SqliteStore) -> None:
    target = "cd" * 32
    events = [
        make(author, kind=7, at=100 + n, tags=(("e", target),))
        for author in range(20)
        for n in range(2)
    ]
    await store.save([*events, make(30, kind=1, tags=(("e", target),))])
    filter = Filter(kinds=[7], tags={"#e": [target]})
    assert await store.count([filter]) == 40
    assert await store.distinct_authors([filter]) == 20
    assert await store.distinct_authors([filter, Filter(kinds=[1])]) == 21
    offset = hll.offset(filter.to_dict())
    assert offset is not None
    keys = [pubkey(author) for author in range(20)]
    assert await store.registers(filter) == hll.from_pubkeys(keys, offset)
    assert await store.registers(Filter(tags={"#e": ["ee" * 32]})) == bytes(256)
    with pytest.raises(InvalidFilter):
        await store.registers(Filter(kinds=[7]))


async def test_negentropy_items_ascend_by_time_and_id(store: SqliteStore) -> None:
    events = [make(author, at=100 + n // 3) for author in range(3) for n in range(9)]
    await store.save(events)
    for filter in (Filter(), Filter(kinds=[1]), Filter(authors=[pubkey(n) for n in range(3)]),
                   Filter(limit=100), Filter(since=101)):  # fmt: skip
        times, raw = await store.negentropy_items(filter)
        assert (times.dtype, raw.dtype, raw.shape) == (np.uint64, np.uint8, (len(times), 32))
        got = [(int(at), row.tobytes().hex()) for at, row in zip(times, raw, strict=True)]
        matching = {(v.event.created_at, v.event.id) for v in events if filter.matches(v.event)}
        assert got == sorted(matching)
    times, _ = await store.negentropy_items(Filter(limit=4))
    assert times.tolist() == [101, 102, 102, 102] or len(times) == 4


async def test_what_a_rule_did_away_with_is_known(store: SqliteStore, clock: Clock) -> None:
    old, new = make(kind=0, at=1), make(kind=0, at=2)
    soon = make(tags=(("expiration", str(NOW + 1)),))
    gone = make(tags=(("expiration", str(NOW)),))
    older = make(kind=0, at=0)
    before = make(1, at=5)
    vanish = make(1, kind=62, at=6, tags=(("relay", "ALL_RELAYS"),))
    await store.save([old, soon, before])
    await store.save([new, older, gone, vanish])
    clock.now += 1
    await store.sweep()
    events = [old, new, soon, gone, older, before, vanish]
    assert await store.known(e.event.id for e in events) == {e.event.id for e in events}
    assert await store.held(e.event.id for e in events) == {new.event.id, vanish.event.id}
    await store.delete([Filter()])
    assert await store.known([new.event.id, old.event.id]) == {old.event.id}


async def test_delete_forgets_without_a_tombstone(store: SqliteStore) -> None:
    events = [make(at=at) for at in range(5)]
    await store.save(events)
    assert await store.delete([Filter(until=1), Filter(limit=1)]) == 3
    assert await ids(store) == newest(*events[2:4])
    assert await save(store, events[0]) == [SaveStatus.STORED]


async def test_stream_gives_what_query_gives(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nostr_client.store.query.snapshot.PAGE", 4)
    events = [make(author, at=100 + n // 7, content=str(n)) for author in (0, 1) for n in range(30)]
    await store.save(events)
    for filters in ([Filter()], [Filter(limit=9)], [Filter(limit=0)], [],
                    [Filter(authors=[pubkey(0)], limit=10), Filter(since=102), Filter(limit=3)],
                    [Filter(kinds=[])], [Filter(until=103), Filter(until=103)]):  # fmt: skip
        streamed = [event async for event in store.stream(filters)]
        assert streamed == await store.query(filters)


async def test_hooks_run_inside_the_transaction(store: SqliteStore) -> None:
    seen: list[list[tuple[str, SaveStatus]]] = []
    gone: list[str] = []

    def on_batch(conn: object, pairs: Any) -> None:
        seen.append([(event.id, outcome.status) for event, outcome in pairs])

    store.on_batch.append(on_batch)
    store.on_remove.append(lambda conn, events: gone.extend(event.id for event in events))
    old, new = make(kind=0, at=1), make(kind=0, at=2)
    await store.save([old])
    await store.save([new, old])
    assert seen == [
        [(old.event.id, SaveStatus.STORED)],
        [(new.event.id, SaveStatus.STORED), (old.event.id, SaveStatus.SUPERSEDED)],
    ]
    assert gone == [old.event.id]


async def test_a_failing_hook_undoes_its_batch(store: SqliteStore) -> None:
    def refuse(conn: object, pairs: object) -> None:
        raise LookupError("no")

    await store.save([make(content="first")])
    store.on_batch.append(refuse)
    with pytest.raises(LookupError):
        await store.save([make(7, content="second")])
    store.on_batch.clear()
    assert await save(store, make(8), make(7)) == [SaveStatus.STORED] * 2
    assert await store.distinct_authors([Filter()]) == 3


async def test_vacuum_and_stats(store: SqliteStore) -> None:
    events = [make(n, content="x" * 5_000, tags=(("e", "ab" * 32),)) for n in range(50)]
    await store.save(events)
    before = await store.stats()
    assert (before.events, before.authors, before.tags, before.kinds) == (50, 50, 50, {1: 50})
    await store.delete([Filter()])
    await store.vacuum()
    after = await store.stats()
    assert (after.events, after.tags) == (0, 0)
    assert after.bytes < before.bytes
