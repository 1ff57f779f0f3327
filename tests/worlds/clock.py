"""An event loop whose time jumps to the next timer, so that a wait of an hour costs nothing.

Jobs for threads run where they are handed over, as time must not pass while one is under way. A
loop on which nothing can ever happen again raises `StandsStill` rather than hang.
"""

from __future__ import annotations

import asyncio
import selectors
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple, Unpack
from unittest import mock

from nostr_client.store.file import writer
from nostr_client.store.file.faults import Capture

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Sequence
    from concurrent.futures import Executor

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_RESOLUTION = 1e-6
"""Seconds by which a timer may be early: virtual times are sums of floats."""


class StandsStill(AssertionError):
    """Somebody waits, and no timer or message can ever wake anybody."""


class _Jump(selectors.SelectSelector):
    """Waits for nothing: what would be waited for is added to the clock."""

    elapsed = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise StandsStill("every task waits and no timer is set")
        self.elapsed += max(timeout, 0.0)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """See the module. `time()` starts at 0."""

    def __init__(self) -> None:
        self._jump = _Jump()
        super().__init__(self._jump)
        self._clock_resolution = _RESOLUTION

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._jump.elapsed

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[Unpack[Ts]], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """Run the job at once, in the thread of the loop."""
        future: asyncio.Future[T] = self.create_future()
        with Capture() as caught:
            future.set_result(func(*args))
        if caught.error is not None:
            future.set_exception(caught.error)
        return future


class Clock:
    """Unix time in a world: `now()` follows the loop, and `skip` lets days pass at once."""

    def __init__(self, start: float) -> None:
        self._start = start
        self._zero: float | None = None

    def now(self) -> float:
        """Unix seconds; the world begins at the first call."""
        time = asyncio.get_running_loop().time()
        self._zero = time if self._zero is None else self._zero
        return self._start + time - self._zero

    def skip(self, seconds: float) -> None:
        """Let time pass in which nothing happens: no timer of the loop is moved."""
        self._start += seconds


def _submit_here(self: writer.Writer, job: writer.WriteJob) -> None:
    """Run a store's job where it is handed over, by the functions that its thread runs."""
    with self._turn:
        self._patience.regain()
        if job.alone:
            writer.run_alone(self._conn, job)
        else:
            writer.commit_together(self._conn, [job])
    job.settle()


@contextmanager
def threadless_stores() -> Iterator[None]:
    """Stores write in the thread that asks, so that the loop sees when a write is over."""
    with mock.patch.object(writer.Writer, "submit", _submit_here):
        yield


def run(main: Callable[[], Coroutine[Any, Any, T]], patches: Sequence[Any] = ()) -> T:
    """Run a coroutine function on a virtual loop, with `patches` (context managers) in place."""
    with ExitStack() as stack, threadless_stores():
        for patch in patches:
            stack.enter_context(patch)
        runner = stack.enter_context(asyncio.Runner(loop_factory=VirtualLoop))
        return runner.run(main())
