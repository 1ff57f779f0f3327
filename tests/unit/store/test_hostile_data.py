"""What a hostile writer signs: stored, found, counted, exported and read again byte for byte."""

from __future__ import annotations

import io
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from nostr_client.codecs.event import MAX_TIME
from nostr_client.codecs.filters import Filter
from nostr_client.errors import StoreCorrupt
from nostr_client.store.base import SaveStatus
from nostr_client.store.sqlite import SqliteStore
from nostr_client.sync.files.jsonl import import_jsonl
from tests.conformance.store_events import NOW, exported, make, pubkey

if TYPE_CHECKING:
    from pathlib import Path

    from nostr_client.codecs.keys import VerifiedEvent

CONTROLS = "".join(map(chr, range(0x20))) + "\x7f\x85\u2028\u2029\ufeff\ufffe\U0010ffff"


async def round_trip(store: SqliteStore, events: list[VerifiedEvent], wanted: Filter) -> None:
    """Saved, found by a filter, counted, exported, imported elsewhere, and equal throughout."""
    assert {o.status for o in await store.save(events)} == {SaveStatus.STORED}
    canonical = sorted(events, key=lambda v: (v.event.created_at, v.event.id))
    lines = b"".join(v.event.to_json().encode() + b"\n" for v in canonical)
    found = await store.query([wanted])
    assert {event.id for event in found} == {v.event.id for v in events}
    assert await store.count([wanted]) == len(events)
    assert await exported(store) == lines
    async with await SqliteStore.open(":memory:", clock=lambda: NOW) as other:
        report = await import_jsonl(other, io.BytesIO(lines))
        assert report.stored == len(events)
        assert await exported(other) == lines
        assert await other.query([wanted]) == found
    assert (await store.verify()).problems == ()


async def test_control_characters_everywhere(store: SqliteStore) -> None:
    tags = (("t", CONTROLS), (CONTROLS, CONTROLS), ("d", f"a\x00{CONTROLS}"), ("",), ("e", "\x00"))
    events = [make(kind=kind, tags=tags, content=CONTROLS) for kind in (1, 30_023)]
    await round_trip(store, events, Filter(tags={"#t": [CONTROLS]}))
    assert await store.count([Filter(tags={"#t": [CONTROLS[:1]]})]) == 0
    assert await store.count([Filter(tags={"#d": [f"a\x00{CONTROLS}"]})]) == 2
    assert await store.count([Filter(tags={"#d": ["a"]})]) == 0


async def test_addresses_that_differ_after_a_nul_are_two(store: SqliteStore) -> None:
    events = [make(kind=30_023, tags=(("d", f"a\x00{end}"),)) for end in ("", "b", "c")]
    await round_trip(store, events, Filter(kinds=[30_023]))
    request = make(kind=5, at=NOW, tags=(("a", f"30023:{pubkey(0)}:a\x00b"),))
    await store.save([request])
    left = await store.query([Filter(kinds=[30_023])])
    assert {event.first_tag("d") for event in left} == {"a\x00", "a\x00c"}


async def test_values_of_a_hundred_kilobytes(store: SqliteStore) -> None:
    big = "🤙" * 25_000
    events = [
        make(kind=kind, tags=(("t", big), ("d", big + "x"), ("n" * 100_000, "v")), content=big)
        for kind in (1, 30_023)
    ]
    await round_trip(store, events, Filter(tags={"#t": [big]}))
    assert await store.count([Filter(tags={"#t": [big[:-1]]})]) == 0


async def test_a_follow_list_of_twenty_thousand(store: SqliteStore) -> None:
    keys = [f"{n:064x}" for n in range(20_000)]
    event = make(kind=3, tags=tuple(("p", key, "", "name") for key in keys))
    await round_trip(store, [event], Filter(tags={"#p": [keys[-1]]}))
    assert (await store.stats()).tags == 20_000
    newer = make(kind=3, at=NOW, tags=(("p", keys[0]),))
    assert [o.status for o in await store.save([newer])] == [SaveStatus.STORED]
    assert (await store.stats()).tags == 1


async def test_a_deletion_of_twenty_thousand(store: SqliteStore) -> None:
    notes = [make(content=str(n)) for n in range(20)]
    others = tuple(("e", f"{n:064x}") for n in range(20_000))
    await store.save(notes)
    await store.save([make(kind=5, tags=(*others, *(("e", n.event.id) for n in notes)))])
    assert await store.count([Filter(kinds=[1])]) == 0
    assert (await store.stats()).deleted_ids == 20_020


async def test_thousands_of_events_of_one_second(store: SqliteStore) -> None:
    events = [make(n % 3, at=NOW, content=str(n)) for n in range(3_000)]
    await store.save(events)
    lowest = sorted(v.event.id for v in events)
    for wanted in (Filter(limit=7), Filter(kinds=[1], limit=7), Filter(until=NOW, limit=7)):
        assert [event.id for event in await store.query([wanted])] == lowest[:7]
    streamed = [event.id async for event in store.stream([Filter()])]
    assert streamed == lowest


async def test_extreme_times(store: SqliteStore) -> None:
    events = [make(at=at) for at in (0, 1, 2**31, 2**32, 2**53 + 1, MAX_TIME - 1, MAX_TIME)]
    await round_trip(store, events, Filter(since=0, until=MAX_TIME))
    newest = await store.query([Filter(since=MAX_TIME)])
    assert [event.created_at for event in newest] == [MAX_TIME]


async def test_large_filters(store: SqliteStore) -> None:
    events = [make(n, kind=1, tags=(("t", str(n)),)) for n in range(20)]
    await store.save(events)
    keys = [f"{n:064x}" for n in range(5_000)] + [pubkey(n) for n in range(20)]
    words = [str(n) for n in range(5_000)]
    kinds = list(range(3_000))
    for wanted in (
        Filter(authors=keys), Filter(ids=[*keys, *(v.event.id for v in events)]),
        Filter(tags={"#t": words}), Filter(kinds=kinds), Filter(authors=keys, kinds=kinds),
        Filter(authors=keys, kinds=kinds, tags={"#t": words}),
    ):  # fmt: skip
        assert len(await store.query([wanted])) == 20
        assert len(await store.query([wanted.replace(limit=3)])) == 3
        assert await store.count([wanted]) == 20
        assert await store.distinct_authors([wanted]) == 20


async def test_ids_of_one_prefix(tmp_path: Path) -> None:
    """Ids that somebody mined to share their first bytes land side by side in the index."""
    wanted = [v for v in (make(content=str(n)) for n in range(3_000)) if v.event.id[:2] == "00"]
    assert len(wanted) > 3
    async with await SqliteStore.open(tmp_path / "s.db", clock=lambda: NOW) as store:
        await round_trip(store, wanted, Filter(ids=[v.event.id for v in wanted]))
        times, ids = await store.negentropy_items(Filter())
        assert [row.tobytes().hex() for row in ids] == sorted(v.event.id for v in wanted)
        assert set(times.tolist()) == {NOW - 1_000}


async def test_values_that_share_a_hash_are_told_apart(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a hash of two bits every query meets strangers; no wrong event may come back."""
    for hasher in (store._hasher, store._saver.hasher):
        monkeypatch.setattr(hasher, "_shift", 62)
    events = [make(at=100 + n, tags=(("t", f"v{n % 10}"), ("e", "x"))) for n in range(60)]
    await store.save(events)
    for value in range(10):
        for limit in (None, 1, 3, 6, 100):
            wanted = Filter(tags={"#t": [f"v{value}"]}, limit=limit)
            found = [event.created_at for event in await store.query([wanted])]
            everything = [100 + n for n in range(59, -1, -1) if n % 10 == value]
            assert found == everything[:limit]


async def test_a_statement_as_a_value_is_a_value(store: SqliteStore) -> None:
    text = "'); DROP TABLE event; --"
    events = [make(kind=30_023, tags=(("d", text), ("t", text)), content=text)]
    await round_trip(store, events, Filter(tags={"#d": [text]}))


async def test_damaged_rows_are_told_and_not_believed(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    async with await SqliteStore.open(path, clock=lambda: NOW) as store:
        await store.save([make(), make(1, tags=(("t", "x"),))])
    conn = sqlite3.connect(path)
    conn.execute("UPDATE event SET tags = x'ff' WHERE seq = 1")
    conn.execute("UPDATE event SET exp = 5, sig = x'00' WHERE seq = 2")
    conn.commit()
    conn.close()
    async with await SqliteStore.open(path, clock=lambda: NOW) as store:
        with pytest.raises(StoreCorrupt):
            await store.query([Filter()])
        report = await store.verify()
    assert report.found == 3
    assert {problem.what.split()[0] for problem in report.problems} == {"an", "the", "not"}


@pytest.mark.parametrize("read_only", [True, False])
async def test_a_schema_that_is_no_text_is_a_damaged_store(tmp_path: Path, read_only: bool) -> None:
    """SQLite quotes it in its error, which Python then cannot read."""
    path = tmp_path / "s.db"
    async with await SqliteStore.open(path) as store:
        await store.save([make()])
    with closing(sqlite3.connect(path)) as conn, conn:
        conn.execute("PRAGMA writable_schema = ON")
        damage = "UPDATE sqlite_schema SET name = CAST(x'76f3' AS TEXT), sql = 'CREATE TABLE ('"
        assert conn.execute(f"{damage} WHERE name = 'vanished'").rowcount
    with pytest.raises(StoreCorrupt, match="no text"):
        await SqliteStore.open(path, read_only=read_only)


async def test_floods_of_requests_in_one_batch_stay_cheap(store: SqliteStore) -> None:
    """Thousands of people vanish, and one request names thousands of the batch's own events:
    each looks at its own events, not at all of them."""
    notes = [make(0, content=str(n)) for n in range(2_000)]
    tags = tuple(("e", v.event.id) for v in notes)
    farewell = (("relay", "ALL_RELAYS"),)
    vanishing = [make(10 + n, kind=62, at=NOW, tags=farewell) for n in range(2_000)]
    outcomes = await store.save([*notes, make(kind=5, tags=tags), *vanishing, *notes[:5]])
    assert [o.status for o in outcomes[:2_000]] == [SaveStatus.DELETED] * 2_000
    assert [o.status for o in outcomes[2_000:4_001]] == [SaveStatus.STORED] * 2_001
    assert await store.count([Filter()]) == 2_001
