"""Reports to the supervisor (sd_notify), and ends this process when its parent ends."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping


PATIENCE_S: Final = 10.0
"""How often a supervisor is asked to wait on, each time for three times as long."""


class Notifier:
    """Sends states; without a socket in the environment it does nothing."""

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        environ = os.environ if environ is None else environ
        self._address = environ.get("NOTIFY_SOCKET", "")
        self.watchdog_s = _watchdog(environ)
        """How often the supervisor wants to hear from us, in seconds; None: it does not."""

    def send(self, **states: str | int) -> bool:
        """Send e.g. `READY=1`; whether somebody took it. Never waits and never raises."""
        if not self._address:
            return False
        text = "\n".join(f"{key}={value}" for key, value in states.items())
        address = self._address
        if address.startswith("@"):
            address = "\0" + address[1:]
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
                sock.setblocking(False)
                sock.sendto(text.encode(), address)
        except OSError:
            return False
        return True


@asynccontextmanager
async def taking_long(notifier: Notifier, status: str) -> AsyncIterator[None]:
    """Ask the supervisor for patience for as long as the block takes, before READY or after."""
    asking = asyncio.create_task(_ask_for_patience(notifier, status))
    try:
        yield
    finally:
        asking.cancel()
        await asyncio.wait({asking})


async def _ask_for_patience(notifier: Notifier, status: str) -> None:
    while True:
        notifier.send(EXTEND_TIMEOUT_USEC=int(3 * PATIENCE_S * 1e6), STATUS=status)
        await asyncio.sleep(PATIENCE_S)


def _watchdog(environ: Mapping[str, str]) -> float | None:
    """WATCHDOG_USEC, where it is meant for this process."""
    text, pid = environ.get("WATCHDOG_USEC", ""), environ.get("WATCHDOG_PID", "")
    if not text.isdecimal() or int(text) == 0 or (pid and pid != str(os.getpid())):
        return None
    return int(text) / 1e6


def end_with_stdin() -> None:
    """Send SIGTERM to this process when its stdin closes: a parent holds the other end."""
    threading.Thread(target=_wait, name="parent", daemon=True).start()


def _wait() -> None:
    while os.read(0, 4096):  # not sys.stdin: the interpreter could not end while that is read
        pass
    os.kill(os.getpid(), signal.SIGTERM)
