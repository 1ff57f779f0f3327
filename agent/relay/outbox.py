"""Queues frames for one reader, bounded in the memory that they take."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

Frame = bytes
"""The UTF-8 text of one frame."""

BATCH = 64 * 1024
"""Bytes of one write: more would only wait in the kernel."""

FRAME_BYTES = 48
"""Memory of a frame beside its text: the object and its place in the queue. The smallest answers,
such as EOSE, are no larger, so texts alone would bound a fraction of the memory."""


def size_of(frame: Frame) -> int:
    """The bytes that a frame takes while it waits."""
    return len(frame) + FRAME_BYTES


class OutboxBudget:
    """What all readers of a relay have not taken yet, in bytes of memory."""

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
        if self.bytes >= self._most:
            self._room.clear()
        elif not self._room.is_set():
            self._room.set()

    async def room(self) -> None:
        """Wait until there is room for large answers. Safe to cancel."""
        await self._room.wait()


class Outbox:
    """Frames on their way to one client, in UTF-8. All sizes are those of `size_of`.

    `put` never waits: it returns False when more than `most_bytes` wait, and the caller disconnects
    the reader. `wait_low` lets a producer of many frames wait for its reader instead. Frames
    wait until the next `take`: those of the last one may still be on their way into the socket.
    """

    def __init__(
        self, most_bytes: int, low_bytes: int, waiting: OutboxBudget | None = None
    ) -> None:
        self._waiting = waiting or OutboxBudget(most_bytes)
        self._flying = 0
        self._frames: deque[Frame] = deque()
        self._most = most_bytes
        self._low_mark = low_bytes
        self._bytes = 0
        self._low = asyncio.Event()
        self._low.set()
        self._empty = asyncio.Event()
        self._empty.set()

    @property
    def bytes(self) -> int:
        """Bytes of the frames that wait."""
        return self._bytes

    @property
    def is_low(self) -> bool:
        """Whether little is left to send."""
        return self._low.is_set()

    @property
    def is_empty(self) -> bool:
        """Whether the last frame has been taken."""
        return not self._frames

    def put(self, frame: Frame) -> bool:
        """Add a frame; False, and the frame dropped, when the reader is too far behind."""
        size = size_of(frame)
        if self._bytes + size > self._most and self._frames:
            return False
        if self._waiting.is_over and not self.is_low:
            return False
        self._frames.append(frame)
        self._count(size)
        self._empty.clear()
        if self._bytes > self._low_mark:
            self._low.clear()
        return True

    def put_all(self, frames: Sequence[Frame]) -> bool:
        """Add frames after which little is left to send; False, and none added, where more is."""
        size = sum(map(len, frames)) + FRAME_BYTES * len(frames)
        if self._bytes + size > self._low_mark:
            return False
        if frames:
            self._frames.extend(frames)
            self._count(size)
            self._empty.clear()
        return True

    def take(self) -> list[Frame]:
        """The next frames, up to BATCH bytes; the socket has taken those of the last call."""
        self._count(-self._flying)
        self._flying = 0
        if self._bytes <= BATCH:
            taken = list(self._frames)
            self._frames.clear()
            self._flying = self._bytes
        else:
            taken = self._first()
        if not self._frames:
            self._empty.set()
        return taken

    def _first(self) -> list[Frame]:
        taken: list[Frame] = []
        while self._frames and (not taken or self._flying + size_of(self._frames[0]) <= BATCH):
            taken.append(self._frames.popleft())
            self._flying += size_of(taken[-1])
        return taken

    def close(self) -> None:
        """Drop the waiting frames of a reader that has disconnected."""
        self._frames.clear()
        self._flying = 0
        self._count(-self._bytes)

    def _count(self, change: int) -> None:
        if not change:
            return
        self._bytes += change
        self._waiting.change(change)
        if self._bytes <= self._low_mark and not self._low.is_set():
            self._low.set()

    async def wait_low(self) -> None:
        """Wait until little is left to send. Safe to cancel."""
        await self._low.wait()

    async def wait_empty(self) -> None:
        """Wait until the last frame has been taken. Safe to cancel."""
        await self._empty.wait()
