"""The events' file is the one truth: an index that misses a commit is replayed or built again."""

from __future__ import annotations

import random
import shutil
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from nostr_client.codecs.filters import Filter
from nostr_client.store.index import update as index_update
from nostr_client.store.index.keeper import Index
from nostr_client.store.index.update import ALIAS
from nostr_client.store.sqlite import SqliteStore
from tests.conformance.store_events import NOW, make
from tests.unit.store.test_index import check, some

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def _few_are_hot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_update, "HOT", 4)


async def limit_index(store: SqliteStore, pages: int) -> None:
    """Let SQLite itself find the index full: at its size now, and `pages` more."""

    def work(conn: sqlite3.Connection) -> None:
        (size,) = conn.execute(f"PRAGMA {ALIAS}.page_count").fetchone()
        conn.execute(f"PRAGMA {ALIAS}.max_page_count = {size + pages}").fetchall()

    await store.database.maintain(work)


async def problems(store: SqliteStore) -> list[str]:
    return [problem.what for problem in (await store.verify()).problems]


@pytest.mark.parametrize("where", ["file", "memory"])
@pytest.mark.parametrize("removes", [False, True])
async def test_a_full_index_fails_no_save_and_is_replayed_afterwards(
    tmp_path: Path, where: str, removes: bool
) -> None:
    path = ":memory:" if where == "memory" else str(tmp_path / "s.db")
    events = some(random.Random(5), 400)
    async with await SqliteStore.open(path, clock=lambda: NOW) as store:
        index = await Index.open(store)
        await store.save(events[:50])
        await limit_index(store, 0)
        at = 50
        while not index.behind:
            await store.save(events[at : at + 10])
            at += 10
        await store.save(events[at : at + 10])
        if removes:
            assert await store.delete([Filter(kinds=[7], limit=20)])
        assert "no room" in index.behind
        assert await problems(store) == []
        await limit_index(store, 10_000)
        (outcome,) = await store.save([make(99, at=NOW, content="the next one")])
        assert outcome.stored
        assert index.behind == ""
        assert await problems(store) == []
        await check(store, index)


async def test_what_a_failed_commit_left_out_is_caught_up_at_open(tmp_path: Path) -> None:
    events = [make(n % 50, 7, at=n * 86_400, tags=(("e", f"{n % 90:064x}"),)) for n in range(2_000)]
    for part in (events[:1_000], events[1_000:]):
        async with await SqliteStore.open(tmp_path / "s.db", clock=lambda: NOW) as store:
            index = await Index.open(store)
            assert await problems(store) == []
            await limit_index(store, 0)
            await store.save(part)
            assert index.behind
    async with await SqliteStore.open(tmp_path / "s.db", clock=lambda: NOW) as store:
        await check(store, await Index.open(store))


async def test_an_index_of_another_history_is_found_and_built_again(tmp_path: Path) -> None:
    """A power loss may take the newest commits of the events and leave those of the index."""
    path, kept = tmp_path / "s.db", tmp_path / "before.db"
    events = some(random.Random(8), 200)
    async with await SqliteStore.open(path, clock=lambda: NOW) as store:
        await Index.open(store)
        await store.save(events[:100])
    shutil.copyfile(path, kept)
    async with await SqliteStore.open(path, clock=lambda: NOW) as store:
        await Index.open(store)
        await store.save([make(n, 7, at=n, tags=(("e", "ab" * 32),)) for n in range(20)])
    shutil.copyfile(kept, path)
    async with await SqliteStore.open(path, clock=lambda: NOW) as store:
        assert any("ahead" in what for what in await problems(store))
        await store.save([make(n, 7, at=n, tags=(("e", "cd" * 32),)) for n in range(20)])
        assert any("other events" in what for what in await problems(store))
        await check(store, await Index.open(store))
        assert await problems(store) == []


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE hot SET events = events + 1",
        "DELETE FROM hot_author WHERE n > 0",
        "UPDATE daily SET authors = 0",
        "DELETE FROM zap",
        "UPDATE hot SET registers = zeroblob(256)",
    ],
)
async def test_verify_finds_an_index_that_is_wrong(tmp_path: Path, damage: str) -> None:
    async with await SqliteStore.open(tmp_path / "s.db", clock=lambda: NOW) as store:
        index = await Index.open(store)
        await store.save(some(random.Random(2), 200))
        await index.refresh()
        assert await problems(store) == []
        place = index.path(0)
    assert place is not None
    with closing(sqlite3.connect(place)) as conn, conn:
        assert conn.execute(damage).rowcount
    async with await SqliteStore.open(tmp_path / "s.db", read_only=True) as store:
        assert any(what.startswith("the index") for what in await problems(store))


async def test_verify_finds_an_event_that_went_without_the_rules(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    async with await SqliteStore.open(path, clock=lambda: NOW) as store:
        await store.save([make(n, at=n) for n in range(5)])
        assert await problems(store) == []
    with closing(sqlite3.connect(path)) as conn, conn:
        conn.execute("DELETE FROM event WHERE seq = 3")
    async with await SqliteStore.open(path, read_only=True) as store:
        assert any("digest" in what for what in await problems(store))
