"""Iterate over the results of one watch: the engine with one watch, as an async iterator."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Self

from nostr_client.errors import InvalidInput, NoRelays, innermost
from nostr_client.network.waiting import Gate
from nostr_client.watch.state import NO_RELAY

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from contextlib import AbstractAsyncContextManager
    from types import TracebackType

    from nostr_client.count.result import CountResult
    from nostr_client.watch.definition import Watch
    from nostr_client.watch.engine import Engine
    from nostr_client.watch.state import Merge

    Open = Callable[[Callable[[Merge], Awaitable[None]]], AbstractAsyncContextManager[Engine]]


class Watching:
    """The results of one watch as they come; made by `NostrClient.watch`.

    An async iterator: each step waits for a result newer than the last one returned, and skips
    those that were overtaken, so a slow reader costs nothing. The first result comes when each
    relay was asked once. Iterating starts it. `close()`, the end of the async context, or closing
    the client ends it.
    """

    def __init__(self, watch: Watch, open_engine: Open) -> None:
        """Create it; `open_engine` opens an engine with only this watch."""
        self.watch = watch
        self._open = open_engine
        self._engine: Engine | None = None
        self._latest: CountResult | None = None
        self._version = self._given = 0
        self._gate = Gate()
        self._task: asyncio.Task[None] | None = None

    def __aiter__(self) -> AsyncIterator[CountResult]:
        return self

    async def __anext__(self) -> CountResult:
        self._start()
        await self._gate.wait(lambda: self._version > self._given or self.over)
        if self._version > self._given and self._latest is not None:
            self._given = self._version
            return self._latest
        self._raise_what_ended_it()
        raise StopAsyncIteration

    def _raise_what_ended_it(self) -> None:
        if self._task is None or self._task.cancelled():
            return
        error = self._task.exception()
        if error is not None:
            raise innermost(error)

    def hurry(self) -> None:
        """Ask the relays again now, without waiting for the interval."""
        if self._engine is not None and self.watch.name in self._engine.watches:
            self._engine.ask_now(self.watch.name)

    async def close(self) -> None:
        """End it; the iteration stops. Safe to call twice."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        self._gate.wake()

    async def __aenter__(self) -> Self:
        self._start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    @property
    def over(self) -> bool:
        """Whether it was closed, or ended by an error."""
        return self._task is not None and self._task.done()

    def _start(self) -> None:
        if self._task is None:
            self._task = asyncio.create_task(self._run())
            self._task.add_done_callback(lambda _: self._gate.wake())

    async def _run(self) -> None:
        async with self._open(self._take) as engine:
            self._engine = engine
            await engine.look()
            await engine.refresh()
            lack = engine.watches[self.watch.name].lack
            if lack:
                raise InvalidInput(lack) if lack == NO_RELAY else NoRelays(lack)
            await engine.run()

    async def _take(self, merge: Merge) -> None:
        if merge.is_whole and (merge.is_news or merge.is_near):
            self._latest = merge.result
            self._version += 1
            self._gate.wake()
