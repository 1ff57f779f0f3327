"""Ends the application at a signal, or with its terminal; some seconds after that in any case.

A terminal that is gone, or that nobody reads, can block the event loop as it writes. So a signal is
taken outside the event loop, and a thread looks whether the terminal is there and whether the end
takes too long. A tab of `--serve` has pipes to the server instead of a terminal.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import termios
import threading
import time
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

TERMINATED: Final = 143
"""The exit code after a signal, and after the loss of the terminal."""

LOOK_S: Final = 0.5
"""Seconds between two looks at the terminal."""

LOST_S: Final = 3.0
"""Seconds that the end may take without a terminal: nothing has to be restored."""

GRACE_S: Final = 10.0
"""Seconds that the end may take after a signal: an agent of ours closes its store meanwhile."""

RESTORE: Final = (
    b"\x1b[?2004l\x1b[?7h\x1b[?1000l\x1b[?1003l\x1b[?1015l\x1b[?1006l\x1b[?1016l\x1b[?2048l"
    b"\x1b[<u\x1b[?1049l\x1b[?25h\x1b[?1004l"
)
"""Switches off all that Textual switches on: what an end in order writes too."""


class Ending:
    """Calls `do` in the event loop when the application has to end; ends the process if it hangs.

    An agent that the application started ends then by itself, as its stdin closes.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, do: Callable[[], None]) -> None:
        self._loop, self._do = loop, do
        self._before = _attributes()
        self._deadline: float | None = None

    def watch(self) -> None:
        """Take the signals that end a program, and look after the terminal."""
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._on_signal)
        threading.Thread(target=self._look, name="ending", daemon=True).start()

    def _on_signal(self, *_: object) -> None:
        self._end(GRACE_S)

    def _end(self, grace: float) -> None:
        """End in order; without a lock, as a signal may come at any time."""
        if self._deadline is None:
            self._deadline = time.monotonic() + grace
        with contextlib.suppress(RuntimeError):  # the loop has ended already
            self._loop.call_soon_threadsafe(self._do)

    def _look(self) -> None:
        while self._deadline is None or time.monotonic() < self._deadline:
            time.sleep(LOOK_S)
            if self._deadline is None and not self._is_seen():
                self._end(LOST_S)
        _restore(self._before)
        os._exit(TERMINATED)

    def _is_seen(self) -> bool:
        """Whether the terminal is there; of a browser's tab, the server that shows it."""
        if self._before is not None:
            return _attributes() is not None
        if sys.__stdin__ is None:
            return True
        hangup = select.poll()
        hangup.register(sys.__stdin__.fileno(), 0)
        return not hangup.poll(0)


def _attributes() -> list[Any] | None:
    """What the terminal is set to; None where there is no terminal, or none any more."""
    try:
        return termios.tcgetattr(sys.__stdin__.fileno()) if sys.__stdin__ is not None else None
    except (termios.error, OSError, ValueError):
        return None


def _restore(before: list[Any] | None) -> None:
    """Leave the terminal as it was, as far as it takes that without a wait."""
    if before is None or sys.__stdin__ is None:
        return
    with contextlib.suppress(termios.error, OSError):
        termios.tcsetattr(sys.__stdin__.fileno(), termios.TCSANOW, before)
    with contextlib.suppress(OSError):  # an own description of it: O_NONBLOCK is not the shell's
        terminal = os.open(os.ttyname(sys.__stdin__.fileno()), os.O_WRONLY | os.O_NONBLOCK)
        os.write(terminal, RESTORE)
