"""Ending with whoever started us, however that one ended."""

from __future__ import annotations

import os
import signal
import threading


def end_with_stdin() -> None:
    """Ask this process to end (SIGTERM) when its stdin does: the other end is held by a parent."""
    threading.Thread(target=_wait, name="parent", daemon=True).start()


def _wait() -> None:
    while os.read(0, 4096):  # not sys.stdin: the interpreter could not end while that is read
        pass
    os.kill(os.getpid(), signal.SIGTERM)
