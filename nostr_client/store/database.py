"""One SQLite file under one writer thread, with readers beside it.

What "acknowledged" means: `write` returns after COMMIT. With `synchronous="normal"` a commit has
reached the operating system: it survives a kill -9 of this process, and after a power loss the
newest commits may be missing, whole, never torn. With `"full"` it has reached the disk.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Self, TypeVar

from nostr_client.errors import SchemaTooNew, StoreCorrupt, StoreError, StoreLocked
from nostr_client.paths import user_path
from nostr_client.store.connect import (
    DatabaseConnections,
    attach_writer,
    file_uri,
    open_file,
    open_memory,
    open_read_only,
)
from nostr_client.store.options import StoreOptions
from nostr_client.store.readers import Readers
from nostr_client.store.writer import WriteJob, Writer

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from types import TracebackType

    from nostr_client.store.migrate import Schema
    from nostr_client.store.writer import AfterCommit

T = TypeVar("T")

MEMORY = ":memory:"

_DEFAULTS = StoreOptions()

_TURN_POLL_S = 0.05
"""Seconds between two looks at another writer's lock; the lock itself wakes nobody."""


async def _open_in_turn(
    file: Path, migrations: Sequence[Schema], options: StoreOptions
) -> DatabaseConnections:
    """Open a file for writing once the process that writes it ends. Raises StoreLocked and others.

    Another Database of this process does not end while this one waits, so it is not waited for.
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
    """A SQLite file, or ":memory:": the same calls, where reads take turns with the writes.

    Make it by `await Database.open(...)`; it belongs to the event loop that opened it. Functions
    given to `write` and `read` run in threads and must neither keep the connection nor end the
    transaction.
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
        """Called after each commit, before its callers hear of it, with the writing connection and
        with whether nothing long may be done, as the event loop waits. What is raised there
        reaches the callers, though what they wrote is kept."""
        self._readers = (
            Readers(opened.readers, opened.here, name="store-reader") if opened.here else None
        )
        self._room = asyncio.Semaphore(options.queue_limit)
        self._asked = 0
        self._quick = options.synchronous == "normal"  # no commit of a small write waits for a disk
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
        """Open a file, or ":memory:", and bring it to the newest schema.

        Raises StoreLocked (another process still writes it after `turn_s`; not with read_only),
        SchemaTooNew, StoreCorrupt (not a database, or another program's), StoreFull, StoreError.
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
        """Why the newest writes found no room, or ""; it stays until `found_room`."""
        return "" if self._writer is None else self._writer.full

    def found_room(self) -> None:
        """A write that needed new pages went well."""
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

        Calls that wait together share one transaction, each behind its own savepoint: what
        `work` raises comes back to its caller alone and undoes its own changes alone. Raises
        StoreError and its kinds when SQLite refuses; then nothing of the call is kept.
        Cancelled before it began, it never runs; cancelled later, it is committed unheard.
        `unbroken`: once it waits for its turn, cancelling waits for its end. `small`: it touches
        a few rows, takes less than handing it to a thread, and may run here while nothing is
        written; it may then be called twice, the first call undone.
        """
        if small and self._quick and not self._asked:
            job = self._run_here(work)
            if job is not None:
                await asyncio.sleep(0)  # a loop of small writes must not keep others waiting
                result: T = job.value()
                return result
        return await self._submit(work, alone=False, unbroken=unbroken)

    async def maintain(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` in the writer thread outside any transaction (VACUUM, checkpoints)."""
        result: T = await self._submit(work, alone=True)
        return result

    async def read(self, work: Callable[[sqlite3.Connection], T], *, small: bool = False) -> T:
        """Run `work` on a reader, in one snapshot of what is committed.

        Cancelling interrupts its running statement (a store in memory finishes it). Raises
        StoreError and its kinds. `small`: it looks up a few rows by their keys, takes less than
        handing it to a thread, and runs here, where no other database is attached.
        """
        self._check_open()
        if self._readers is not None:
            return await (self._readers.read_here if small else self._readers.read)(work)
        result: T = await self._submit(lambda conn: _read_in_memory(conn, work), alone=True)
        return result

    def look(self, work: Callable[[sqlite3.Connection], T | None]) -> T | None:
        """Run a small `work` in the calling thread, in one snapshot of what is committed.

        None where `read` must run it: in a database in memory, where another program holds the
        file, where a statement takes longer than about a millisecond, and for a second after a
        slow read. Raises StoreError and its kinds.
        """
        self._check_open()
        return None if self._readers is None else self._readers.look(work)

    async def attach(self, alias: str, path: Path | None) -> None:
        """Have another database at hand as `alias`, on the writer, if there is one, and on every
        reader.

        A file takes the place of an earlier one under the alias; None is one in memory, for a
        database in memory. A transaction over both is whole in each file, but a crash or a full
        disk may keep it in one of them alone: let no transaction write to both. Raises StoreError;
        then the earlier one stays.
        """
        has = dict(self._attached)
        target = MEMORY if path is None else file_uri(path, "rwc")
        if self._writer is not None:
            await self.maintain(lambda conn: attach_writer(conn, alias, has, target))
        self._attached[alias] = target
        if self._readers is not None and path is not None:
            self._readers.attach(alias, file_uri(path, "ro"))

    async def close(self) -> None:
        """Finish what is queued, fold the log into the file, give the lock up; safe twice."""
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
        """The job once it is committed or failed; None where the thread must do it."""
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
    """One connection serves both: forbid writing for as long as a read runs."""
    conn.execute("PRAGMA query_only = 1")
    try:
        return work(conn)
    finally:
        conn.execute("PRAGMA query_only = 0")
