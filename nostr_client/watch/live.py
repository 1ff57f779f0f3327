"""Listen to relays between two questions: an event that a watch counts makes the engine ask its
relay soon.

After a pause of the program or of a relay, the events of the pause come first, so a number is right
again soon, not only after its interval.

Only the relay's own answer changes a claim. If a watch of the event says `keep`, the event goes
into the store, else nowhere. If the store falls behind, events are dropped and counted, and left to
a sync.

Three parts: the filters of live subscriptions (`live_filters`) and the pace of questions that
events cause (`LivePace`), both pure, and the listeners (`LiveListeners`).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from nostr_client.codecs.filters import Filter
from nostr_client.errors import NostrTallyError, RelayError, StoreError, StoreFull
from nostr_client.network.pacing import TokenBucket
from nostr_client.network.waiting import task_group
from nostr_client.store.base import SaveOutcome

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from nostr_client.codecs.event import Event
    from nostr_client.codecs.keys import VerifiedEvent
    from nostr_client.network.ingest import Ingest, Result
    from nostr_client.network.relay import Relay
    from nostr_client.watch.clock import Clock
    from nostr_client.watch.state import Watched
    from nostr_client.watch.worker import WorkerLog

RETRY_S = 60.0
"""Seconds before a subscription that the relay ended is opened again."""

MISSED = 500
"""Stored events that a filter may return, newest first: enough to show which numbers moved."""

MOST: Final = 5_000
"""Live events that wait for the store; further ones are dropped and counted."""

SKEW_S: Final = 10.0
"""An event may be dated this long before it reached the relay: clocks differ, and transport takes
time."""

MOST_FILTERS: Final = 10
"""Filters of one REQ: what relays allow."""

MOST_VALUES: Final = 400
"""Targets in one filter."""

MOST_REQUESTS: Final = 3
"""Listening subscriptions of one relay; watches beyond them are asked at their interval only."""

DELAY_S: Final = 0.2
"""Events within this time cause one question."""

GAP_S: Final = 1.0
"""Least time between two questions of one watch to one relay; a number has two seconds to move."""

BURST: Final = 12
"""Questions of one watch to one relay that may follow each other by the gap, after a pause."""

EVERY_S: Final = 5.0
"""The gap while events keep coming, if an answer costs the relay much: it is not a ticker."""

STEADY_S: Final = 1.25
"""The gap if an answer costs the relay little: the number still moves within two seconds."""

SHARE: Final = 0.1
"""Share of its time that a relay may work for one busy watch: the gap lies between the two above.
"""


# Filters of live subscriptions.


class FilterShape(NamedTuple):
    """The common part of filters that differ only in the values of their one tag."""

    kinds: tuple[int, ...] | None
    tag: str


def live_filters(
    filters: Iterable[Filter], since: int, stored: int | None = None
) -> list[list[Filter]]:
    """Return filters for a few REQs that together match what any of `filters` matches, from `since`
    on.

    `stored`: the most stored events that each may return.
    """
    alike: dict[FilterShape, list[str]] = {}
    alone: list[Filter] = []
    for one in dict.fromkeys(filters):
        shape = _shape(one)
        if shape is None:
            alone.append(one.replace(since=max(since, one.since or 0), limit=stored))
        else:
            alike.setdefault(shape, []).extend(one.tags[0][1])
    made = [
        found for shape, values in alike.items() for found in _made(shape, values, since, stored)
    ]
    whole = [*made, *alone]
    parts = [whole[n : n + MOST_FILTERS] for n in range(0, len(whole), MOST_FILTERS)]
    return parts[:MOST_REQUESTS]


def _shape(one: Filter) -> FilterShape | None:
    """Return kinds and tag name, if a filter has no other condition."""
    plain = one.ids is None and one.authors is None and one.search is None
    if not plain or one.since is not None or one.until is not None or len(one.tags) != 1:
        return None
    return FilterShape(one.kinds, one.tags[0][0])


def _made(
    shape: FilterShape, values: list[str], since: int, stored: int | None
) -> Iterable[Filter]:
    wanted = list(dict.fromkeys(values))
    for n in range(0, len(wanted), MOST_VALUES):
        part = wanted[n : n + MOST_VALUES]
        yield Filter(kinds=shape.kinds, tags={shape.tag: part}, since=since, limit=stored)


# How soon news have a relay asked again. What all watches together may ask of it is its budget
# (`network.access.budget`). Events that come while a question waits are answered by that one.


class LivePace:
    """The turns of (watch, relay) pairs that live events cause; seconds of a monotonic clock."""

    def __init__(self) -> None:
        self._due: dict[tuple[str, str], float] = {}
        self._watches: dict[tuple[str, str], TokenBucket] = {}

    def delay(self, watch: str, url: str, now: float, took: float | None = None) -> float:
        """Return after how many seconds the relay may be asked for the watch.

        `took`: seconds that its last answer took, if it gave one.
        """
        key = watch, url
        due = self._due.get(key)
        if due is not None and due > now:
            return due - now
        own = self._watches.setdefault(key, TokenBucket(1 / EVERY_S, BURST, now=now))
        apart = (
            min(EVERY_S, max(STEADY_S, (EVERY_S if took is None else took) / SHARE))
            if own.take(now)
            else GAP_S
        )
        gap = 0.0 if due is None else due + apart - now
        wait = max(DELAY_S, gap)
        self._due[key] = now + wait
        return wait

    def keep(self, pairs: Collection[tuple[str, str]]) -> None:
        """Forget all pairs of watch and relay but these."""
        for held in (self._due, self._watches):
            for gone in [one for one in held if one not in pairs]:
                del held[gone]


# Listeners.


class Listened(Protocol):
    """The watches that have listeners, and the callback for their events."""

    @property
    def watches(self) -> Mapping[str, Watched]: ...

    def relay(self, url: str) -> Relay: ...

    def matching(self, url: str, event: Event) -> Iterable[Watched]: ...

    def missed_since(self, url: str, skew: float) -> int: ...

    def ask_soon(self, one: Watched, url: str) -> None: ...

    def received(self, one: Watched, url: str, event: Event) -> None: ...


class LiveListeners:
    """Runs one listener for each relay that has watches; call `refresh` after a change of these."""

    def __init__(
        self, clock: Clock, log: WorkerLog, watches: Listened, ingest: Ingest | None
    ) -> None:
        self.received = 0
        self.kept = 0
        """Events that the store took."""
        self.dropped = 0
        """Events that were to be stored and are not: too many waited, or the store failed."""
        self._clock = clock
        self._log = log
        self._listened = watches
        self._ingest = ingest
        self._waiting = 0
        self._failed: StoreError | None = None
        self._wanted: dict[str, tuple[Filter, ...]] = {}
        self._listeners: dict[str, asyncio.Task[None]] = {}
        self._began: dict[str, int] = {}
        """Since when each relay's newest connection listens; Unix seconds."""
        self._changed = asyncio.Event()

    def refresh(self) -> None:
        """Note that the watches changed."""
        wanted: dict[str, dict[Filter, None]] = {}
        for one in self._listened.watches.values():
            for url in one.relays if one.watch.live else ():
                wanted.setdefault(url, {}).update(dict.fromkeys(one.query.filters))
        self._wanted = {url: tuple(filters) for url, filters in wanted.items()}
        self._changed.set()

    async def run(self) -> None:
        """Run a listener for each relay until cancelled."""
        listening: dict[str, tuple[Filter, ...]] = {}
        async with task_group() as group:
            while True:
                self._changed.clear()
                for url in [
                    u for u, filters in listening.items() if self._wanted.get(u) != filters
                ]:
                    self._listeners.pop(url).cancel()
                    del listening[url]
                for url in self._wanted.keys() - listening.keys():
                    listening[url] = self._wanted[url]
                    since = int(self._clock.wall()) if url in self._began else self._missed(url)
                    listens = self._listen(url, listening[url], since)
                    self._listeners[url] = group.create_task(listens)
                await self._changed.wait()

    def _missed(self, url: str) -> int:
        """Start listening; return the time since which events may have been missed."""
        self._began[url] = int(self._clock.wall())
        return self._listened.missed_since(url, SKEW_S)

    async def _listen(self, url: str, filters: tuple[Filter, ...], since: int) -> None:
        while True:
            requests = live_filters(filters, since, MISSED)
            async with task_group() as group:
                for request in requests:
                    group.create_task(self._receive(url, request))
            await self._clock.sleep(RETRY_S)
            since = self._missed(url)

    async def _receive(self, url: str, request: list[Filter]) -> None:
        try:
            subscription = self._listened.relay(url).subscribe(
                request, resubscribe=lambda relay, asked: self._again(url, asked)
            )
            async with subscription:
                async for verified in subscription:
                    self._take(url, verified)
        except RelayError as error:
            self._log.debug("not_listening", relay=url, why=str(error))
        except NostrTallyError as error:
            self._log.warning("not_listening", relay=url, why=str(error))

    def _take(self, url: str, verified: VerifiedEvent) -> None:
        self.received += 1
        keep, event = False, verified.event
        is_stored = event.created_at < self._began[url]
        for one in self._listened.matching(url, event):
            self._listened.received(one, url, event)
            newest = one.answered.get(url, 0.0) - SKEW_S
            if not (
                is_stored and event.created_at < newest
            ):  # the answer would include it otherwise
                self._listened.ask_soon(one, url)
            keep = keep or one.watch.keep
        if keep:
            self._keep(url, verified)

    def _keep(self, url: str, verified: VerifiedEvent) -> None:
        """Store an event that `url` sent, soon."""
        if self._ingest is None:
            return
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
                self.kept += isinstance(one, SaveOutcome) and one.stored

    def _report(self, error: StoreError) -> None:
        """Log an error of the store once, although each event of its batch reports it."""
        if error is not self._failed and not isinstance(error, StoreFull):  # the ticker logs that
            self._log.error("not_kept", why=str(error))
        self._failed = error

    def _again(self, url: str, filters: Sequence[Filter]) -> list[Filter]:
        """After a reconnect, also fetch events of the gap."""
        since = self._missed(url)
        return [one.replace(since=since) for one in filters]
