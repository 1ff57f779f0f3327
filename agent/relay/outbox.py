"""Queues frames for one reader, bounded in bytes."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

BATCH = 64 * 1024
"""Characters of one write: more would only wait in the kernel."""


class OutboxBudget:
    """What all readers of a relay have not taken yet, in characters."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.bytes = 0
        self._room = asyncio.Event()
        self._room.set()

    @property
    def is_over(self) -> bool:
        """Whether readers together keep more waiting than they may."""
        return self.bytes >= self._most

    def change(self, size: int) -> None:
        """Count frames that come to wait, or, with a negative size, no longer do."""
        self.bytes += size
        if self.is_over:
            self._room.clear()
        else:
            self._room.set()

    async def room(self) -> None:
        """Wait until there is room for large answers. Safe to cancel."""
        await self._room.wait()


class Outbox:
    """Frames on their way to one client.

    `put` never waits: it returns False when more than `most_bytes` wait, and the caller disconnects
    the reader. `wait_low` lets a producer of many frames wait for its reader instead. Frames
    wait until the next `take`: those of the last one may still be on their way into the socket.
    """

    def __init__(
        self, most_bytes: int, low_bytes: int, waiting: OutboxBudget | None = None
    ) -> None:
        self._waiting = waiting or OutboxBudget(most_bytes)
        self._flying = 0
        self._frames: deque[str] = deque()
        self._most = most_bytes
        self._low_mark = low_bytes
        self._bytes = 0
        self._ready = asyncio.Event()
        self._low = asyncio.Event()
        self._low.set()
        self._empty = asyncio.Event()
        self._empty.set()

    @property
    def bytes(self) -> int:
        """Characters that wait or are being sent: as many bytes for ASCII, up to thrice as many
        for other scripts."""
        return self._bytes

    @property
    def is_empty(self) -> bool:
        """Whether the last frame has been taken."""
        return self._empty.is_set()

    @property
    def is_low(self) -> bool:
        """Whether little is left to send."""
        return self._low.is_set()

    def put(self, frame: str) -> bool:
        """Add a frame; False, and the frame dropped, when the reader is too far behind."""
        if self._bytes + len(frame) > self._most and self._frames:
            return False
        if self._waiting.is_over and not self.is_low:
            return False
        self._frames.append(frame)
        self._count(len(frame))
        self._ready.set()
        self._empty.clear()
        if self._bytes > self._low_mark:
            self._low.clear()
        return True

    def put_all(self, frames: Sequence[str]) -> bool:
        """Add frames after which little is left to send; False, and none added, where more is."""
        size = sum(map(len, frames))
        if self._bytes + size > self._low_mark:
            return False
        if frames:
            self._frames.extend(frames)
            self._count(size)
            self._ready.set()
            self._empty.clear()
        return True

    async def take(self) -> list[str]:
        """The next frames, up to BATCH characters; waits for one. Safe to cancel."""
        self._count(-self._flying)
        self._flying = 0
        while not self._frames:
            self._ready.clear()
            await self._ready.wait()
        taken: list[str] = []
        size = 0
        while self._frames and (not taken or size + len(self._frames[0]) <= BATCH):
            taken.append(self._frames.popleft())
            size += len(taken[-1])
        self._flying = size
        if not self._frames:
            self._empty.set()
        return taken

    def close(self) -> None:
        """Drop the waiting frames of a reader that has disconnected."""
        self._frames.clear()
        self._flying = 0
        self._count(-self._bytes)

    def _count(self, change: int) -> None:
        self._bytes += change
        self._waiting.change(change)
        if self._bytes <= self._low_mark:
            self._low.set()

    async def wait_low(self) -> None:
        """Wait until little is left to send. Safe to cancel."""
        await self._low.wait()

    async def wait_empty(self) -> None:
        """Wait until the last frame has been taken. Safe to cancel."""
        await self._empty.wait()
