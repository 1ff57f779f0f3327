"""The database under the store: group commit, snapshots, migrations, lock, errors."""

from __future__ import annotations

import asyncio
import os
import re
import sqlite3
import sys
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from agent.reindex.inputs import open_store
from nostr_client.errors import (
    SchemaTooNew,
    SchemaTooOld,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreLocked,
)
from nostr_client.store.file.database import MEMORY, Database
from nostr_client.store.file.migrate import Schema
from nostr_client.store.options import StoreOptions
from tests.rights import as_nobody

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


def numbers(db: Any) -> None:
    db.execute("CREATE TABLE n (v INTEGER PRIMARY KEY) STRICT")


SCHEMA = Schema("test", numbers)


def insert(value: int) -> Any:
    def work(conn: sqlite3.Connection) -> int:
        conn.execute("INSERT INTO n VALUES (?)", (value,))
        return value

    return work


def values(conn: sqlite3.Connection) -> list[int]:
    return [v for (v,) in conn.execute("SELECT v FROM n ORDER BY v")]


@pytest.fixture(params=["file", "memory"])
async def database(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Database]:
    path = MEMORY if request.param == "memory" else str(tmp_path / "n.db")
    async with await Database.open(path, migrations=[SCHEMA]) as opened:
        yield opened


async def test_write_returns_after_the_commit(database: Database) -> None:
    assert await database.write(insert(1)) == 1
    assert await database.read(values) == [1]


async def test_many_writes_share_transactions_and_keep_their_results(database: Database) -> None:
    assert await asyncio.gather(*(database.write(insert(i)) for i in range(500))) == [*range(500)]
    assert await database.read(values) == [*range(500)]


async def test_waiting_writes_share_one_transaction(database: Database) -> None:
    """Writers that queue behind a running one see each other's rows before any commit."""
    go, commits = threading.Event(), []
    await database.maintain(lambda conn: conn.set_trace_callback(commits.append))
    blocker = asyncio.ensure_future(database.write(lambda _: go.wait(10)))
    await asyncio.sleep(0)
    waiting = [asyncio.ensure_future(database.write(insert(i))) for i in range(20)]
    await asyncio.sleep(0)
    go.set()
    await asyncio.gather(blocker, *waiting)
    await database.maintain(lambda conn: conn.set_trace_callback(None))
    assert commits.count("COMMIT") <= 2


async def test_one_that_raises_is_undone_alone(database: Database) -> None:
    await database.write(insert(7))

    def failing(conn: sqlite3.Connection) -> None:
        insert(1000)(conn)
        raise LookupError("mine")

    answers = await asyncio.gather(
        database.write(insert(1)),
        database.write(failing),
        database.write(insert(7)),
        database.write(insert(2)),
        return_exceptions=True,
    )
    assert isinstance(answers[1], LookupError)
    assert isinstance(answers[2], StoreError)
    assert isinstance(answers[2].__cause__, sqlite3.IntegrityError)
    assert await database.read(values) == [1, 2, 7]


async def test_a_single_failing_write_leaves_nothing(database: Database) -> None:
    def failing(conn: sqlite3.Connection) -> None:
        insert(1)(conn)
        raise LookupError

    with pytest.raises(LookupError):
        await database.write(failing)
    assert await database.read(values) == []
    assert await database.write(insert(3)) == 3


async def test_stop_iteration_reaches_the_caller_as_an_error(database: Database) -> None:
    with pytest.raises(RuntimeError):
        await database.write(lambda _: next(iter(())))


async def test_a_cancelled_write_that_waits_never_runs(database: Database) -> None:
    go = threading.Event()
    blocker = asyncio.ensure_future(database.write(lambda _: go.wait(10)))
    await asyncio.sleep(0)
    late = asyncio.ensure_future(database.write(insert(1)))
    await asyncio.sleep(0)
    late.cancel()
    await asyncio.wait([late])
    go.set()
    await blocker
    assert late.cancelled()
    assert await database.read(values) == []


async def test_reading_functions_cannot_write(database: Database) -> None:
    with pytest.raises(StoreError, match=r"cannot be written.*readonly"):
        await database.read(insert(1))
    assert await database.write(insert(1)) == 1


async def test_maintain_runs_outside_transactions(database: Database) -> None:
    await database.write(insert(1))
    await database.maintain(lambda conn: conn.execute("VACUUM").fetchone())
    assert await database.read(values) == [1]


async def test_a_read_sees_one_snapshot(tmp_path: Path) -> None:
    reading, written = threading.Event(), threading.Event()

    def twice(conn: sqlite3.Connection) -> tuple[list[int], list[int]]:
        first = values(conn)
        reading.set()
        assert written.wait(10)
        return first, values(conn)

    async with await Database.open(tmp_path / "n.db", migrations=[SCHEMA]) as database:
        read = asyncio.ensure_future(database.read(twice))
        assert await asyncio.to_thread(reading.wait, 10)
        await database.write(insert(1))
        written.set()
        assert await read == ([], [])
        assert await database.read(values) == [1]


async def test_cancelling_a_read_interrupts_it(tmp_path: Path) -> None:
    started = threading.Event()
    endless = "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c) SELECT max(i) FROM c"

    def forever(conn: sqlite3.Connection) -> None:
        started.set()
        conn.execute(endless).fetchone()

    options = StoreOptions(readers=1)
    async with await Database.open(tmp_path / "n.db", migrations=[SCHEMA], options=options) as db:
        read = asyncio.ensure_future(db.read(forever))
        assert await asyncio.to_thread(started.wait, 10)
        read.cancel()
        await asyncio.wait([read])
        assert read.cancelled()
        assert await asyncio.wait_for(db.read(values), 10) == []


async def test_what_was_written_is_there_after_reopening(tmp_path: Path) -> None:
    async with await Database.open(tmp_path / "deep" / "n.db", migrations=[SCHEMA]) as database:
        await database.write(insert(5))
    async with await Database.open(tmp_path / "deep" / "n.db", migrations=[SCHEMA]) as database:
        assert await database.read(values) == [5]


async def test_closed_means_closed(tmp_path: Path) -> None:
    database = await Database.open(tmp_path / "n.db", migrations=[SCHEMA])
    await database.close()
    await database.close()
    with pytest.raises(StoreError, match="closed"):
        await database.write(insert(1))
    with pytest.raises(StoreError, match="closed"):
        await database.read(values)


async def test_a_second_writer_is_told_the_holders_pid(tmp_path: Path) -> None:
    async with await Database.open(tmp_path / "n.db", migrations=[SCHEMA]):
        (tmp_path / "alias.db").symlink_to(tmp_path / "n.db")
        for name in ("n.db", "alias.db"):
            with pytest.raises(StoreLocked, match=str(os.getpid())) as caught:
                await Database.open(tmp_path / name, migrations=[SCHEMA])
            assert caught.value.pid == os.getpid()
    async with await Database.open(tmp_path / "n.db", migrations=[SCHEMA]):
        pass


_HOLDER = """
import sys
from pathlib import Path
from nostr_client.store.file.connect import WriterLock
lock = WriterLock(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
async def holder(tmp_path: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """Another process that writes `n.db` until its stdin ends."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _HOLDER, str(tmp_path / "n.db"),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    assert await process.stdout.readline() == b"held\n"
    yield process
    process.stdin.close()
    await process.wait()


async def test_a_second_writer_waits_for_its_turn(
    tmp_path: Path, holder: asyncio.subprocess.Process
) -> None:
    options = StoreOptions(turn_s=50)
    async with asyncio.TaskGroup() as group:
        opening = group.create_task(
            Database.open(tmp_path / "n.db", migrations=[SCHEMA], options=options)
        )
        await asyncio.sleep(0.1)
        assert not opening.done()
        assert holder.stdin is not None
        holder.stdin.close()
    async with opening.result():
        pass


async def test_a_second_writer_gives_up_after_its_turn(
    tmp_path: Path, holder: asyncio.subprocess.Process
) -> None:
    options = StoreOptions(turn_s=0.1)
    with pytest.raises(StoreLocked, match=str(holder.pid)):
        await Database.open(tmp_path / "n.db", migrations=[SCHEMA], options=options)


async def test_a_reader_works_beside_the_writer_and_cannot_write(tmp_path: Path) -> None:
    async with (
        await Database.open(tmp_path / "n.db", migrations=[SCHEMA]) as writer,
        await Database.open(tmp_path / "n.db", read_only=True, migrations=[SCHEMA]) as reader,
    ):
        assert (reader.read_only, writer.read_only) == (True, False)
        await writer.write(insert(1))
        assert await reader.read(values) == [1]
        with pytest.raises(StoreError, match="reading only"):
            await reader.write(insert(2))


async def test_reading_an_absent_store_makes_no_file(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no store"):
        await Database.open(tmp_path / "n.db", read_only=True)
    assert not await asyncio.to_thread((tmp_path / "n.db").exists)


@pytest.mark.parametrize(
    ("folder", "file", "told"),
    [
        (0o555, 0o444, r"n\.db: readers too write beside it.*cannot be written; copy it"),
        (0o777, 0o000, r"cannot open .*n\.db: it may not be read"),
    ],
)
async def test_a_reader_says_what_its_rights_lack(folder: int, file: int, told: str) -> None:
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "n.db"
        async with await Database.open(path, migrations=[SCHEMA]):
            pass
        path.chmod(file)
        path.parent.chmod(folder)
        try:
            with as_nobody():
                with pytest.raises(StoreError, match=told):
                    await Database.open(path, migrations=[SCHEMA], read_only=True)
                with pytest.raises(StoreError, match=told):
                    open_store(path)
        finally:
            path.parent.chmod(0o755)


async def test_a_newer_schema_is_refused_and_left_alone(tmp_path: Path) -> None:
    async with await Database.open(tmp_path / "n.db", migrations=[SCHEMA]) as database:
        sql = "INSERT INTO _sqlite_migrations (migration_set, name) VALUES ('test', 'version_2')"
        await database.write(lambda conn: conn.execute(sql).rowcount)
    for read_only in (False, True):
        with pytest.raises(SchemaTooNew, match="version_2"):
            await Database.open(tmp_path / "n.db", migrations=[SCHEMA], read_only=read_only)


async def test_a_reader_needs_every_schema(tmp_path: Path) -> None:
    async with await Database.open(tmp_path / "n.db", migrations=[SCHEMA]):
        pass
    more = Schema("more", numbers)
    with pytest.raises(SchemaTooOld, match="more"):
        await Database.open(tmp_path / "n.db", read_only=True, migrations=[SCHEMA, more])


async def test_a_failing_schema_undoes_the_whole_update(tmp_path: Path) -> None:
    def fails(db: Any) -> None:
        db.execute("CREATE TABLE half (x)")
        db.execute("not sql")

    with pytest.raises(StoreError):
        await Database.open(tmp_path / "n.db", migrations=[SCHEMA, Schema("broken", fails)])
    conn = sqlite3.connect(tmp_path / "n.db")
    assert conn.execute("SELECT count(*) FROM sqlite_schema").fetchone() == (0,)
    conn.close()
    async with await Database.open(tmp_path / "n.db", migrations=[SCHEMA]) as database:
        assert await database.write(insert(1)) == 1


async def test_another_programs_file_is_refused(tmp_path: Path) -> None:
    conn = sqlite3.connect(tmp_path / "other.db")
    conn.execute("CREATE TABLE precious (x)")
    conn.close()
    with pytest.raises(StoreCorrupt, match="another program"):
        await Database.open(tmp_path / "other.db", migrations=[SCHEMA])
    (tmp_path / "text.db").write_text("not a database at all" * 100)
    with pytest.raises(StoreCorrupt):
        await Database.open(tmp_path / "text.db", migrations=[SCHEMA])


async def test_a_full_store_fails_clearly_and_keeps_what_it_acknowledged(tmp_path: Path) -> None:
    def fill(conn: sqlite3.Connection) -> None:
        conn.execute("CREATE TABLE big (b BLOB)")
        for _ in range(100):
            conn.execute("INSERT INTO big VALUES (zeroblob(100000))")

    options = StoreOptions(max_page_count=64)
    async with await Database.open(tmp_path / "n.db", migrations=[SCHEMA], options=options) as db:
        await db.write(insert(1))
        answers = await asyncio.gather(
            db.write(insert(2)), db.write(fill), db.write(insert(3)), return_exceptions=True
        )
        assert isinstance(answers[1], StoreFull)
        kept = [a for a in answers if isinstance(a, int)]
        assert await db.read(values) == [1, *kept]
        assert await db.write(insert(4)) == 4


async def test_a_path_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "100% a folder"
    folder.mkdir()
    with pytest.raises(StoreError, match=re.escape(f"cannot open {folder}: it is no file")):
        await Database.open(folder)


async def test_reads_one_after_the_other_share_a_connection_and_its_cache(tmp_path: Path) -> None:
    async with await Database.open(tmp_path / "a.db") as database:
        assert len({await database.read(id) for _ in range(10)}) == 1
