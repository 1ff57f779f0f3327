"""Derived tables: what followed along equals what is built from nothing, and the truth."""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

import pytest

from nostr_client import hll
from nostr_client.codecs.filters import Filter
from nostr_client.count.queries import CANONICAL
from nostr_client.errors import StoreError
from nostr_client.store import rows
from nostr_client.store.index import update as index_update
from nostr_client.store.index.keeper import Day, HotRow, Index, Zapped, stored_events
from nostr_client.store.index.schema import DAY, TRACKED
from nostr_client.store.sqlite import SqliteStore
from tests.conformance.store_events import NOW, make, pubkey
from tests.zapping import invoice, zap_tags

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from nostr_client.codecs.event import Event
    from nostr_client.codecs.keys import VerifiedEvent

HOT = 4
TABLES = ("hot", "hot_author", "daily", "daily_author", "zap")
NOTE, NOTE2 = "ab" * 32, "cd" * 32


@pytest.fixture(autouse=True)
def _few_are_hot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_update, "HOT", HOT)


@pytest.fixture(params=["file", "memory"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[SqliteStore]:
    path = ":memory:" if request.param == "memory" else str(tmp_path / "s.db")
    async with await SqliteStore.open(path, clock=lambda: NOW) as opened:
        yield opened


async def tables(store: SqliteStore) -> dict[str, list[tuple[Any, ...]]]:
    """All tables, targets by name: the number of a target is nobody's business."""

    def read(conn: sqlite3.Connection) -> dict[str, list[tuple[Any, ...]]]:
        a = index_update.ALIAS
        found = {
            name: conn.execute(f"SELECT * FROM {a}.{name} ORDER BY 1, 2, 3").fetchall()
            for name in ("daily", "daily_author", "zap")
        }
        found["hot"] = conn.execute(
            f"SELECT name, value, kind, events, authors, registers FROM {a}.hot ORDER BY 1, 2, 3"
        ).fetchall()
        found["hot_author"] = conn.execute(
            f"SELECT name, value, kind, a, n FROM {a}.hot_author JOIN {a}.hot USING (t)"
            " ORDER BY 1, 2, 3, 4"
        ).fetchall()
        return found

    return await store.database.read(read)


def truth(events: list[Event]) -> dict[tuple[str, str, int], tuple[int, int, bytes]]:
    """Hot targets as anybody would count them: events, authors, registers."""
    seen: dict[tuple[str, str, int], list[str]] = defaultdict(list)
    for event in events:
        for name, value in {(t[0], t[1]) for t in event.tags if len(t) > 1}:
            if (name, event.kind) in TRACKED:
                seen[name, value, event.kind].append(event.pubkey)
    hot = {}
    for (name, value, kind), keys in seen.items():
        if len(keys) >= HOT:
            offset = hll.offset({f"#{name}": [value]})
            assert offset is not None
            hot[name, value, kind] = (len(keys), len(set(keys)), hll.from_pubkeys(keys, offset))
    return hot


async def check(store: SqliteStore, index: Index) -> None:
    """Equal to a rebuild, once what is dirty was read again; exact before that, but registers."""
    followed = await tables(store)
    expected = truth(await store.query([Filter()]))
    for name, value, kind, events, authors, registers in followed["hot"]:
        want = expected[name, value, kind]
        assert (events, authors) == want[:2]
        assert all(a >= b for a, b in zip(registers, want[2], strict=True))
        found = await index.hot(name, value, kind)
        assert found is not None
        assert found.dirty or registers == want[2]
    assert len(followed["hot"]) == len(expected)
    await index.refresh()
    refreshed = await tables(store)
    await index.rebuild()
    assert refreshed == await tables(store)
    assert refreshed | {"hot": 0} == followed | {"hot": 0}


def some(rng: random.Random, count: int) -> list[VerifiedEvent]:
    events: list[VerifiedEvent] = []
    for index in range(count):
        kind = rng.choice([1, 1, 3, 5, 6, 7, 7, 7, 9735, 1111])
        target = rng.choice([NOTE, NOTE2])
        tags = {
            3: tuple(("p", pubkey(n)) for n in rng.sample(range(6), 3)),
            5: tuple(("e", rng.choice(events).event.id) for _ in range(3)) if events else (),
            9735: zap_tags(f"{rng.randrange(1, 99)}u", pubkey(1), ("e", target)),
            1111: (("E", target), ("q", target), ("q", target)),
        }.get(kind, (("e", target), ("e", target), ("t", "x")))
        at = NOW - rng.randrange(3) * DAY + index
        events.append(make(rng.randrange(8), kind, at=at, tags=tags, content=str(index)))
    return events


@pytest.mark.parametrize("seed", range(4))
async def test_following_along_equals_building_anew(store: SqliteStore, seed: int) -> None:
    rng = random.Random(seed)
    events = some(rng, 150)
    await store.save(events[:40])
    index = await Index.open(store)
    await check(store, index)
    left = events[40:]
    while left:
        size = rng.randrange(1, 12)
        await store.save(left[:size])
        left = left[size:]
        if rng.random() < 0.2:
            await store.delete([Filter(kinds=[7], limit=rng.randrange(6))])
    await check(store, index)
    await store.delete([Filter()])
    assert not any((await tables(store)).values())


async def test_hot_targets(store: SqliteStore) -> None:
    index = await Index.open(store)
    likes = [make(n, kind=7, tags=(("e", NOTE),)) for n in range(HOT)]
    await store.save(likes[:-1])
    assert await index.hot("e", NOTE, 7) is None
    await store.save(likes[-1:])
    offset = hll.offset({"#e": [NOTE]})
    assert offset is not None
    registers = hll.from_pubkeys([pubkey(n) for n in range(HOT)], offset)
    assert await index.hot("e", NOTE, 7) == HotRow(HOT, HOT, registers, dirty=False)
    again = make(0, kind=7, at=NOW, tags=(("e", NOTE),))
    more = make(99, kind=7, tags=(("e", NOTE),))
    await store.save([again, more])
    found = await index.hot("e", NOTE, 7)
    assert found is not None
    assert (found.events, found.authors, found.dirty) == (HOT + 2, HOT + 1, False)
    await store.save([make(0, kind=5, at=NOW, tags=(("e", again.event.id),))])
    found = await index.hot("e", NOTE, 7)
    assert found is not None
    assert (found.events, found.authors, found.dirty) == (HOT + 1, HOT + 1, False)
    await store.save([make(99, kind=5, at=NOW, tags=(("e", more.event.id),))])
    found = await index.hot("e", NOTE, 7)
    assert found is not None
    assert (found.events, found.authors, found.dirty) == (HOT, HOT, True)
    assert await index.refresh() == 1
    assert await index.hot("e", NOTE, 7) == HotRow(HOT, HOT, registers, dirty=False)
    await store.delete([Filter(authors=[pubkey(1)])])
    assert await index.hot("e", NOTE, 7) is None


async def test_unfollowing_is_seen(store: SqliteStore) -> None:
    index = await Index.open(store)
    star = pubkey(50)
    await store.save([make(n, kind=3, at=1, tags=(("p", star),)) for n in range(6)])
    await store.save([make(5, kind=3, at=2, tags=(("p", NOTE),))])
    found = await index.hot("p", star, 3)
    assert found is not None
    assert (found.events, found.authors, found.dirty) == (5, 5, True)


async def test_days(store: SqliteStore) -> None:
    index = await Index.open(store)
    await store.save([make(0, at=DAY), make(0, at=2 * DAY - 1), make(1, at=DAY), make(at=2 * DAY)])
    await store.save([make(0, kind=7, at=DAY)])
    assert await index.daily(0, 2 * DAY) == [Day(1, 1, 3, 2), Day(1, 7, 1, 1), Day(2, 1, 1, 1)]
    assert await index.daily(DAY, DAY + 5, 7) == [Day(1, 7, 1, 1)]
    await store.delete([Filter(until=DAY, authors=[pubkey(0)])])
    assert await index.daily(0, DAY) == [Day(1, 1, 2, 2)]


async def test_zap_sums(store: SqliteStore) -> None:
    index = await Index.open(store)
    await store.save(
        [
            make(0, 9735, tags=zap_tags("10u", pubkey(9), ("e", NOTE))),
            make(1, 9735, tags=zap_tags("2500n", pubkey(8), ("e", NOTE))),
            make(2, 9735, tags=(("e", NOTE), ("p", pubkey(9)), ("bolt11", invoice("10u")))),
            make(2, 9735, tags=(("e", NOTE2),)),
        ]
    )
    assert await index.zaps("e", NOTE) == Zapped(2, 1_250_000)
    assert await index.zaps("p", pubkey(9)) == Zapped(1, 1_000_000)
    assert await index.zaps("e", NOTE2) == Zapped(0, 0)
    await store.delete([Filter(authors=[pubkey(0)])])
    assert await index.zaps("e", NOTE) == Zapped(1, 250_000)
    assert await index.zaps("p", pubkey(9)) == Zapped(0, 0)


async def test_zap_sums_are_of_what_receipts_claim(store: SqliteStore) -> None:
    """Neither the author of the event they name nor a second claim of an invoice matters."""
    index = await Index.open(store)
    note = make(3, 1)
    tags = zap_tags("10u", pubkey(9), ("e", note.event.id))
    await store.save([note, make(0, 9735, tags=tags), make(1, 9735, tags=tags)])
    assert await index.zaps("e", note.event.id) == Zapped(2, 2_000_000)


async def test_sums_do_not_overflow(store: SqliteStore) -> None:
    index = await Index.open(store)
    await store.database.write(
        lambda conn: (
            conn.execute(
                f"INSERT INTO {index_update.ALIAS}.zap VALUES ('e', ?, 1, ?)", (NOTE, 9 * 10**18)
            ).rowcount
        )
    )
    tags = zap_tags("100", pubkey(9), ("e", NOTE))
    await store.save([make(n, 9735, tags=tags) for n in range(3)])
    assert (await index.zaps("e", NOTE)).msats == 9 * 10**18


async def test_an_undone_batch_is_undone_here_too(store: SqliteStore) -> None:
    index = await Index.open(store)
    await store.save([make(n, kind=7, tags=(("e", NOTE),)) for n in range(HOT - 1)])

    def refuse(conn: object, pairs: object) -> None:
        raise LookupError

    store.on_batch.append(refuse)
    with pytest.raises(LookupError):
        await store.save([make(50 + n, kind=7, tags=(("e", NOTE),)) for n in range(3)])
    store.on_batch.remove(refuse)
    await store.save([make(60, kind=7, tags=(("e", NOTE),))])
    await check(store, index)
    found = await index.hot("e", NOTE, 7)
    assert found is not None
    assert found.events == HOT


async def test_what_an_index_missed_is_caught_up(tmp_path: Path) -> None:
    rng = random.Random(7)
    events = some(rng, 200)
    for part, removes in ((events[:60], False), (events[60:120], False), (events[120:], True)):
        async with await SqliteStore.open(tmp_path / "s.db", clock=lambda: NOW) as store:
            await store.save(part)  # no index is attached
            if removes:
                await store.delete([Filter(kinds=[7], limit=5)])
        async with await SqliteStore.open(tmp_path / "s.db", clock=lambda: NOW) as store:
            await check(store, await Index.open(store))


async def test_a_build_reads_so_many_bytes_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "PART_BYTES", 5_000)
    sizes = [10, 4_000, 9_000, *[1_200] * 6, 10]
    made = [make(content="x" * size, at=NOW - n) for n, size in enumerate(sizes)]
    async with await SqliteStore.open(tmp_path / "s.db", clock=lambda: NOW) as store:
        await store.save(made)
        parts = await store.database.read(lambda conn: list(stored_events(conn, 0)))
    assert {e for part in parts for e in part} == {one.event for one in made}
    for part in parts:
        assert sum(len(e.content) for e in part[:-1]) < 5_000
    assert 1 < len(parts) < len(made)


async def test_an_index_of_another_version_is_built_again(tmp_path: Path) -> None:
    async with await SqliteStore.open(tmp_path / "s.db", clock=lambda: NOW) as store:
        index = await Index.open(store)
        await store.save(some(random.Random(1), 60))
        expected = await tables(store)
        path = index.path(0)
    assert path is not None
    conn = sqlite3.connect(path)
    conn.execute("UPDATE about SET value = 0 WHERE key = 'version'")
    conn.execute("DROP TABLE daily")
    conn.commit()
    conn.close()
    async with await SqliteStore.open(tmp_path / "s.db", clock=lambda: NOW) as store:
        index = await Index.open(store)
        await index.refresh()
        found = await tables(store)
    assert Counter(map(str, found["daily"])) == Counter(map(str, expected["daily"]))


def index_files(folder: Path) -> set[str]:
    return {path.name for path in folder.glob("*.index-*") if path.suffix == ".db"}


async def test_a_bulk_build_is_adopted_with_what_happened_since(tmp_path: Path) -> None:
    events = some(random.Random(3), 200)
    async with await SqliteStore.open(tmp_path / "s.db", clock=lambda: NOW) as store:
        index = await Index.open(store)
        await store.save(events[:120])
        await index.refresh()
        await index.snapshot()
        copy = tmp_path / "built.db"
        target = str(copy)
        await store.database.maintain(
            lambda conn: conn.execute(f"VACUUM {index_update.ALIAS} INTO ?", (target,)).fetchall()
        )
        await store.save(events[120:])
        await store.delete([Filter(kinds=[7], limit=4), Filter(kinds=[7], until=NOW, limit=9)])
        read_before = await index.daily(0, NOW + DAY)
        assert await index.adopt(copy) == 1
        assert await index.daily(0, NOW + DAY) == read_before
        await check(store, index)
        assert index_files(tmp_path) == {"s.index-1.db"}
        await store.save([make(77, kind=7, at=NOW, tags=(("e", NOTE),))])
    async with await SqliteStore.open(tmp_path / "s.db", clock=lambda: NOW) as store:
        await check(store, await Index.open(store))


async def test_a_bulk_build_of_an_unknown_moment_is_not_believed(tmp_path: Path) -> None:
    async with await SqliteStore.open(tmp_path / "s.db", clock=lambda: NOW) as store:
        index = await Index.open(store)
        await store.save(some(random.Random(3), 100))
        path = index.path(0)
        assert path is not None
        await store.database.maintain(
            lambda conn: conn.execute(f"PRAGMA {index_update.ALIAS}.wal_checkpoint").fetchall()
        )
        shutil.copyfile(path, tmp_path / "built.db")
        await store.delete([Filter(kinds=[7])])
        await index.adopt(tmp_path / "built.db")
        await check(store, index)


async def test_readers_of_another_process_see_the_index(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    async with await SqliteStore.open(path, clock=lambda: NOW) as store:
        async with await SqliteStore.open(path, read_only=True) as reader:
            with pytest.raises(StoreError):
                await Index.open(reader)
        await Index.open(store)
        async with await SqliteStore.open(path, read_only=True) as reader:
            index = await Index.open(reader)
            await store.save([make(n, kind=7, tags=(("e", NOTE),)) for n in range(HOT)])
            found = await index.hot("e", NOTE, 7)
            assert found is not None
            assert found.authors == HOT
            with pytest.raises(StoreError):
                await index.rebuild()


def test_every_canonical_question_that_has_registers_is_tracked() -> None:
    """A question that is not here would be read event by event at each COUNT."""
    asked = set()
    for name, make_query in CANONICAL.items():
        for target in ("ab" * 32, f"30023:{'ab' * 32}:x"):
            if name == "zaps" or (name == "followers" and ":" in target):
                continue
            for one in make_query(target).filters:
                asked |= {(tag[1:], kind) for tag, _ in one.tags for kind in one.kinds or ()}
    assert asked <= TRACKED
