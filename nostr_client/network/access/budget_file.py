"""Share the budgets of all programs of a user through one file.

The file has a fixed number of slots. A digest selects the slot of a host, so the file does not name
the relays that were asked. The slot with the oldest use is overwritten first. A program changes a
slot under a lock that it holds for microseconds. A program that does not get the lock in a few
milliseconds goes on without the lock.
"""

from __future__ import annotations

import hashlib
import math
import mmap
import os
import struct
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

if sys.platform == "win32":

    def _try_lock(fd: int) -> None:
        raise OSError("budgets are not shared on this platform")

    def _unlock(fd: int) -> None:
        """Do nothing, because nothing is locked."""

    def _let_others_run() -> None:
        """Do nothing, because no other program is waited for."""
else:
    import fcntl

    def _try_lock(fd: int) -> None:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _unlock(fd: int) -> None:
        fcntl.flock(fd, fcntl.LOCK_UN)

    def _let_others_run() -> None:
        os.sched_yield()


IS_SHARED: Final = sys.platform != "win32"
"""Whether programs can share budgets here. They need a lock that ends with its process."""

_PLACE: Final = struct.Struct("=16s6d")
PLACES: Final = 1_024
"""Most hosts in the file, which has 64 KiB."""

_PROBES: Final = 8
"""Slots in which a digest may be."""

_PATIENCE_S: Final = 0.005
"""Seconds to try for the lock. Its holder may have been stopped."""


class BudgetState(NamedTuple):
    """State of a budget: tokens and when they were counted, the pause and when the pause ends.

    Times are seconds of the machine's monotonic clock.
    """

    requests: float
    requests_at: float
    bytes: float
    bytes_at: float
    pause: float
    until: float


class BudgetFile:
    """File of budgets, as the module describes.

    Raises OSError if the file cannot be made or mapped.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        self._fd = os.open(path, flags, 0o600)
        try:
            os.ftruncate(self._fd, PLACES * _PLACE.size)
            self._map = mmap.mmap(self._fd, PLACES * _PLACE.size)
        except (OSError, ValueError):
            os.close(self._fd)
            raise

    def close(self) -> None:
        """Close the file. Its contents stay."""
        self._map.close()
        os.close(self._fd)

    @contextmanager
    def locked(self) -> Iterator[bool]:
        """Hold the lock during a block. The block gets False if another program keeps the lock."""
        held = self._lock()
        try:
            yield held
        finally:
            if held:
                _unlock(self._fd)

    def _lock(self) -> bool:
        until = time.monotonic() + _PATIENCE_S
        while True:
            try:
                _try_lock(self._fd)
            except OSError:
                if time.monotonic() > until:
                    return False
                _let_others_run()
            else:
                return True

    def read(self, digest: bytes) -> BudgetState | None:
        """Return the state that the last program wrote for a budget, or None if there is none."""
        for at in self._places(digest):
            found, *numbers = _PLACE.unpack_from(self._map, at)
            if found == digest:
                return BudgetState(*numbers) if all(map(math.isfinite, numbers)) else None
        return None

    def write(self, digest: bytes, numbers: BudgetState) -> None:
        """Write the state of a budget for the next program. The caller holds the lock."""
        _PLACE.pack_into(self._map, self._place(digest), digest, *numbers)

    def _place(self, digest: bytes) -> int:
        """Return the slot of a digest, or else the slot with the oldest use among its possible
        slots.
        """
        oldest, least = 0, float("inf")
        for at in self._places(digest):
            found, *numbers = _PLACE.unpack_from(self._map, at)
            if found == digest:
                return at
            used = BudgetState(*numbers).requests_at
            if used < least:
                oldest, least = at, used
        return oldest

    def _places(self, digest: bytes) -> Iterator[int]:
        first = int.from_bytes(digest[:4], "big")
        return ((first + n) % PLACES * _PLACE.size for n in range(_PROBES))


def digest_of(host: str, limits: object) -> bytes:
    """Return the key of a host's budget in the file. Other limits give another key."""
    return hashlib.blake2b(f"{host}\n{limits!r}".encode(), digest_size=16).digest()
