"""Listening to relays between two questions: an event that a watch counts has its relay asked soon.

What came while nobody listened (the agent was away, or the relay) is heard first: a number is right
again soon after, not only when its interval is over.

Only the relay's own answer changes a claim. The event itself goes into the store where a watch that
it belongs to says `keep`, and nowhere else; when the store is behind, it is left to a sync and
counted.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from agent.listening import live_filters
from agent.watching import KIND
from nostr_client.errors import NostrTallyError, RelayError, StoreError, StoreFull
from nostr_client.store.base import Outcome
from nostr_client.taskgroup import task_group

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent.clock import Clock
    from agent.journal import Journal
    from agent.watching import Watching
    from agent.worker import Worker
    from nostr_client.event import Event
    from nostr_client.filters import Filter
    from nostr_client.ingest import Ingest, Result
    from nostr_client.keys import VerifiedEvent

RETRY_S = 60.0
"""Before a relay that ended our subscription is asked for it again."""

MISSED = 500
"""Stored events that a filter may bring, newest first: enough to know which numbers have moved."""

MOST: Final = 5_000
"""Live events that wait for the store; further ones are dropped and counted."""


class Live:
    """One listener for each relay that has watches; `refresh` after these have changed."""

    def __init__(
        self,
        clock: Clock,
        journal: Journal,
        watching: Watching,
        worker: Worker,
        ingest: Ingest,
    ) -> None:
        self.heard = 0
        self.kept = 0
        """Events that the store took."""
        self.dropped = 0
        """Events that were to be kept and are not: too many waited, or the store failed."""
        self._clock = clock
        self._journal = journal
        self._watching = watching
        self._worker = worker
        self._ingest = ingest
        self._waiting = 0
        self._failed: StoreError | None = None
        self._wanted: dict[str, tuple[Filter, ...]] = {}
        self._listeners: dict[str, asyncio.Task[None]] = {}
        self._began: dict[str, int] = {}
        """Since when each relay is listened to, by its newest connection; Unix seconds."""
        self._changed = asyncio.Event()

    def refresh(self) -> None:
        """The watches have changed."""
        wanted: dict[str, dict[Filter, None]] = {}
        for watch in self._watching.watches.values():
            for url in watch.relays if watch.spec.live else ():
                wanted.setdefault(url, {}).update(dict.fromkeys(watch.query.filters))
        self._wanted = {url: tuple(filters) for url, filters in wanted.items()}
        self._changed.set()

    async def run(self) -> None:
        """Keep a listener for each relay until cancelled."""
        heard: dict[str, tuple[Filter, ...]] = {}
        async with task_group() as group:
            while True:
                self._changed.clear()
                for url in [u for u, filters in heard.items() if self._wanted.get(u) != filters]:
                    self._listeners.pop(url).cancel()
                    del heard[url]
                for url in self._wanted.keys() - heard.keys():
                    heard[url] = self._wanted[url]
                    since = int(self._clock.wall()) if url in self._began else self._missed(url)
                    listens = self._listen(url, heard[url], since)
                    self._listeners[url] = group.create_task(listens)
                await self._changed.wait()

    def _missed(self, url: str) -> int:
        """Listen from now on; since when there may be events that were not heard."""
        self._began[url] = int(self._clock.wall())
        return self._watching.missed_since(url)

    async def _listen(self, url: str, filters: tuple[Filter, ...], since: int) -> None:
        while True:
            requests = live_filters(filters, since, MISSED)
            async with task_group() as group:
                for request in requests:
                    group.create_task(self._hear(url, request))
            await self._clock.sleep(RETRY_S)
            since = self._missed(url)

    async def _hear(self, url: str, request: list[Filter]) -> None:
        try:
            subscription = self._watching.relay(url).subscribe(
                request, resubscribe=lambda relay, asked: self._again(url, asked)
            )
            with subscription:
                async for verified in subscription:
                    self._take(url, verified)
        except RelayError as error:
            self._journal.debug("not_listening", relay=url, why=str(error))
        except NostrTallyError as error:
            self._journal.warning("not_listening", relay=url, why=str(error))

    def _take(self, url: str, verified: VerifiedEvent) -> None:
        self.heard += 1
        keep, event = False, verified.event
        is_stored = event.created_at < self._began[url]
        for name in self._watching.matching(url, event):
            if not (is_stored and self._watching.has_in_it(name, url, event)):
                self._worker.nudge(f"{KIND} {name} {url}", self._watching.live_delay(name, url))
            keep = keep or self._watching.watches[name].spec.keep
        if keep:
            self._keep(url, verified)

    def _keep(self, url: str, verified: VerifiedEvent) -> None:
        """Store an event that `url` sent, soon."""
        if self._waiting >= MOST:
            self.dropped += 1
            return
        self._waiting += 1
        self._ingest.put((verified,), url, self._saved)

    def _saved(self, events: Sequence[Event | VerifiedEvent], results: Sequence[Result]) -> None:
        self._waiting -= len(events)
        for one in results:
            if isinstance(one, StoreError):
                self.dropped += 1
                self._report(one)
            else:
                self.kept += isinstance(one, Outcome) and one.stored

    def _report(self, error: StoreError) -> None:
        """Log an error of the store once, although each event of its batch brings it."""
        if error is not self._failed and not isinstance(error, StoreFull):  # the ticker logs that
            self._journal.error("not_kept", why=str(error))
        self._failed = error

    def _again(self, url: str, filters: Sequence[Filter]) -> list[Filter]:
        """After a reconnect: what came meanwhile too."""
        since = self._missed(url)
        return [one.replace(since=since) for one in filters]
