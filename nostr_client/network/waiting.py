"""Let tasks of one event loop wait for conditions and for groups of tasks."""

from __future__ import annotations

import asyncio
import threading
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from nostr_client.errors import NostrTallyError, innermost

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

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


async def in_own_thread(work: Callable[[], T]) -> T:
    """Run a call that may never return, such as a read of a pipe. Raises what the call raises.

    Safe to cancel. The call then goes on, and neither its caller nor the end of the process waits
    for it.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def run() -> None:
        try:
            result = work()
        except BaseException as error:  # noqa: BLE001 the caller gets it
            settled = partial(_fail, done, error)
        else:
            settled = partial(_end, done, result)
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(settled)

    threading.Thread(target=run, name="waits", daemon=True).start()
    return await done


def _end(done: asyncio.Future[T], result: T) -> None:
    if not done.done():
        done.set_result(result)


def _fail(done: asyncio.Future[T], error: BaseException) -> None:
    if not done.done():
        done.set_exception(error)
