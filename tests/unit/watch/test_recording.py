"""Many small writes in one transaction: each waits for its own commit, and hears its failure."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from nostr_client.errors import StoreError
from nostr_client.store.file.database import Database
from nostr_client.watch.recording import Recorder

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import AsyncIterator, Callable

    from nostr_client.watch.recording import Work


class CountingDatabase(Database):
    """Counts its transactions."""

    transactions = 0

    async def write(self, work: Callable[[sqlite3.Connection], Any], **how: bool) -> Any:
        self.transactions += 1
        return await super().write(work, **how)


@pytest.fixture
async def database() -> AsyncIterator[CountingDatabase]:
    async with await CountingDatabase.open(":memory:") as database:
        await database.write(lambda conn: conn.execute("CREATE TABLE n (value INTEGER)"))
        database.transactions = 0
        yield database


def inserting(value: int) -> Work:
    def work(conn: sqlite3.Connection) -> None:
        conn.execute("INSERT INTO n VALUES (?)", (value,))

    return work


def failing(_: sqlite3.Connection) -> None:
    raise StoreError("no room")


async def values(database: Database) -> list[int]:
    sql = "SELECT value FROM n ORDER BY value"
    return await database.read(lambda conn: [value for (value,) in conn.execute(sql)])


async def test_what_comes_during_a_write_shares_the_next_transaction(
    database: CountingDatabase,
) -> None:
    recorder = Recorder(database)
    await asyncio.gather(*(recorder.write(inserting(n)) for n in range(10)))
    assert await values(database) == list(range(10))
    assert database.transactions == 2


async def test_a_failure_is_heard_by_its_batch_and_by_nobody_else(
    database: CountingDatabase,
) -> None:
    recorder = Recorder(database)
    works = [inserting(1), inserting(2), failing, inserting(3)]
    tasks = [recorder.write(work) for work in works]
    first, *others = await asyncio.gather(*tasks, return_exceptions=True)
    assert first is None
    assert [type(one) for one in others] == [StoreError] * 3
    await recorder.write(inserting(4))
    assert await values(database) == [1, 4]


async def test_a_cancelled_writer_takes_nothing_from_the_others(database: CountingDatabase) -> None:
    recorder = Recorder(database)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(recorder.write(inserting(n))) for n in range(4)]
        await asyncio.sleep(0)
        for cancelled in (tasks[0], tasks[2]):
            cancelled.cancel()
    assert [task.cancelled() for task in tasks] == [True, False, True, False]
    assert await values(database) == [0, 1, 2, 3]
