"""Ingest events: verify them in threads, save them in batches, and report each result.

Sync, live watches, the local relay and import all store events through this pipeline. Two stages
run at the same time: while the store commits one batch, threads verify the next batch. Events that
wait at the end of a commit form the next batch. Batches therefore grow with the load, and a single
event does not wait. `least` and `pause_s` make small batches larger while more events come.
Each stage is bounded in events and in bytes. A full stage stops the stage before it: the store
stops the verifier, the verifier stops the sources, and a source stops its socket or file. Nothing
is verified twice. The verifier's cache has the result for a repeated event, and a `VerifiedEvent`
is not verified at all.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Final, Protocol, Self

from nostr_client.codecs.keys import VerifiedEvent
from nostr_client.errors import InvalidEvent, StoreError
from nostr_client.network.verifier import ThreadVerifier, footprint
from nostr_client.network.waiting import Gate
from nostr_client.store.base import SaveOutcome, SaveStatus

if TYPE_CHECKING:
    from collections.abc import Awaitable, Collection
    from types import TracebackType

    from nostr_client.codecs.event import Event
    from nostr_client.codecs.filters import Filter
    from nostr_client.network.event_queue import QueuedEvent, SubscriptionSource
    from nostr_client.network.subscription import Subscription
    from nostr_client.network.verifier import Verifier


class IngestStore(Protocol):
    """The method of a store that the pipeline uses."""

    async def save(self, events: Sequence[VerifiedEvent]) -> list[SaveOutcome]: ...


class Skip(Enum):
    """Why an event was neither verified nor saved."""

    KNOWN = "known"
    """The store has the event, or a rule of the store removed it."""
    UNWANTED = "unwanted"
    """The event matches none of the source's filters."""


Result = SaveOutcome | InvalidEvent | Skip | StoreError
"""Result of one event. StoreError: the store failed and did not store the event."""

Settle = Callable[["Sequence[Event | VerifiedEvent]", Sequence[Result]], None]
"""Gets the events of one `put` and a result for each, in the same order, after the commit."""

_LOW: Final = 0.75
"""The part of `waiting` at which sources continue, so that not every result wakes all sources."""

_Checked = VerifiedEvent | InvalidEvent | Skip | StoreError


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestOptions:
    """Sizes of the pipeline's stages. The defaults use two cores and keep a commit below 0.2 s."""

    step: int = 1_024
    """Events to verify before the store gets them: a few chunks for each thread."""

    batch: int = 4_000
    """Most events of one commit. A large commit writes each page of the indexes once."""

    batch_bytes: int = 32 * 2**20
    """Approximate bytes of the events of one commit. Long follow lists would fill the memory."""

    full: bool = False
    """Whether a commit waits for a full batch while more events are on their way. Fewer and larger
    commits cost less. Use this to read a file for which no user waits."""

    least: int = 1
    """Verified events for which a commit waits while more events are on their way. Small commits
    cost twice as much for each event as commits of a hundred."""

    pause_s: float = 0.0
    """Seconds after a commit in which no commit of fewer than `least` events begins. An event that
    comes alone, without a commit before it, does not wait."""

    waiting: int = 8_192
    """Events without a result before `room` waits: about a second of work."""

    waiting_bytes: int = 64 * 2**20
    """Approximate bytes of events without a result before `room` waits."""


class _Entry:
    """Events of one `put`, their relay ("" for none), and the callback for their results."""

    __slots__ = ("checked", "events", "relay", "settle", "size")

    def __init__(self, events: Sequence[Event | VerifiedEvent], relay: str, settle: Settle) -> None:
        self.events = events
        self.relay = relay
        self.settle = settle
        self.size = sum(footprint(plain(one)) for one in events)
        self.checked: Sequence[_Checked] = ()


class _Batch:
    """Entries in order, with their number of events and bytes."""

    __slots__ = ("entries", "events", "size")

    def __init__(self) -> None:
        self.entries: deque[_Entry] = deque()
        self.events = 0
        self.size = 0

    def add(self, entry: _Entry) -> None:
        self.entries.append(entry)
        self.events += len(entry.events)
        self.size += entry.size

    def split(self, events: int, size: int) -> _Batch:
        """Remove the first entries up to so many events or bytes, the last entry whole."""
        first = _Batch()
        while self.entries and first.events < events and first.size < size:
            entry = self.entries.popleft()
            self.events -= len(entry.events)
            self.size -= entry.size
            first.add(entry)
        return first


@dataclass(slots=True)
class IngestReport:
    """Counts the results of one subscription's events."""

    received: int = 0
    known: int = 0
    """Events that were not verified: the store has them, or a rule of the store removed them."""
    unwanted: int = 0
    invalid: int = 0
    outcomes: Counter[SaveStatus] = field(default_factory=Counter)

    @property
    def stored(self) -> int:
        return self.outcomes[SaveStatus.STORED]


class Flow:
    """Counts the events of one source that have no result yet, and waits for room."""

    def __init__(self, ingest: Ingest) -> None:
        self._ingest = ingest
        self._left = 0
        self._failed: StoreError | None = None

    async def put(
        self, events: Sequence[Event | VerifiedEvent], relay: str, settle: Settle
    ) -> None:
        """Wait for room, then hand events over. Raises the StoreError of an earlier batch.

        Safe to cancel. No event is then handed over.
        """
        await self._ingest.room()
        self._check()
        self._left += len(events)
        self._ingest.put(events, relay, partial(self._settle, settle))

    async def settled(self) -> None:
        """Wait until every event has its result. Raises StoreError if the store failed.

        Safe to cancel. Events that were handed over are still saved.
        """
        await self._ingest.wait(lambda: not self._left)
        self._check()

    def _settle(
        self,
        settle: Settle,
        events: Sequence[Event | VerifiedEvent],
        results: Sequence[Result],
    ) -> None:
        self._left -= len(events)
        if self._failed is None:
            self._failed = next((one for one in results if isinstance(one, StoreError)), None)
        settle(events, results)

    def _check(self) -> None:
        if self._failed is not None:
            raise self._failed
        if self._ingest.stopped:
            raise StoreError("events were not saved: their ingest has ended")


class Ingest:
    """Verifies and saves the events of any number of sources. Use it as an async context manager.

    At the end of the block it waits until every event has its result. After an error or a
    cancellation it drops uncommitted events. `on_event` gets the id and the relay of each valid
    event before the event is saved, e.g. `counters.ingest.Provenance.note`. `verifier`: the pool's
    verifier (`RelayPool.verifier`), so that nothing is verified twice. By default the pipeline
    makes its own. `known` returns which ids need no verification, e.g. `EventStore.known`. By
    default the store finds known events when it saves.
    """

    def __init__(
        self,
        store: IngestStore,
        options: IngestOptions | None = None,
        *,
        on_event: Callable[[str, str], None] | None = None,
        verifier: Verifier | None = None,
        known: Callable[[Sequence[str]], Awaitable[Collection[str]]] | None = None,
    ) -> None:
        self._store = store
        self._options = options or IngestOptions()
        self._on_event = on_event
        self._known = known
        self._owned = [] if verifier is not None else [ThreadVerifier()]
        self._verifier: Verifier = verifier or self._owned[0]
        self._waiting, self._verifying, self._verified = _Batch(), _Batch(), _Batch()
        self._open = 0
        self._open_bytes = 0
        self._is_full = False
        self._pausing: asyncio.TimerHandle | None = None
        self._saving: dict[int, Event] = {}
        self._after: list[Callable[[], None]] = []
        self._arrived, self._ready, self._settled = Gate(), Gate(), Gate()
        self._runner: asyncio.Task[None] | None = None
        self.stopped = False
        """Whether `run` has ended. No event gets a result after that."""

    # Its life.

    async def __aenter__(self) -> Self:
        self._runner = asyncio.create_task(self.run(), name="ingest")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        runner = self._runner
        try:
            if error is None:
                await self.drain()
        finally:
            if runner is not None:
                if not self.stopped:  # a bug that ended the runner is raised below
                    runner.cancel()
                await asyncio.wait([runner])
        if runner is not None and not runner.cancelled():
            runner.result()

    async def run(self) -> None:
        """Run until cancelled. Events without a result then get none."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._verify_entries())
                group.create_task(self._save_entries())
        finally:
            self.stopped = True
            self._settled.wake()
            for verifier in self._owned:
                await verifier.close()

    # What sources do.

    @property
    def is_full(self) -> bool:
        """Whether sources must wait. It stays True until a quarter of the limit is free."""
        return self._is_full

    def put(self, events: Sequence[Event | VerifiedEvent], relay: str, settle: Settle) -> None:
        """Take events of one relay without waiting. Before, wait for `room` or drop events.

        `relay` is "" for none. `settle` gets the events and a result for each, in the same order,
        after the commit. `settle` must not raise.
        """
        entry = _Entry(events, relay, settle)
        self._open += len(events)
        self._open_bytes += entry.size
        options = self._options
        if self._open >= options.waiting or self._open_bytes >= options.waiting_bytes:
            self._is_full = True
        self._waiting.add(entry)
        self._arrived.wake()

    async def room(self) -> None:
        """Wait until there is room for more events. Safe to cancel."""
        if self._is_full:
            await self.wait(lambda: not self._is_full)

    async def drain(self) -> None:
        """Wait until every event has its result. Safe to cancel."""
        await self.wait(lambda: not self._open)

    async def wait(self, ready: Callable[[], object]) -> None:
        """Wait until `ready()` is true, which each commit tests, or until the pipeline ends."""
        await self._settled.wait(lambda: self.stopped or ready())

    async def save(self, events: Sequence[Event | VerifiedEvent], relay: str = "") -> list[Result]:
        """Take events and wait for their results, in the same order. Raises StoreError.

        Safe to cancel. Events that were taken are still saved.
        """
        found: list[Result] = []
        flow = Flow(self)
        await flow.put(events, relay, lambda _, results: found.extend(results))
        await flow.settled()
        return found

    async def take(
        self,
        subscription: Subscription,
        *,
        wanted: Sequence[Filter] | None = None,
        silence: float | None = None,
        settle: Settle | None = None,
    ) -> IngestReport:
        """Save the events of a subscription until it ends and every event has its result.

        `wanted`: save only events that match one of these filters. `silence`: seconds without an
        event before TimeoutError. `settle` gets the results as they come. The subscription's
        sources also count invalid and repeated events. Raises StoreError if the store failed. Safe
        to cancel. Events that were taken are still saved.
        """
        report = IngestReport()
        flow = Flow(self)
        try:
            while items := await _received(subscription, silence):
                report.received += len(items)
                for relay, group in groupby(items, attrgetter("relay")):
                    count = partial(_count, report, subscription.sources[relay], settle)
                    events: list[Event] = []
                    others: list[Event] = []
                    for item in group:
                        (events if _matches(item.event, wanted) else others).append(item.event)
                    if others:
                        count(others, [Skip.UNWANTED] * len(others))
                    await flow.put(events, relay, count)
        except TimeoutError:
            await flow.settled()
            raise
        await flow.settled()
        return report

    # Commits, for the code that announces them.

    def is_saving(self, event: Event) -> bool:
        """Return True if the current commit has this very object, and not just an equal event."""
        return id(event) in self._saving

    def after_commit(self, call: Callable[[], None]) -> None:
        """Call `call` after the results of the current commit, or at once if there is no commit."""
        if self._saving:
            self._after.append(call)
        else:
            call()

    # The two stages.

    async def _verify_entries(self) -> None:
        options = self._options
        while True:
            await self._arrived.wait(lambda: self._waiting.entries)
            self._verifying = self._waiting.split(options.step, options.batch_bytes)
            entries = self._verifying.entries
            checked = await self._check([one for entry in entries for one in entry.events])
            self._arrived.wake()  # a full batch may be due
            await self._ready.wait(lambda: not self._is_batch())
            at = 0
            for entry in entries:
                entry.checked = checked[at : at + len(entry.events)]
                at += len(entry.events)
                self._verified.add(entry)
            self._verifying = _Batch()
            self._arrived.wake()

    async def _check(self, events: Sequence[Event | VerifiedEvent]) -> Sequence[_Checked]:
        """Return each event verified, or why it is not. Equal events are verified once."""
        raw = [one for one in events if not isinstance(one, VerifiedEvent)]
        try:
            known = await self._known([one.id for one in raw]) if self._known and raw else ()
        except StoreError as error:
            return [error] * len(events)
        first: dict[str, Event] = {}
        fresh: list[Event] = []
        for one in raw:
            if one.id not in known and (one.id not in first or first[one.id] != one):
                first.setdefault(one.id, one)  # two unequal events have this id, so one is forged
                fresh.append(one)
        verified = await self._verifier.verify(fresh) if fresh else []
        if len(fresh) == len(events):
            return verified
        found: dict[int, _Checked] = dict(zip(map(id, fresh), verified, strict=True))

        def result(one: Event | VerifiedEvent) -> _Checked:
            if isinstance(one, VerifiedEvent):
                return one
            if one.id in known:
                return Skip.KNOWN
            return found[id(one) if id(one) in found else id(first[one.id])]

        return list(map(result, events))

    async def _save_entries(self) -> None:
        while True:
            await self._arrived.wait(self._is_due)
            batch, self._verified = self._verified, _Batch()
            self._ready.wake()
            try:
                self._settle(batch, await self._outcomes(batch))
            finally:
                self._saving = {}
                calls, self._after = self._after, []
                for call in calls:
                    call()
            self._settled.wake()
            self._pause()

    def _is_due(self) -> bool:
        """Return True if a commit must begin now."""
        options, done = self._options, self._verified
        if self._is_batch() or not done.entries:
            return bool(done.entries)
        is_small = done.events < options.least
        if is_small and self._pausing is not None:
            return False
        return not (options.full or is_small) or not (
            self._verifying.entries or self._waiting.entries
        )

    def _pause(self) -> None:
        if self._pausing is not None:
            self._pausing.cancel()
        if self._options.pause_s:
            loop = asyncio.get_running_loop()
            self._pausing = loop.call_later(self._options.pause_s, self._go_on)

    def _go_on(self) -> None:
        self._pausing = None
        self._arrived.wake()

    def _is_batch(self) -> bool:
        """Return True if the verified events fill a commit, together with those in verification."""
        done, next_, options = self._verified, self._verifying, self._options
        return bool(done.entries) and (
            done.events + next_.events > options.batch
            or done.size + next_.size > options.batch_bytes
        )

    async def _outcomes(self, batch: _Batch) -> Sequence[Result]:
        """Save the valid events. Return an outcome for each, or the store's error for each."""
        good: list[VerifiedEvent] = []
        for entry in batch.entries:
            valid = [one for one in entry.checked if isinstance(one, VerifiedEvent)]
            good += valid
            if self._on_event is not None and entry.relay:
                for one in valid:
                    self._on_event(one.event.id, entry.relay)
        self._saving = {id(one.event): one.event for one in good}
        try:
            return await self._store.save(good) if good else []
        except StoreError as error:
            return [error] * len(good)

    def _settle(self, batch: _Batch, saved: Sequence[Result]) -> None:
        outcomes = iter(saved)
        self._open -= batch.events
        self._open_bytes -= batch.size
        options = self._options
        if (
            self._open <= _LOW * options.waiting
            and self._open_bytes <= _LOW * options.waiting_bytes
        ):
            self._is_full = False
        for entry in batch.entries:
            entry.settle(
                entry.events,
                [
                    next(outcomes) if isinstance(one, VerifiedEvent) else one
                    for one in entry.checked
                ],
            )


def plain(one: Event | VerifiedEvent) -> Event:
    """Return the event of an entry, whether it was verified before or not."""
    return one.event if isinstance(one, VerifiedEvent) else one


async def _received(subscription: Subscription, silence: float | None) -> list[QueuedEvent]:
    async with asyncio.timeout(silence):
        return await subscription.received()


def _matches(event: Event, wanted: Sequence[Filter] | None) -> bool:
    return wanted is None or any(one.matches(event) for one in wanted)


def _count(
    report: IngestReport,
    source: SubscriptionSource,
    settle: Settle | None,
    events: Sequence[Event | VerifiedEvent],
    results: Sequence[Result],
) -> None:
    """Count results in the report and in the subscription's source, then pass them on."""
    for one in results:
        if isinstance(one, SaveOutcome):
            report.outcomes[one.status] += 1
            is_double = one.status is SaveStatus.DUPLICATE
            source.delivered += not is_double
            source.duplicates += is_double
        elif isinstance(one, InvalidEvent):
            report.invalid += 1
            source.invalid += 1
        elif one is Skip.KNOWN:
            report.known += 1
            source.duplicates += 1
        elif one is Skip.UNWANTED:
            report.unwanted += 1
    if settle is not None:
        settle(events, results)
