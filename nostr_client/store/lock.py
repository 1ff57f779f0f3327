"""The writer lock: a file beside the store, locked for as long as one process may write it."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from nostr_client.errors import StoreLocked
from nostr_client.store.faults import making_error

if TYPE_CHECKING:
    from pathlib import Path

if sys.platform == "win32":
    import msvcrt

    _FAR = 1 << 30
    """msvcrt locks a byte range for reading too: lock one far behind the pid."""

    def _try_lock(fd: int) -> None:
        os.lseek(fd, _FAR, os.SEEK_SET)
        msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        os.lseek(fd, 0, os.SEEK_SET)
else:
    import fcntl

    def _try_lock(fd: int) -> None:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)


def lock_path(database: Path) -> Path:
    """Where the lock of a database file stands: `<file>.lock`, links resolved."""
    real = database.resolve()
    return real.with_name(real.name + ".lock")


class WriterLock:
    """An advisory lock that dies with its process, so a kill -9 never leaves it behind.

    Raises StoreLocked with the holder's pid when another process, or another Database of this
    one, has it; StoreError when the folder cannot be written.
    """

    def __init__(self, database: Path) -> None:
        self._path = lock_path(database)
        try:
            self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise making_error(self._path, error) from error
        try:
            _try_lock(self._fd)
        except OSError as error:
            pid = _holder(self._fd)
            os.close(self._fd)
            raise StoreLocked(_message(database, pid), pid=pid) from error
        with suppress(OSError):  # the lock holds; on a full disk nobody learns whose it is
            os.ftruncate(self._fd, 0)
            os.write(self._fd, f"{os.getpid()}\n".encode())

    def release(self) -> None:
        """Give the lock up; the file stays, since removing it would race with the next holder."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _holder(fd: int) -> int | None:
    text = os.pread(fd, 32, 0) if hasattr(os, "pread") else os.read(fd, 32)
    digits = text.strip()
    return int(digits) if digits.isdigit() else None


def _message(database: Path, pid: int | None) -> str:
    who = f"process {pid}" if pid is not None else "another process"
    return f"{database} is being written by {who}"
