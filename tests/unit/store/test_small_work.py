"""Small reads and writes: where they run, and that they give way and wait like all others."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from nostr_client.errors import StoreError, StoreLocked
from nostr_client.store.file.database import Database
from nostr_client.store.file.migrate import Schema
from nostr_client.store.file.writer import HERE_LIMIT
from nostr_client.store.options import StoreOptions
from tests.turns import another_task

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


def places(db: Any) -> None:
    db.execute("CREATE TABLE place (n INTEGER PRIMARY KEY, thread INTEGER) STRICT")


SCHEMA = Schema("test", places)


def note(conn: sqlite3.Connection) -> int:
    """Keeps in which thread it ran, which it returns."""
    here = threading.get_ident()
    conn.execute("INSERT INTO place (thread) VALUES (?)", (here,))
    return here


def noted(conn: sqlite3.Connection) -> int:
    count: int = conn.execute("SELECT count(*) FROM place").fetchone()[0]
    return count


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    async with await Database.open(tmp_path / "n.db", migrations=[SCHEMA]) as opened:
        yield opened


async def test_a_small_write_runs_where_it_is_asked(database: Database) -> None:
    assert await database.write(note, small=True) == threading.get_ident()
    assert await database.write(note) != threading.get_ident()
    assert await database.read(noted) == 2


async def test_a_small_read_runs_where_it_is_asked(database: Database) -> None:
    def where(conn: sqlite3.Connection) -> tuple[int, int]:
        return noted(conn), threading.get_ident()

    await database.write(note)
    assert await database.read(where, small=True) == (1, threading.get_ident())
    assert (await database.read(where))[1] != threading.get_ident()


async def test_every_small_call_lets_others_run(database: Database) -> None:
    async with another_task() as turns:
        for _ in range(20):
            await database.write(note, small=True)
            await database.read(noted, small=True)
    assert turns.taken >= 40


async def test_a_small_write_waits_behind_those_asked_before_it(database: Database) -> None:
    began, go_on = threading.Event(), threading.Event()

    def slow(conn: sqlite3.Connection) -> int:
        began.set()
        go_on.wait(10)
        return noted(conn)

    first = asyncio.create_task(database.write(slow))
    await asyncio.to_thread(began.wait, 10)
    second = asyncio.create_task(database.write(note, small=True))
    await asyncio.sleep(0)
    assert not second.done()
    go_on.set()
    assert await first == 0
    assert await second != threading.get_ident()


async def test_one_that_was_asked_but_not_begun_is_not_overtaken(database: Database) -> None:
    first = asyncio.create_task(database.write(noted))
    await asyncio.sleep(0)
    await database.write(note, small=True)
    assert await first == 0


async def test_small_writes_that_fail_leave_nothing(database: Database) -> None:
    def fails(conn: sqlite3.Connection) -> None:
        note(conn)
        raise ValueError("not this one")

    with pytest.raises(ValueError, match="not this one"):
        await database.write(fails, small=True)
    with pytest.raises(StoreError, match="no such table"):
        await database.write(lambda conn: conn.execute("DELETE FROM nowhere"), small=True)
    assert await database.read(noted, small=True) == 0
    await database.write(note, small=True)
    assert await database.read(noted) == 1


async def test_small_reads_cannot_write(database: Database) -> None:
    with pytest.raises(StoreError):
        await database.read(note, small=True)
    assert await database.read(noted) == 0


async def test_another_programs_lock_is_waited_for_in_the_thread(
    database: Database, tmp_path: Path
) -> None:
    with closing(sqlite3.connect(tmp_path / "n.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        waiting = asyncio.create_task(database.write(note, small=True))
        for _ in range(3):  # the loop goes on
            await asyncio.sleep(0)
        assert not waiting.done()
        other.execute("ROLLBACK")
    assert await waiting != threading.get_ident()
    assert await database.write(note, small=True) == threading.get_ident()


async def test_a_lock_that_stays_is_told_and_nothing_is_kept(tmp_path: Path) -> None:
    options = StoreOptions(busy_timeout_s=0.05)
    path = tmp_path / "n.db"
    async with await Database.open(path, migrations=[SCHEMA], options=options) as database:
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreLocked):
                await database.write(note, small=True)
            other.execute("ROLLBACK")
        assert await database.read(noted) == 0


async def test_a_small_read_that_meets_a_lock_is_read_again_in_a_thread(
    database: Database, tmp_path: Path
) -> None:
    locked = tmp_path / "locked.db"
    with closing(sqlite3.connect(locked, isolation_level=None)) as other:
        other.execute("CREATE TABLE t (x)")
        other.execute("BEGIN EXCLUSIVE")

        def work(conn: sqlite3.Connection) -> int:
            if threading.get_ident() == here:
                with closing(sqlite3.connect(locked, timeout=0)) as mine:
                    mine.execute("SELECT x FROM t")
            return threading.get_ident()

        here = threading.get_ident()
        assert await database.read(work, small=True) != here


async def test_the_thread_folds_the_log_however_many_small_writes_there_are(
    tmp_path: Path,
) -> None:
    options = StoreOptions(wal_autocheckpoint=10)
    path = tmp_path / "n.db"
    async with await Database.open(path, migrations=[SCHEMA], options=options) as database:
        here = threading.get_ident()
        threads = [await database.write(note, small=True) for _ in range(2 * HERE_LIMIT + 2)]
        assert [n for n, thread in enumerate(threads) if thread != here] == [
            HERE_LIMIT,
            2 * HERE_LIMIT + 1,
        ]
        log = path.with_name("n.db-wal").stat().st_size
        # Two pages a commit: without a checkpoint in the middle it would be twice as long.
        assert log < 1.5 * HERE_LIMIT * 2 * 4_120


async def test_where_commits_wait_for_the_disk_the_thread_writes(tmp_path: Path) -> None:
    options = StoreOptions(synchronous="full")
    async with await Database.open(
        tmp_path / "n.db", migrations=[SCHEMA], options=options
    ) as database:
        assert await database.write(note, small=True) != threading.get_ident()


async def test_cancelled_after_its_commit_a_small_write_is_kept(database: Database) -> None:
    task = asyncio.create_task(database.write(note, small=True))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await database.read(noted) == 1


async def test_nothing_small_after_closing(tmp_path: Path) -> None:
    database = await Database.open(tmp_path / "n.db", migrations=[SCHEMA])
    await database.close()
    with pytest.raises(StoreError, match="closed"):
        await database.write(note, small=True)
    with pytest.raises(StoreError, match="closed"):
        await database.read(noted, small=True)
