"""The numbers of budgets in one file, which all programs of a user share.

The file has a fixed number of places. A host's place is found by a digest, so the file does not
name the relays that were asked; the place that was used least lately gives way. Each change is made
under a lock that is held for microseconds: who does not get it in milliseconds goes on without.
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
        """Nothing was locked."""

    def _let_others_run() -> None:
        """Nobody is waited for."""
else:
    import fcntl

    def _try_lock(fd: int) -> None:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _unlock(fd: int) -> None:
        fcntl.flock(fd, fcntl.LOCK_UN)

    def _let_others_run() -> None:
        os.sched_yield()


IS_SHARED: Final = sys.platform != "win32"
"""Whether programs share budgets here: it takes a lock that dies with its process."""

_PLACE: Final = struct.Struct("=16s6d")
PLACES: Final = 1_024
"""Hosts that are remembered at most: the file has 64 KiB."""

_PROBES: Final = 8
"""Places that a digest may stand in."""

_PATIENCE_S: Final = 0.005
"""Seconds of trying for a lock that is held for microseconds: its holder may have been stopped."""


class BudgetState(NamedTuple):
    """What a budget has: tokens and when they were counted, the pause and when it ends.

    Times are those of the machine's monotonic clock, in seconds.
    """

    requests: float
    requests_at: float
    bytes: float
    bytes_at: float
    pause: float
    until: float


class BudgetFile:
    """See the module. Raises OSError where the file cannot be made or mapped."""

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
        """Close the file; its numbers stay."""
        self._map.close()
        os.close(self._fd)

    @contextmanager
    def locked(self) -> Iterator[bool]:
        """A block in which nobody else changes a place; False where somebody holds the lock."""
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
        """What the last program left of a budget; None where none is known."""
        for at in self._places(digest):
            found, *numbers = _PLACE.unpack_from(self._map, at)
            if found == digest:
                return BudgetState(*numbers) if all(map(math.isfinite, numbers)) else None
        return None

    def write(self, digest: bytes, numbers: BudgetState) -> None:
        """Leave a budget to the next program, under the lock."""
        _PLACE.pack_into(self._map, self._place(digest), digest, *numbers)

    def _place(self, digest: bytes) -> int:
        """Where a digest stands, else the place of its probes that was used least lately."""
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
    """The name of a host's budget in the file: budgets with other limits are others."""
    return hashlib.blake2b(f"{host}\n{limits!r}".encode(), digest_size=16).digest()
