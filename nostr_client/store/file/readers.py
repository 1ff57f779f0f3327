"""Run reads on connections in threads.

Each call sees one snapshot and can be interrupted.
"""

from __future__ import annotations

import asyncio
import sqlite3
import sys
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import TYPE_CHECKING, Final, TypeVar

from nostr_client.errors import StoreLocked
from nostr_client.store.file.faults import store_error

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

if sys.platform != "win32":
    import resource

T = TypeVar("T")


STEPS_HERE: Final = 10_000
"""Steps of SQLite's virtual machine, about half a millisecond.

A read in the caller's thread stops after one to two times as many steps. It then runs in a thread.
"""

STEP_S: Final = 4e-8
"""Seconds below which SQLite takes no step, on average."""

SLOW_S: Final = 0.02
"""Seconds of a read in the caller's thread from which the disk counts as slow, if it was used."""

BLOCKS_S: Final = 0.1
"""Seconds for which a count of the blocks read from the disk serves the reads that follow."""

REST_S: Final = 1.0
"""Seconds after a slow read in which `look` reads nothing."""

_LOOK_EVERY = 20_000
"""Steps of SQLite's virtual machine, about a millisecond, between two checks of `cancelled`.

An interrupt from outside is not enough, because it has no effect between two statements.
"""


class _Call:
    """One read. `cancelled` says that its caller was cancelled."""

    cancelled = False


class Readers:
    """Runs one thread for each connection. `read` waits in the executor's queue for a free one."""

    def __init__(
        self, conns: Sequence[sqlite3.Connection], here: sqlite3.Connection, *, name: str
    ) -> None:
        self._all = (*conns, here)
        self._here = here
        self._here.set_progress_handler(self._is_long, STEPS_HERE)
        self._left_here: int | None = None
        self._least_end = 0.0
        """When STEPS_HERE steps of the present read can be over, by the monotonic clock."""
        self._rests_until = 0.0
        self._blocks = 0
        self._blocks_until = 0.0
        self._free = list(conns)
        """The last one used is the next one, as its cache has the pages of the last read. There are
        as many as threads, so that a thread always finds one."""
        self._threads = ThreadPoolExecutor(len(conns), thread_name_prefix=name)
        self._attach: dict[str, str] = {}
        self._attached: dict[int, dict[str, str]] = {}

    def attach(self, alias: str, uri: str) -> None:
        """Attach a database as `alias` on every connection, from its next read on."""
        self._attach = {**self._attach, alias: uri}

    async def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` in one snapshot. Cancellation interrupts the running statement."""
        call = _Call()
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._threads, self._run, call, work)
        except asyncio.CancelledError:
            call.cancelled = True
            raise

    async def read_here(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run a small work in the calling thread.

        If another program locks the file or the work is not small, run it like `read`.
        """
        try:
            found = self._run_here(work)
        except sqlite3.Error as error:
            if not _needs_a_thread(error):
                raise store_error(error) from error
            return await self.read(work)
        await asyncio.sleep(0)
        return found

    def look(self, work: Callable[[sqlite3.Connection], T | None]) -> T | None:
        """Run a small work in the calling thread.

        Returns None also if the caller must use `read` instead.
        """
        start = monotonic()
        if start < self._rests_until:
            return None
        if start >= self._blocks_until:
            self._blocks, self._blocks_until = _disk_reads(), start + BLOCKS_S
        try:
            return self._run_here(work)
        except sqlite3.Error as error:
            if not _needs_a_thread(error):
                raise store_error(error) from error
            return None
        finally:
            if monotonic() - start > SLOW_S and _disk_reads() != self._blocks:
                self._rests_until = monotonic() + REST_S

    def _run_here(self, work: Callable[[sqlite3.Connection], T]) -> T:
        def bounded(conn: sqlite3.Connection) -> T:
            self._left_here = 1
            self._least_end = monotonic() + STEPS_HERE * STEP_S
            try:
                return work(conn)
            finally:
                self._left_here = None

        return snapshot(self._here, bounded)

    def _is_long(self) -> bool:
        """Return whether the present read has taken too many steps.

        SQLite calls this function after each STEPS_HERE steps of a statement. The first call
        includes steps of earlier runs of the statement. Only a second call proves that a read of
        one statement has taken as many. A second call may also be the first of another statement,
        so that the time decides. Statements that begin and end the transaction are never stopped.
        """
        if self._left_here is None:
            return False
        self._left_here -= 1
        return self._left_here < 0 and monotonic() > self._least_end

    def _run(self, call: _Call, work: Callable[[sqlite3.Connection], T]) -> T:
        conn = self._free.pop()
        conn.set_progress_handler(lambda: call.cancelled, _LOOK_EVERY)
        try:
            self._bring_up_to_date(conn)
            return snapshot(conn, work)
        except sqlite3.Error as error:
            raise store_error(error) from error
        finally:
            conn.set_progress_handler(None, _LOOK_EVERY)
            self._free.append(conn)

    def _bring_up_to_date(self, conn: sqlite3.Connection) -> None:
        wanted = self._attach
        has = self._attached.get(id(conn), {})
        if has is not wanted:
            self._attached[id(conn)] = reattached(conn, has, wanted)

    def close(self) -> None:
        """Wait for the running reads, then close the connections. Blocks."""
        self._threads.shutdown(wait=True)
        for conn in self._all:
            conn.close()


def _disk_reads() -> int:
    """Return the number of blocks that this thread has read from a disk.

    It distinguishes a slow disk from a busy machine.
    """
    if sys.platform == "win32":
        return 0
    whose = resource.RUSAGE_THREAD if sys.platform == "linux" else resource.RUSAGE_SELF
    return resource.getrusage(whose).ru_inblock


def _needs_a_thread(error: sqlite3.Error) -> bool:
    """Return whether a read failed only because it may not wait in the caller's thread."""
    code = getattr(error, "sqlite_errorcode", None)
    return code == sqlite3.SQLITE_INTERRUPT or isinstance(store_error(error), StoreLocked)


def reattach(conn: sqlite3.Connection, has: dict[str, str], wanted: dict[str, str]) -> None:
    """Attach each wanted database under its alias.

    Replaces a different database that has the alias.
    """
    for alias, uri in wanted.items():
        if has.get(alias) == uri:
            continue
        if alias in has:
            conn.execute(f"DETACH {alias}")
        conn.execute(f"ATTACH ? AS {alias}", (uri,))


def reattached(
    conn: sqlite3.Connection, has: dict[str, str], wanted: dict[str, str]
) -> dict[str, str]:
    """Attach the wanted databases and return those that are attached.

    A missing file is left out, and the next read tries again. Readers of events do not need the
    file. A reader of the file gets an error.
    """
    missing = set()
    for alias, uri in wanted.items():
        try:
            reattach(conn, has, {alias: uri})
        except sqlite3.OperationalError:
            missing.add(alias)
    if not missing:
        return wanted
    return {alias: uri for alias, uri in wanted.items() if alias not in missing}


def snapshot(conn: sqlite3.Connection, work: Callable[[sqlite3.Connection], T]) -> T:
    """Run `work` in one read transaction, so that all its statements see the same moment."""
    conn.execute("BEGIN")
    try:
        return work(conn)
    finally:
        if conn.in_transaction:
            conn.execute("ROLLBACK")
