"""How the tasks of one event loop wait for each other: conditions, and groups of tasks."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from nostr_client.errors import NostrTallyError, innermost

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable


class Gate:
    """Coroutines wait until their test holds; the code that changes the state calls `wake`."""

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


@asynccontextmanager
async def task_group() -> AsyncIterator[asyncio.TaskGroup]:
    """An `asyncio.TaskGroup` that raises the first of our own errors bare, not in a group.

    So a caller catches StoreError where the documentation says StoreError. Bugs, which are errors
    of any other kind, stay an ExceptionGroup and hide no other.
    """
    found: NostrTallyError | None = None
    try:
        async with asyncio.TaskGroup() as group:
            yield group
    except* NostrTallyError as errors:
        first = innermost(errors)
        assert isinstance(first, NostrTallyError)
        found = first
    if found is not None:
        raise found


async def end(task: asyncio.Task[None]) -> None:
    """Cancel a task and wait for it; a failure of its own is raised."""
    task.cancel()
    await asyncio.wait({task})
    if not task.cancelled():
        task.result()


async def set_within(event: asyncio.Event, seconds: float) -> None:
    """Return once the event is set, or after so many seconds."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return
