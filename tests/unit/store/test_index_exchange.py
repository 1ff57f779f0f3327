"""An index that is exchanged under readers of other processes, and exchanges that break off."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from nostr_client.codecs.filters import Filter
from nostr_client.errors import StoreError
from nostr_client.store.index.keeper import Day, Index
from nostr_client.store.index.update import ALIAS
from nostr_client.store.sqlite import SqliteStore
from tests.conformance.store_events import NOW, make

if TYPE_CHECKING:
    from pathlib import Path


async def build(store: SqliteStore, place: Path) -> Path:
    """A copy of the index as it stands, as a bulk rebuild would give it."""
    await store.database.maintain(
        lambda conn: conn.execute(f"VACUUM {ALIAS} INTO ?", (str(place),)).fetchall()
    )
    return place


async def events_of_day_0(index: Index) -> int:
    found: list[Day] = await index.daily(0, 100)
    return sum(day.events for day in found)


def index_files(folder: Path) -> set[str]:
    return {file.name for file in folder.glob("*.index-*") if file.suffix in (".db", ".copy")}


async def test_readers_follow_an_exchange(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    async with await SqliteStore.open(path, clock=lambda: NOW) as store:
        index = await Index.open(store)
        await store.save([make(n, at=n) for n in range(5)])
        async with await SqliteStore.open(path, read_only=True) as reader:
            read = await Index.open(reader)
            assert await events_of_day_0(read) == 5
            for turn in range(1, 4):
                await index.snapshot()
                await index.adopt(await build(store, tmp_path / f"built{turn}"))
                await store.save([make(n, at=50 + turn) for n in range(turn)])
                assert await reader.count([Filter()]) == 5 + sum(range(turn + 1))
                assert await events_of_day_0(read) == 5 + sum(range(turn + 1))


async def test_without_an_index_only_the_index_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    async with await SqliteStore.open(path, clock=lambda: NOW) as store:
        await store.save([make(n) for n in range(3)])
        async with await SqliteStore.open(path, read_only=True) as reader:
            with pytest.raises(StoreError, match="no index"):
                await Index.open(reader)
            assert await reader.count([Filter()]) == 3
        index = await Index.open(store)
        async with await SqliteStore.open(path, read_only=True) as reader:
            await Index.open(reader)
            place = index.path(0)
            assert place is not None
            place.unlink()
            found = [await reader.count([Filter()]) for _ in range(8)]  # each on any connection
            assert found == [3] * 8


async def test_what_broken_exchanges_left_is_removed_and_never_read(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    async with await SqliteStore.open(path, clock=lambda: NOW) as store:
        index = await Index.open(store)
        await store.save([make(n, at=n) for n in range(4)])
        for name in ("s.index-1.db", "s.index-1.db-wal", "s.index-7.db"):
            (tmp_path / name).write_bytes(b"left over")
        await index.snapshot()
        assert await index.adopt(await build(store, tmp_path / "built")) == 1
        assert await events_of_day_0(index) == 4
    others = ("t.index-3.db", "s.index-x.db", "s.index-3.db.copy")
    for name in others:
        (tmp_path / name).write_bytes(b"not ours")
    async with await SqliteStore.open(path, clock=lambda: NOW) as store:
        assert await events_of_day_0(await Index.open(store)) == 4
        assert index_files(tmp_path) == {"s.index-1.db", *others}


@pytest.mark.parametrize("broken", ["missing", "noise"])
async def test_a_failed_exchange_leaves_the_old_generation(tmp_path: Path, broken: str) -> None:
    built = tmp_path / "built"
    if broken == "noise":
        built.write_bytes(b"no database, this is" * 500)
    async with await SqliteStore.open(tmp_path / "s.db", clock=lambda: NOW) as store:
        index = await Index.open(store)
        await store.save([make(n, at=n) for n in range(4)])
        with pytest.raises(StoreError):
            await index.adopt(built)
        await store.save([make(n, at=n) for n in range(4, 6)])
        assert await events_of_day_0(index) == 6
        assert not (tmp_path / "s.index-1.db").exists()
