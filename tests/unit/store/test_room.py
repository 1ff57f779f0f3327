"""The disk budget: at its limit no event is taken, all else goes on, and room counts at once."""

from __future__ import annotations

import asyncio
import dataclasses
import shutil
from typing import TYPE_CHECKING, NamedTuple

import pytest

from nostr_client.codecs.filters import Filter
from nostr_client.errors import StoreFull
from nostr_client.store.file import disk_budget
from nostr_client.store.file.disk_budget import FREE_SHARE, Space
from nostr_client.store.index.keeper import Index
from nostr_client.store.options import StoreOptions
from nostr_client.store.sqlite import SqliteStore
from tests.conformance.store_events import NOW, make

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from nostr_client.codecs.keys import VerifiedEvent

MB = 1_000_000


class Usage(NamedTuple):
    total: int
    used: int
    free: int


@pytest.fixture(autouse=True)
def _each_save_measures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_budget, "CHECK_S", 0.0)


def notes(first: int, number: int, kind: int = 1) -> list[VerifiedEvent]:
    return [
        make(kind=kind, content=f"{n}".ljust(10_000, "x")) for n in range(first, first + number)
    ]


async def open_store(path: Path, **limits: int) -> SqliteStore:
    options = dataclasses.replace(StoreOptions(least_free_bytes=1), **limits)
    return await SqliteStore.open(path / "s.db", options=options, clock=lambda: NOW)


async def stored_until_full(store: SqliteStore, numbers: Iterable[int]) -> int:
    """How many events went in until the store refused."""
    for number in numbers:
        try:
            await store.save(notes(number, 1))
        except StoreFull:
            return number
    raise AssertionError("it took everything")


async def test_a_store_takes_events_up_to_its_size_and_serves_beyond(tmp_path: Path) -> None:
    async with await open_store(tmp_path, most_bytes=2 * MB) as store:
        taken = await stored_until_full(store, range(1_000))
        assert 150 < taken < 220
        assert "MB that are left" in store.full
        assert not await store.try_room()
        assert await store.count([Filter()]) == taken
        with pytest.raises(StoreFull):
            await store.save(notes(5_000, 1))
        ephemeral = await store.save(notes(6_000, 1, kind=20_001))
        assert [str(one.status) for one in ephemeral] == ["ephemeral"]
        await store.database.write(lambda conn: conn.execute("SELECT 1").fetchall())
        assert await store.delete([Filter(kinds=(1,), limit=taken // 2)])
        assert await store.try_room()
        assert store.full == ""
        (again,) = await store.save(notes(5_000, 1))
        assert again.stored
        assert (await store.verify()).problems == ()


@pytest.mark.parametrize("batch", [1, 7, 500])
@pytest.mark.parametrize("tags", [0, 60])
async def test_a_store_does_not_grow_over_its_size_however_much_comes_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch: int, tags: int
) -> None:
    """Also within the second that a measurement counts, and by saves that run side by side."""
    monkeypatch.setattr(disk_budget, "CHECK_S", 3600.0)
    async with await open_store(tmp_path, most_bytes=3 * MB) as store:
        await Index.open(store)
        refused = 0
        for first in range(0, 10_000, 4 * batch):
            saves = (
                store.save([tagged(n, tags) for n in range(start, start + batch)])
                for start in range(first, first + 4 * batch, batch)
            )
            said = await asyncio.gather(*saves, return_exceptions=True)
            refused += sum(isinstance(one, StoreFull) for one in said)
            assert all(isinstance(one, (list, StoreFull)) for one in said)
            if refused:
                break
        assert refused
        assert "MB that" in store.full
        await store.room.look(again=True)
        assert store.room.space is not None
        assert store.room.space.used <= 3 * MB
        assert batch == 500 or store.room.space.used > 2 * MB
        assert (await store.verify()).problems == ()


def tagged(n: int, tags: int) -> VerifiedEvent:
    named = tuple(("p", f"{n * tags + k:064x}") for k in range(tags))
    return make(content=f"{n} ä".ljust(2_000, "y"), tags=named)


async def test_a_store_leaves_room_for_other_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = [Usage(100_000 * MB, 0, 300 * MB)]
    monkeypatch.setattr(shutil, "disk_usage", lambda _: disk[-1])
    async with await open_store(tmp_path, least_free_bytes=256 * MB) as store:
        await store.save(notes(0, 1))
        disk.append(Usage(100_000 * MB, 0, 255 * MB))
        with pytest.raises(StoreFull, match="left to other programs"):
            await store.save(notes(1, 1))
        disk.append(Usage(100_000 * MB, 0, 257 * MB))
        with pytest.raises(StoreFull):  # not at once, or it would stop again in a second
            await store.save(notes(1, 1))
        disk.append(Usage(100_000 * MB, 0, 270 * MB))
        assert (await store.save(notes(1, 1)))[0].stored
        assert store.full == ""


async def test_of_a_small_disk_little_is_left_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(50 * MB, 0, MB))
    async with await open_store(tmp_path, least_free_bytes=256 * MB) as store:
        assert (await store.save(notes(0, 1)))[0].stored
        assert store.room.space is not None
        assert store.room.space.least_free == 50 * MB * FREE_SHARE


async def test_a_store_in_memory_has_no_disk_budget() -> None:
    async with await SqliteStore.open(":memory:", options=StoreOptions(most_bytes=1)) as store:
        assert (await store.save(notes(0, 1)))[0].stored
        assert await store.try_room()


@pytest.mark.parametrize(
    ("space", "left"),
    [
        (Space(5, None, None, 0), None),
        (Space(5, 8, None, 0), 3),
        (Space(5, 8, 100, 98), 2),
        (Space(9, 8, 100, 0), 0),
        (Space(5, None, 7, 10), 0),
    ],
)
def test_what_is_left_is_the_least_of_both(space: Space, left: int | None) -> None:
    assert space.left == left
