"""Waiting for a state of this event loop: a condition without a lock, for single-threaded use."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Gate:
    """Coroutines wait until their test holds; whoever changes the state calls `wake`."""

    __slots__ = ("_waiters",)

    def __init__(self) -> None:
        self._waiters: set[asyncio.Future[None]] = set()

    async def wait(self, ready: Callable[[], object]) -> None:
        """Return as soon as `ready()` is true; at once if it is. Safe to cancel."""
        while not ready():
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.add(waiter)
            try:
                await waiter
            finally:
                self._waiters.discard(waiter)

    def wake(self) -> None:
        """Let every waiter test again."""
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
