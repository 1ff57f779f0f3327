"""Reader connections in threads: each call sees one snapshot, and can be interrupted."""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import sys
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import TYPE_CHECKING, Final, TypeVar

from nostr_client.errors import StoreLocked
from nostr_client.store.faults import store_error

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

T = TypeVar("T")


STEPS_HERE: Final = 10_000
"""Steps of SQLite's machine, about half a millisecond. A read in the caller's thread ends after
once to twice as many, and runs in a thread of its own."""

SLOW_S: Final = 0.02
"""Seconds of a read in the caller's thread that show a slow disk, where the disk was read."""

REST_S: Final = 1.0
"""Seconds after a slow read in which `look` reads nothing."""

_LOOK_EVERY = 20_000
"""Steps of SQLite's machine, about a millisecond, between two looks at `cancelled`: an interrupt
from outside is lost when it falls between two statements."""


class _Call:
    """One read, and whether its caller went away."""

    cancelled = False


class Readers:
    """A thread per connection; `read` waits for a free one in the executor's own queue."""

    def __init__(
        self, conns: Sequence[sqlite3.Connection], here: sqlite3.Connection, *, name: str
    ) -> None:
        self._all = (*conns, here)
        self._here = here
        self._here.set_progress_handler(self._is_long, STEPS_HERE)
        self._left_here: int | None = None
        self._rests_until = 0.0
        self._free: queue.SimpleQueue[sqlite3.Connection] = queue.SimpleQueue()
        for conn in conns:
            self._free.put(conn)
        self._threads = ThreadPoolExecutor(len(conns), thread_name_prefix=name)
        self._attach: dict[str, str] = {}
        self._attached: dict[int, dict[str, str]] = {}

    def attach(self, alias: str, uri: str) -> None:
        """Every connection has this database as `alias` from its next read on."""
        self._attach = {**self._attach, alias: uri}

    async def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` in one snapshot. Cancelling interrupts the running statement."""
        call = _Call()
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._threads, self._run, call, work)
        except asyncio.CancelledError:
            call.cancelled = True
            raise

    async def read_here(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run a small work in the calling thread, or like `read` where another program holds the
        file or the work is not small."""
        try:
            found = self._run_here(work)
        except sqlite3.Error as error:
            if not _needs_a_thread(error):
                raise store_error(error) from error
            return await self.read(work)
        await asyncio.sleep(0)
        return found

    def look(self, work: Callable[[sqlite3.Connection], T | None]) -> T | None:
        """Run a small work in the calling thread; None, too, where `read` must run it."""
        start, blocks = monotonic(), _disk_reads()
        if start < self._rests_until:
            return None
        try:
            return self._run_here(work)
        except sqlite3.Error as error:
            if not _needs_a_thread(error):
                raise store_error(error) from error
            return None
        finally:
            if monotonic() - start > SLOW_S and _disk_reads() != blocks:
                self._rests_until = monotonic() + REST_S

    def _run_here(self, work: Callable[[sqlite3.Connection], T]) -> T:
        def bounded(conn: sqlite3.Connection) -> T:
            self._left_here = 1
            try:
                return work(conn)
            finally:
                self._left_here = None

        return snapshot(self._here, bounded)

    def _is_long(self) -> bool:
        """SQLite calls this after STEPS_HERE steps of a statement, those of its earlier runs
        included: only a second call says that this read has taken as many. The statements that
        begin and end the transaction go on."""
        if self._left_here is None:
            return False
        self._left_here -= 1
        return self._left_here < 0

    def _run(self, call: _Call, work: Callable[[sqlite3.Connection], T]) -> T:
        conn = self._free.get()
        conn.set_progress_handler(lambda: call.cancelled, _LOOK_EVERY)
        try:
            self._bring_up_to_date(conn)
            return snapshot(conn, work)
        except sqlite3.Error as error:
            raise store_error(error) from error
        finally:
            conn.set_progress_handler(None, _LOOK_EVERY)
            self._free.put(conn)

    def _bring_up_to_date(self, conn: sqlite3.Connection) -> None:
        wanted = self._attach
        has = self._attached.get(id(conn), {})
        if has is not wanted:
            self._attached[id(conn)] = reattached(conn, has, wanted)

    def close(self) -> None:
        """Wait for the running reads, then close the connections; blocks."""
        self._threads.shutdown(wait=True)
        for conn in self._all:
            conn.close()


def _disk_reads() -> int:
    """Blocks that this thread has read from a disk so far; a busy machine alone reads none."""
    if sys.platform == "win32":
        return 0
    import resource

    whose = resource.RUSAGE_THREAD if sys.platform == "linux" else resource.RUSAGE_SELF
    return resource.getrusage(whose).ru_inblock


def _needs_a_thread(error: sqlite3.Error) -> bool:
    """Whether a read in the caller's thread failed only because nothing waits there."""
    code = getattr(error, "sqlite_errorcode", None)
    return code == sqlite3.SQLITE_INTERRUPT or isinstance(store_error(error), StoreLocked)


def reattach(conn: sqlite3.Connection, has: dict[str, str], wanted: dict[str, str]) -> None:
    """Attach what is wanted under each alias, instead of what is there."""
    for alias, uri in wanted.items():
        if has.get(alias) == uri:
            continue
        if alias in has:
            conn.execute(f"DETACH {alias}")
        conn.execute(f"ATTACH ? AS {alias}", (uri,))


def reattached(
    conn: sqlite3.Connection, has: dict[str, str], wanted: dict[str, str]
) -> dict[str, str]:
    """What is attached afterwards. A file that is gone is left out, and is tried again by the next
    read: readers of events do not care, and a reader of the file gets an error."""
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
    """Run `work` inside one read transaction, so that its statements see the same moment."""
    conn.execute("BEGIN")
    try:
        return work(conn)
    finally:
        if conn.in_transaction:
            conn.execute("ROLLBACK")
