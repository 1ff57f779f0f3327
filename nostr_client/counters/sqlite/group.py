"""Write several waiting publishes in one transaction."""

from __future__ import annotations

import asyncio
import copy
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from nostr_client.errors import CounterError, InvalidInput, StoreError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from nostr_client.counters.engine.session import CounterSession

T = TypeVar("T")

GROUP_LIMIT = 256
"""Most publishes of one transaction. A failed commit undoes at most this many."""

QUEUE_LIMIT = 4_096
"""Most waiting publishes. Further callers wait before they queue."""


Results: TypeAlias = "list[T | Exception]"


class Write(Protocol[T]):
    """Runs several functions in one transaction. See `Database.write`."""

    def __call__(
        self, work: Callable[[CounterSession], Results[T]], *, small: bool = False
    ) -> Awaitable[Results[T]]: ...


class _Waiting(NamedTuple, Generic[T]):
    work: Callable[[CounterSession], T]
    future: asyncio.Future[T]


class Group(Generic[T]):
    """Runs one publish at once, and collects publishes that arrive meanwhile.

    A function that raises CounterError or InvalidInput must not have changed anything. The other
    functions of its group are committed. Any other error undoes the transaction. After a
    StoreError, all functions of the group get the error. After another error, each function runs in
    its own transaction.
    """

    def __init__(self, write: Write[T]) -> None:
        self._write = write
        self._busy = False
        self._waiting: list[_Waiting[T]] = []
        self._drained = asyncio.Event()
        self._turn = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def run(self, work: Callable[[CounterSession], T], *, small: bool = False) -> T:
        """Run `work` in a transaction and return its result after the commit.

        `small` is that of `Database.write`. It has no effect for functions that wait together. If
        cancelled before `work` begins, `work` never runs. If cancelled later, its changes are
        committed.
        """
        if not self._busy:
            return await self._run_alone(work, small)
        while len(self._waiting) >= QUEUE_LIMIT:
            self._drained.clear()
            await self._drained.wait()
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(work, future))
        return await future

    async def close(self) -> None:
        """Wait until no publish is left."""
        while self._busy:
            self._turn.clear()
            await self._turn.wait()

    async def _run_alone(self, work: Callable[[CounterSession], T], small: bool) -> T:
        self._busy = True
        try:
            results = await self._write(lambda session: _run([work], session), small=small)
        finally:
            self._go_on()
        return _unwrap(results[0])

    def _go_on(self) -> None:
        """Start a task for the waiting publishes.

        In its own task, the cancellation of a caller cannot stop it.
        """
        self._turn.set()
        self._busy = bool(self._waiting)
        self._task = asyncio.create_task(self._run_waiting()) if self._waiting else None

    async def _run_waiting(self) -> None:
        taken = [item for item in self._waiting[:GROUP_LIMIT] if not item.future.cancelled()]
        del self._waiting[:GROUP_LIMIT]
        self._drained.set()
        try:
            await self._answer(taken)
        finally:
            for item in taken:
                # if it is not done, the loop ends, and the caller must not hang
                item.future.cancel()
            self._go_on()

    async def _answer(self, taken: Sequence[_Waiting[T]]) -> None:
        works = [item.work for item in taken]
        write = self._write(lambda session: _run(works, session))
        found = (await asyncio.gather(write, return_exceptions=True))[0]
        if not isinstance(found, BaseException):
            _settle(taken, found)
        elif not isinstance(found, Exception):
            raise found
        elif len(taken) == 1:
            _settle(taken, [found])
        elif isinstance(found, StoreError):
            _settle(taken, [copy.copy(found) for _ in taken])
        else:
            for item in taken:
                await self._answer([item])


def _run(
    works: Sequence[Callable[[CounterSession], T]], session: CounterSession
) -> list[T | Exception]:
    return [_try(work, session) for work in works]


def _try(work: Callable[[CounterSession], T], session: CounterSession) -> T | Exception:
    try:
        return work(session)
    except (CounterError, InvalidInput) as error:
        return error


def _settle(taken: Sequence[_Waiting[T]], results: Sequence[T | Exception]) -> None:
    for item, result in zip(taken, results, strict=True):
        if item.future.done():
            continue
        if isinstance(result, Exception):
            item.future.set_exception(result)
        else:
            item.future.set_result(result)


def _unwrap(result: T | Exception) -> T:
    if isinstance(result, Exception):
        raise result
    return result
