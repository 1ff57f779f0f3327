"""What waits for one reader: a queue of frames, bounded in bytes."""

from __future__ import annotations

import asyncio
from collections import deque

BATCH = 64 * 1024
"""Characters that are written at once: more would only wait in the kernel."""


class Outbox:
    """Frames on their way to one client.

    `put` never waits: it says False when more than `most_bytes` wait, and the reader is to be
    disconnected. `wait_low` lets a producer of many frames wait for its reader instead.
    """

    def __init__(self, most_bytes: int, low_bytes: int) -> None:
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
        """Characters that wait: bytes for ASCII, up to a third of them for other scripts."""
        return self._bytes

    @property
    def is_low(self) -> bool:
        """Whether little is left to send."""
        return self._low.is_set()

    def put(self, frame: str) -> bool:
        """Add a frame; False, and the frame dropped, when the reader is too far behind."""
        if self._bytes + len(frame) > self._most and self._frames:
            return False
        self._frames.append(frame)
        self._bytes += len(frame)
        self._ready.set()
        self._empty.clear()
        if self._bytes > self._low_mark:
            self._low.clear()
        return True

    async def take(self) -> list[str]:
        """The next frames, up to BATCH characters; waits for one. Safe to cancel."""
        while not self._frames:
            self._ready.clear()
            await self._ready.wait()
        taken: list[str] = []
        size = 0
        while self._frames and (not taken or size + len(self._frames[0]) <= BATCH):
            taken.append(self._frames.popleft())
            size += len(taken[-1])
        self._bytes -= size
        if self._bytes <= self._low_mark:
            self._low.set()
        if not self._frames:
            self._empty.set()
        return taken

    async def wait_low(self) -> None:
        """Wait until little is left to send. Safe to cancel."""
        await self._low.wait()

    async def wait_empty(self) -> None:
        """Wait until the last frame has been taken. Safe to cancel."""
        await self._empty.wait()
