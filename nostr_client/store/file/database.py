"""Run one SQLite file with one writer thread and readers beside it.

`write` returns after COMMIT. With `synchronous="normal"`, a commit has then reached the operating
system. The commit survives a kill -9 of this process. After a power loss the newest commits may be
missing, but no commit is partly there. With `synchronous="full"`, a commit has reached the disk.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Self, TypeVar

from nostr_client.errors import SchemaTooNew, StoreCorrupt, StoreError, StoreLocked
from nostr_client.paths import user_path
from nostr_client.store.file.connect import (
    DatabaseConnections,
    attach_writer,
    file_uri,
    open_file,
    open_memory,
    open_read_only,
)
from nostr_client.store.file.readers import Readers
from nostr_client.store.file.writer import WriteJob, Writer
from nostr_client.store.options import StoreOptions

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from types import TracebackType

    from nostr_client.store.file.migrate import Schema
    from nostr_client.store.file.writer import AfterCommit

T = TypeVar("T")

MEMORY = ":memory:"

_DEFAULTS = StoreOptions()

_TURN_POLL_S = 0.05
"""Seconds between two tries of a lock that another writer holds.

The lock itself sends no signal.
"""


async def _open_in_turn(
    file: Path, migrations: Sequence[Schema], options: StoreOptions
) -> DatabaseConnections:
    """Open a file for writing as soon as its present writer ends.

    Raises the errors of `open_file`: StoreLocked after `turn_s`, and others. If another Database of
    this process is the writer, the error comes at once, because that Database does not end during
    the wait.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + options.turn_s
    while True:
        try:
            return await asyncio.to_thread(open_file, file, migrations, options)
        except StoreLocked as error:
            if error.pid in (None, os.getpid()) or loop.time() >= end:
                raise
        await asyncio.sleep(_TURN_POLL_S)


class Database:
    """A SQLite file, or ":memory:".

    Both have the same methods. In memory, one connection serves reads and writes in turn.

    Create a Database with `await Database.open(...)`. It belongs to the event loop that opened it.
    Functions that `write` and `read` run in threads must not keep the connection and must not end
    the transaction.
    """

    def __init__(
        self, path: Path | None, opened: DatabaseConnections, options: StoreOptions
    ) -> None:
        self.path = path
        self._lock = opened.lock
        self._conn = opened.writer
        self._writer = (
            Writer(opened.writer, group_limit=options.group_limit, name="store-writer")
            if opened.writer is not None
            else None
        )
        self.after_commit: list[AfterCommit] = (
            [] if self._writer is None else self._writer.after_commit
        )
        """Functions that the writer calls after each commit, before the callers of `write` resume.

        Each function gets the writing connection and a flag. If the flag is true, the event loop
        waits, so the function must not take long. An error that a function raises reaches the
        callers, although their writes are committed.
        """
        self._readers = (
            Readers(opened.readers, opened.here, name="store-reader") if opened.here else None
        )
        self._room = asyncio.Semaphore(options.queue_limit)
        self._asked = 0
        self._quick = options.synchronous == "normal"  # a small commit then waits for no disk
        self._attached: dict[str, str] = {}
        self._closed = False

    @classmethod
    async def open(
        cls,
        path: str | Path,
        *,
        read_only: bool = False,
        migrations: Sequence[Schema] = (),
        options: StoreOptions = _DEFAULTS,
    ) -> Self:
        """Open a file, or ":memory:", and migrate it to the newest schema.

        Raises:

        - StoreLocked: another process still writes the file after `turn_s`. Not with `read_only`.
        - SchemaTooNew: a newer version wrote the file.
        - StoreCorrupt: the file is not a database, or it belongs to another program.
        - StoreFull, StoreError: SQLite refused for another reason.
        """
        if str(path) == MEMORY:
            opened = await asyncio.to_thread(open_memory, migrations, options)
            return cls(None, opened, options)
        file = user_path(path)
        try:
            if read_only:
                opened = await asyncio.to_thread(open_read_only, file, migrations, options)
            else:
                opened = await _open_in_turn(file, migrations, options)
        except (StoreCorrupt, SchemaTooNew) as error:
            raise type(error)(f"{file}: {error}") from error
        return cls(file, opened, options)

    @property
    def read_only(self) -> bool:
        return self._writer is None

    @property
    def full(self) -> str:
        """Why the newest writes found no space, or "". The text stays until `found_room`."""
        return "" if self._writer is None else self._writer.full

    def found_room(self) -> None:
        """Clear `full` after a successful write that needed new pages."""
        if self._writer is not None:
            self._writer.full = ""

    async def write(
        self,
        work: Callable[[sqlite3.Connection], T],
        *,
        unbroken: bool = False,
        small: bool = False,
    ) -> T:
        """Run `work` in the writer thread and return its result after the commit.

        Calls that wait together share one transaction. Each call has its own savepoint. If `work`
        raises, only its caller gets the error, and only its changes are undone. If SQLite refuses,
        raises StoreError or a subclass, and nothing of the call is kept.

        If cancelled before `work` begins, `work` never runs. If cancelled later, its changes are
        committed.

        - `unbroken`: after `work` is queued, a cancellation waits until `work` ends.
        - `small`: `work` changes only a few rows and takes less time than a handover to a thread.
          It may run in the calling thread while no other write runs. It may be called twice.
          The first call is then undone.
        """
        if small and self._quick and not self._asked:
            job = self._run_here(work)
            if job is not None:
                await asyncio.sleep(0)  # lets other tasks run between the small writes of a loop
                result: T = job.value()
                return result
        return await self._submit(work, alone=False, unbroken=unbroken)

    async def maintain(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` in the writer thread outside any transaction (VACUUM, checkpoints)."""
        result: T = await self._submit(work, alone=True)
        return result

    async def read(self, work: Callable[[sqlite3.Connection], T], *, small: bool = False) -> T:
        """Run `work` on a reader, in one snapshot of the committed data.

        A cancellation interrupts the running statement, except in a database in memory. Raises
        StoreError or a subclass.

        `small`: `work` looks up a few rows by key and takes less time than a handover to a thread.
        It runs in the calling thread if no other database is attached.
        """
        self._check_open()
        if self._readers is not None:
            return await (self._readers.read_here if small else self._readers.read)(work)
        result: T = await self._submit(lambda conn: _read_in_memory(conn, work), alone=True)
        return result

    def look(self, work: Callable[[sqlite3.Connection], T | None]) -> T | None:
        """Run a small `work` in the calling thread, in one snapshot of the committed data.

        Returns None if the caller must use `read` instead. This is so for a database in memory,
        while another program locks the file, and if a statement takes longer than about a
        millisecond. It is also so for a second after a slow read. Raises StoreError or a subclass.
        """
        self._check_open()
        return None if self._readers is None else self._readers.look(work)

    @property
    def has_attached(self) -> bool:
        """Whether another database is attached. `look` does not see it."""
        return bool(self._attached)

    async def attach(self, alias: str, path: Path | None) -> None:
        """Attach another database as `alias` on the writer, if there is one, and on every reader.

        A file replaces an earlier database of the same alias. None attaches a database in memory,
        for a Database in memory.

        No transaction may write to both databases. After a crash or with a full disk, only one file
        may have the changes. Raises StoreError. The earlier database then stays attached.
        """
        has = dict(self._attached)
        target = MEMORY if path is None else file_uri(path, "rwc")
        if self._writer is not None:
            await self.maintain(lambda conn: attach_writer(conn, alias, has, target))
        self._attached[alias] = target
        if self._readers is not None and path is not None:
            self._readers.attach(alias, file_uri(path, "ro"))

    async def close(self) -> None:
        """Finish queued work, checkpoint the log into the file and release the lock.

        Safe to call twice.
        """
        if self._closed:
            return
        self._closed = True
        await asyncio.shield(asyncio.to_thread(self._close))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def _submit(
        self, work: Callable[[sqlite3.Connection], T], *, alone: bool, unbroken: bool = False
    ) -> T:
        if self._writer is None:
            raise StoreError("this store was opened for reading only")
        self._asked += 1
        try:
            async with self._room:
                self._check_open()
                job = WriteJob(work, alone=alone)
                self._writer.submit(job)
                result: T = await (_unbroken(job.future) if unbroken else job.future)
                return result
        finally:
            self._asked -= 1

    def _run_here(self, work: Callable[[sqlite3.Connection], T]) -> WriteJob | None:
        """Return the job after its commit or failure, or None if the writer thread must run it."""
        self._check_open()
        if self._writer is None:
            return None
        job = WriteJob(work)
        return job if self._writer.run_here(job) else None

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError("the store is closed")

    def _close(self) -> None:
        if self._writer is not None:
            self._writer.stop()
        if self._readers is not None:
            self._readers.close()
        if self._conn is not None:
            self._conn.close()
        if self._lock is not None:
            self._lock.release()


async def _unbroken(future: asyncio.Future[T]) -> T:
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        await asyncio.wait([future])
        raise


def _read_in_memory(conn: sqlite3.Connection, work: Callable[[sqlite3.Connection], T]) -> T:
    """Forbid writes during the read, because one connection serves reads and writes."""
    conn.execute("PRAGMA query_only = 1")
    try:
        return work(conn)
    finally:
        conn.execute("PRAGMA query_only = 0")
