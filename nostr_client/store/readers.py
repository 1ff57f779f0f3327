"""Reader connections in threads: each call sees one snapshot, and can be interrupted."""

from __future__ import annotations

import asyncio
import queue
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from nostr_client.errors import StoreLocked
from nostr_client.store.faults import store_error

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

T = TypeVar("T")


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
        file."""
        try:
            found = snapshot(self._here, work)
        except sqlite3.Error as error:
            if not isinstance(wrapped := store_error(error), StoreLocked):
                raise wrapped from error
            return await self.read(work)
        await asyncio.sleep(0)
        return found

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
