"""Let tasks of one event loop wait for conditions and for groups of tasks."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from types import coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from nostr_client.errors import NostrTallyError, innermost

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Generator

T = TypeVar("T")


class Gate:
    """Condition for coroutines. Code that changes the tested state calls `wake`."""

    __slots__ = ("_waiters",)

    def __init__(self) -> None:
        self._waiters: set[asyncio.Future[None]] = set()

    async def wait(self, ready: Callable[[], object]) -> None:
        """Return as soon as `ready()` is true, or at once if it is true already. Safe to cancel."""
        while not ready():
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.add(waiter)
            try:
                await waiter
            finally:
                self._waiters.discard(waiter)

    def wake(self) -> None:
        """Let every waiting coroutine test its condition again."""
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)


@asynccontextmanager
async def task_group() -> AsyncIterator[asyncio.TaskGroup]:
    """Open an `asyncio.TaskGroup` that raises the first NostrTallyError itself, not in a group.

    A caller can then catch StoreError if the documentation names StoreError. Errors of any other
    kind are bugs. They stay in an ExceptionGroup, which hides none of them.
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


async def within(seconds: float, work: Coroutine[Any, Any, T]) -> T:
    """Await a coroutine for at most `seconds`. Raises TimeoutError. If cancelled, it is closed.

    The timer begins with the first wait, because most coroutines that send never wait.
    """
    try:
        waiting = work.send(None)
    except StopIteration as ended:
        found: T = ended.value
        return found
    async with asyncio.timeout(seconds):
        return await _rest(work, waiting)


@coroutine
def _rest(work: Coroutine[Any, Any, T], waiting: object) -> Generator[object, Any, T]:
    """Continue a coroutine that waits already."""
    try:
        yield waiting
    except BaseException:
        work.close()
        raise
    found: T = yield from work
    return found


async def end(task: asyncio.Task[None]) -> None:
    """Cancel a task and wait for it. Raises the task's own error."""
    task.cancel()
    await asyncio.wait({task})
    if not task.cancelled():
        task.result()


async def set_within(event: asyncio.Event, seconds: float) -> None:
    """Return when the event is set, or after `seconds`."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return
