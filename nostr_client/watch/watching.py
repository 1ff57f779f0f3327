"""One query watched: rounds at an interval, and live events that change the number in between."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final, Self

from nostr_client.count.remembering import asked_of, merge_input
from nostr_client.errors import innermost
from nostr_client.gate import Gate
from nostr_client.watch.live import with_events

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
    from types import TracebackType

    from nostr_client.claims import Held
    from nostr_client.count.asking import CountOptions
    from nostr_client.count.procedure import Counter
    from nostr_client.count.queries import Query
    from nostr_client.count.result import CountResult
    from nostr_client.merge import Claim
    from nostr_client.relay import Relay

    Relays = Sequence[tuple[str, Relay]]

SETTLE: Final = 0.25
"""Seconds in which live events are gathered before the number is made anew."""


class Watching:
    """The results of one query as they come; made by `NostrClient.watch`.

    An async iterator: each step waits for a result that is newer than the last one given, and
    skips those that were overtaken, so that a slow reader costs nothing. Iterating starts it,
    leaving it by `close()` or as an async context manager ends it; closing the client does too.
    """

    def __init__(
        self,
        query: Query,
        counter: Counter,
        relays: Callable[[], Awaitable[Relays]],
        options: CountOptions,
        *,
        interval: float,
        live: bool,
        now: Callable[[], float] = time.time,
    ) -> None:
        """`relays` gives the relays of each round; `interval` in seconds from round to round."""
        self.query = query
        self._counter = counter
        self._relays = relays
        self._options = options
        self._interval = interval
        self._live = live
        self._now = now
        self._claims: list[tuple[str, Claim]] = []
        self._earlier: dict[str, Claim] = {}
        self._followed: set[str] = set()
        self._latest: CountResult | None = None
        self._version = self._given = 0
        self._changed = self._hurried = False
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
        self._hurried = True
        self._gate.wake()

    async def close(self) -> None:
        """End it; the iteration stops. Safe twice."""
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
        """True once it was closed, or ended by an error."""
        return self._task is not None and self._task.done()

    def _start(self) -> None:
        if self._task is None:
            self._task = asyncio.create_task(self._run())
            self._task.add_done_callback(lambda _: self._gate.wake())

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as group:
            if self._live:
                group.create_task(self._merge_live())
            while True:
                relays = await self._relays()
                await self._round(relays)
                if self._live:
                    self._follow(group, relays)
                await self._pause()

    async def _pause(self) -> None:
        """Wait for the interval, or until somebody is in a hurry."""
        try:
            async with asyncio.timeout(self._interval):
                await self._gate.wait(lambda: self._hurried)
        except TimeoutError:
            pass
        self._hurried = False

    async def _round(self, relays: Relays) -> None:
        self.query = await self._counter.resolved(self.query, relays, self._options)
        claims, earlier = await self._counter.ask(self.query, relays, self._options)
        self._claims, self._earlier = claims, earlier
        self._publish()

    def _publish(self) -> None:
        self._changed = False
        shown, used = merge_input(self._claims, self._earlier)
        self._latest = self._counter.result(self.query, shown, used)
        self._version += 1
        self._gate.wake()

    # Between the rounds.

    def _follow(self, group: asyncio.TaskGroup, relays: Relays) -> None:
        for _, relay in relays:
            if relay.url not in self._followed:
                self._followed.add(relay.url)
                group.create_task(self._listen(relay))

    async def _listen(self, relay: Relay) -> None:
        """Take new events of one relay for as long as it sends any."""
        since = int(self._now())
        filters = [f.replace(since=max(since, f.since or 0)) for f in self.query.filters]
        with relay.subscribe(filters, live=True) as subscription:
            while batch := await subscription.batch():
                if self._options.keep is not None:
                    await self._options.keep(relay.url, batch)
                held = [one for v in batch if (one := self.query.hold(v.event)) is not None]
                await self._take(relay.url, held)
        self._followed.discard(relay.url)  # refused or given up: the next round tries again

    async def _take(self, url: str, events: list[Held]) -> None:
        for i, (known, claim) in enumerate(self._claims):
            if known != url:
                continue
            changed = with_events(claim, self.query, events)
            if changed is claim:
                return
            self._claims[i] = (url, changed)
            if changed.reading is not None and self._counter.book is not None:
                place = await self._counter.book.place(asked_of(self.query), url)
                await place.use(lambda memory: memory.add(events, int(self._now())))
            self._changed = True
            self._gate.wake()

    async def _merge_live(self) -> None:
        while True:
            await self._gate.wait(lambda: self._changed)
            await asyncio.sleep(SETTLE)
            if self._changed:
                self._publish()
