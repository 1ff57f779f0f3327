"""Listening to relays between two questions: an event that a watch counts has its relay asked soon.

What came while nobody listened (this program was away, or the relay) is heard first: a number is
right again soon after, not only when its interval is over.

Only the relay's own answer changes a claim. The event itself goes into the store where a watch that
it belongs to says `keep`, and nowhere else; when the store is behind, it is left to a sync and
counted.

Three parts: which filters a relay is asked to send news for (`live_filters`) and how soon news have
it asked again (`LivePace`), both pure, and the listeners (`Live`).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from nostr_client.codecs.filters import Filter
from nostr_client.errors import NostrTallyError, RelayError, StoreError, StoreFull
from nostr_client.network.pacing import TokenBucket
from nostr_client.network.waiting import task_group
from nostr_client.store.base import Outcome

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from nostr_client.codecs.event import Event
    from nostr_client.codecs.keys import VerifiedEvent
    from nostr_client.network.ingest import Ingest, Result
    from nostr_client.network.relay import Relay
    from nostr_client.watch.clock import Clock
    from nostr_client.watch.state import Watched
    from nostr_client.watch.worker import Log

RETRY_S = 60.0
"""Before a relay that ended our subscription is asked for it again."""

MISSED = 500
"""Stored events that a filter may bring, newest first: enough to know which numbers have moved."""

MOST: Final = 5_000
"""Live events that wait for the store; further ones are dropped and counted."""

SKEW_S: Final = 10.0
"""An event may be dated so long before it came to the relay: clocks differ, and ways are long."""

MOST_FILTERS: Final = 10
"""Filters of one REQ: what relays allow."""

MOST_VALUES: Final = 400
"""Targets in one filter."""

MOST_REQUESTS: Final = 3
"""Subscriptions of one relay that only listen; what does not fit is asked for at its turn."""

DELAY_S: Final = 0.2
"""Events that come together are asked for together."""

GAP_S: Final = 1.0
"""Least time between two questions of one watch to one relay; a number has two seconds to move."""

BURST: Final = 12
"""Questions of one watch to one relay that may follow each other by the gap, after a pause."""

EVERY_S: Final = 5.0
"""While events go on pouring in, for an answer that costs the relay much: it is not a ticker."""

STEADY_S: Final = 1.25
"""The same for one that costs it little: the number still moves within two seconds."""

SHARE: Final = 0.1
"""Of its time that a relay may work for one watch that pours: between the two above."""


# Which filters a relay is asked to send news for.


class Shape(NamedTuple):
    """What filters have in common that differ in the values of their one tag alone."""

    kinds: tuple[int, ...] | None
    tag: str


def live_filters(
    filters: Iterable[Filter], since: int, stored: int | None = None
) -> list[list[Filter]]:
    """Filters for a few REQs that together send what any of `filters` matches, from `since` on.

    `stored`: the most events that each may bring of those that the relay has already.
    """
    alike: dict[Shape, list[str]] = {}
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


def _shape(one: Filter) -> Shape | None:
    """Kinds and tag name, where a filter says nothing else."""
    plain = one.ids is None and one.authors is None and one.search is None
    if not plain or one.since is not None or one.until is not None or len(one.tags) != 1:
        return None
    return Shape(one.kinds, one.tags[0][0])


def _made(shape: Shape, values: list[str], since: int, stored: int | None) -> Iterable[Filter]:
    wanted = list(dict.fromkeys(values))
    for n in range(0, len(wanted), MOST_VALUES):
        part = wanted[n : n + MOST_VALUES]
        yield Filter(kinds=shape.kinds, tags={shape.tag: part}, since=since, limit=stored)


# How soon news have a relay asked again. What all watches together may ask of it is its budget
# (`network.access.budget`). Events that come while a question waits are answered by that one.


class LivePace:
    """Turns of (watch, relay) pairs that live events ask for; seconds of a clock never set."""

    def __init__(self) -> None:
        self._due: dict[tuple[str, str], float] = {}
        self._watches: dict[tuple[str, str], TokenBucket] = {}

    def delay(self, watch: str, url: str, now: float, took: float | None = None) -> float:
        """After how many seconds the relay may be asked for the watch.

        `took`: seconds that it needed for its last answer, where it gave one.
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
        """Forget all but these pairs of watch and relay."""
        for held in (self._due, self._watches):
            for gone in [one for one in held if one not in pairs]:
                del held[gone]


# Listeners.


class Listened(Protocol):
    """The watches that are listened for, and what news of them do."""

    @property
    def watches(self) -> Mapping[str, Watched]: ...

    def relay(self, url: str) -> Relay: ...

    def matching(self, url: str, event: Event) -> Iterable[Watched]: ...

    def missed_since(self, url: str, skew: float) -> int: ...

    def ask_soon(self, one: Watched, url: str) -> None: ...


class Live:
    """One listener for each relay that has watches; `refresh` after these have changed."""

    def __init__(self, clock: Clock, log: Log, watches: Listened, ingest: Ingest | None) -> None:
        self.heard = 0
        self.kept = 0
        """Events that the store took."""
        self.dropped = 0
        """Events that were to be kept and are not: too many waited, or the store failed."""
        self._clock = clock
        self._log = log
        self._listened = watches
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
        for one in self._listened.watches.values():
            for url in one.relays if one.watch.live else ():
                wanted.setdefault(url, {}).update(dict.fromkeys(one.query.filters))
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
        return self._listened.missed_since(url, SKEW_S)

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
        self.heard += 1
        keep, event = False, verified.event
        is_stored = event.created_at < self._began[url]
        for one in self._listened.matching(url, event):
            newest = one.answered.get(url, 0.0) - SKEW_S
            if not (is_stored and event.created_at < newest):  # else its answer has it in it
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
                self.kept += isinstance(one, Outcome) and one.stored

    def _report(self, error: StoreError) -> None:
        """Log an error of the store once, although each event of its batch brings it."""
        if error is not self._failed and not isinstance(error, StoreFull):  # the ticker logs that
            self._log.error("not_kept", why=str(error))
        self._failed = error

    def _again(self, url: str, filters: Sequence[Filter]) -> list[Filter]:
        """After a reconnect: what came meanwhile too."""
        since = self._missed(url)
        return [one.replace(since=since) for one in filters]
