"""Run SQLite's work in a thread, so that Ctrl-C and a time limit end the wait for it at once.

SQLite looks for an interrupt between two steps of its machine. One function call is one step, and
over a long text it can take minutes. Python handles Ctrl-C only in the main thread, and there not
before such a call returns.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar

from nostr_client.errors import StoreError
from nostr_client.store.file.faults import Capture

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

_LOOK_S: Final = 0.2
"""Seconds between two looks at the time; Ctrl-C waits as long on Windows."""

_GRACE_S: Final = 2.0
"""Seconds that an interrupted work has to end. SQLite's steps take far less, but for a function
over a long text: its thread is left behind, and ends when the function returns or with the
process."""


class SqlThread:
    """Runs one work of a connection in a thread; `connected` takes the connection of the work."""

    def __init__(self) -> None:
        self._conn: sqlite3.Connection | None = None
        self._ended = False
        self._done = threading.Event()
        self._result: Any = None
        self._error: BaseException | None = None

    def connected(self, conn: sqlite3.Connection) -> None:
        """Have Ctrl-C and the time limit interrupt this connection; the work calls it first."""
        self._conn = conn
        if self._ended:
            raise sqlite3.OperationalError("interrupted")

    def run(self, work: Callable[[], T], seconds: float | None = None) -> T:
        """Return what `work` returns, or raise what it raises; it opens and closes its connection.

        Ctrl-C interrupts the connection and is raised again. If the work has not ended some seconds
        after `seconds`, this raises StoreError; the work may end the time itself, sooner.
        """
        thread = threading.Thread(target=self._run, args=(work,), name="sql", daemon=True)
        try:
            thread.start()  # Ctrl-C may come here already, when the work runs
            self._wait(seconds)
        except BaseException:
            self._interrupt()
            raise
        if self._error is not None:
            raise self._error
        result: T = self._result
        return result

    def _run(self, work: Callable[[], T]) -> None:
        with Capture() as capture:
            self._result = work()
        self._error = capture.error
        self._done.set()

    def _wait(self, seconds: float | None) -> None:
        end = None if seconds is None else time.monotonic() + seconds + _GRACE_S
        while not self._done.wait(_LOOK_S):
            if end is not None and time.monotonic() > end:
                raise too_long(seconds or 0)

    def _interrupt(self) -> None:
        """Interrupt the work until it ends, at most for the grace: an interrupt between two
        statements has no effect."""
        self._ended = True
        end = time.monotonic() + _GRACE_S
        while not self._done.wait(_LOOK_S / 10) and time.monotonic() < end:
            with suppress(sqlite3.ProgrammingError):  # closed meanwhile
                if self._conn is not None:
                    self._conn.interrupt()


def too_long(seconds: float) -> StoreError:
    """Return the error of a query that exceeds its time limit."""
    return StoreError(f"the query took longer than {seconds:g} s and was ended")
