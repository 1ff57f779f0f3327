"""From a subscription into the store: dedup, verify in threads, save in batches.

Each stage is bounded, and a full one holds up the stage before it: the store the threads, the
threads the subscription, and that (with `Overflow.WAIT`) the socket. Nothing is verified twice:
this stage takes raw events from the subscription, which then verifies nothing itself, asks the
one verifier that it shares with the pool, and hands `save` verified events; what the store knows
is not verified at all.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from nostr_client.errors import InvalidEvent, StoreError
from nostr_client.gate import Gate
from nostr_client.store.base import Status
from nostr_client.taskgroup import task_group
from nostr_client.verifier import ThreadVerifier

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    from nostr_client.event import Event
    from nostr_client.keys import VerifiedEvent
    from nostr_client.store.base import EventStore
    from nostr_client.subscription import Received, Subscription
    from nostr_client.verifier import Verifier


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestOptions:
    """How large the steps are; the defaults keep two cores busy and a commit below 0.2 s."""

    chunk: int = 256
    """Events that are verified in a go: a future for each costs more than it gives."""

    threads: int = 2
    """Threads of a verifier of its own; signatures are checked without the GIL, the rest of the
    work needs the other core. Twice as many chunks are under way at once."""

    batch: int = 4_000
    """Events of one commit under load: pages of the index are then written once for many."""

    linger: float = 0.05
    """Seconds that the first event of a batch waits for company."""

    waiting: int = 8_000
    """Verified events that may wait for the store; beyond it nothing more is verified."""


@dataclass(slots=True)
class IngestReport:
    """What became of the events of one subscription."""

    received: int = 0
    known: int = 0
    """Not verified: the store had them, or had done away with them, or another relay was first."""
    invalid: int = 0
    outcomes: Counter[Status] = field(default_factory=Counter)

    @property
    def stored(self) -> int:
        return self.outcomes[Status.STORED]


class _Flow:
    """One subscription on its way: its report, and how many of its events are not yet saved."""

    __slots__ = ("left", "report", "subscription")

    def __init__(self, subscription: Subscription) -> None:
        self.subscription = subscription
        self.report = IngestReport()
        self.left = 0


class Ingest:
    """Feeds one store from any number of subscriptions. Use it as an async context manager.

    Leaving it waits for what was taken to be saved; after an error or a cancellation it drops
    what is not yet committed, which a later sync brings again. `heard` is told the id and the
    relay of each event that goes on to the store, e.g. `counters.ingest.Provenance.note`.
    `verifier`: that of the pool (`RelayPool.verifier`), so that what was verified for somebody
    else is not verified again; by default one of its own.
    """

    def __init__(
        self,
        store: EventStore,
        options: IngestOptions | None = None,
        *,
        heard: Callable[[str, str], None] | None = None,
        verifier: Verifier | None = None,
    ) -> None:
        self._store = store
        self._heard = heard
        self._options = options or IngestOptions()
        self._owned: list[ThreadVerifier] = []
        self._verifier: Verifier = verifier or self._own_verifier()
        self._slots = asyncio.Semaphore(2 * self._options.threads)
        self._under_way: dict[str, Event] = {}
        self._ready: deque[tuple[_Flow, VerifiedEvent]] = deque()
        self._gate = Gate()
        self._closing = False
        self._failed: StoreError | None = None
        self._saver: asyncio.Task[None] | None = None

    def _own_verifier(self) -> ThreadVerifier:
        made = ThreadVerifier(chunk=self._options.chunk, workers=self._options.threads)
        self._owned.append(made)
        return made

    async def __aenter__(self) -> Self:
        self._saver = asyncio.create_task(self._save_batches(), name="ingest-saver")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._closing = True
        self._gate.wake()
        saver = self._saver
        try:
            if saver is not None and error is None:
                await saver
        finally:
            if saver is not None:
                saver.cancel()
                await asyncio.wait([saver])
            for verifier in self._owned:
                await verifier.close()

    async def take(self, subscription: Subscription) -> IngestReport:
        """Save everything that a subscription brings; returns when it ended and all is committed.

        Counts invalid events and doubles in the subscription's sources too. Raises StoreError
        when the store failed. Safe to cancel: what was verified is still saved.
        """
        flow = _Flow(subscription)
        async with task_group() as group:
            while self._failed is None:
                items = await subscription.received(self._options.chunk)
                if not items:
                    break
                flow.report.received += len(items)
                await self._slots.acquire()
                group.create_task(self._chunk(flow, items))
        await self._gate.wait(lambda: self._failed or not flow.left)
        if self._failed is not None:
            raise self._failed
        return flow.report

    async def _chunk(self, flow: _Flow, items: Sequence[Received]) -> None:
        """Verify one chunk and hand it to the saver, once there is room for it."""
        fresh: list[Received] = []
        try:
            known = await self._store.known([item.event.id for item in items])
            fresh = self._fresh(flow, items, known)
            results = await self._verifier.verify([item.event for item in fresh])
            await self._gate.wait(lambda: self._failed or self._has_room())
            for item, result in zip(fresh, results, strict=True):
                self._hand_over(flow, item, result)
        except StoreError as error:
            self._fail(error)
        except BaseException:
            for item in fresh:
                self._under_way.pop(item.event.id, None)
            raise
        finally:
            self._slots.release()
            self._gate.wake()

    def _fresh(self, flow: _Flow, items: Sequence[Received], known: set[str]) -> list[Received]:
        """Those that nobody has and nobody is verifying. An id alone proves nothing: another
        event under the id of one that is being verified is verified as well."""
        fresh = []
        for item in items:
            event = item.event
            if event.id in known or self._under_way.get(event.id) == event:
                flow.report.known += 1
                flow.subscription.sources[item.relay].duplicates += 1
            else:
                self._under_way.setdefault(event.id, event)
                fresh.append(item)
        return fresh

    def _hand_over(self, flow: _Flow, item: Received, result: VerifiedEvent | InvalidEvent) -> None:
        source = flow.subscription.sources[item.relay]
        if isinstance(result, InvalidEvent):
            source.invalid += 1
            flow.report.invalid += 1
            self._settle(item.event)
        else:
            source.delivered += 1
            if self._heard is not None:
                self._heard(item.event.id, item.relay)
            flow.left += 1
            self._ready.append((flow, result))

    def _settle(self, event: Event) -> None:
        if self._under_way.get(event.id) is event:
            del self._under_way[event.id]

    async def _save_batches(self) -> None:
        while await self._next_batch():
            size = min(len(self._ready), self._options.batch)
            batch = [self._ready[index] for index in range(size)]
            try:
                outcomes = await self._store.save([verified for _, verified in batch])
            except StoreError as error:
                self._fail(error)
                return
            for (flow, verified), outcome in zip(batch, outcomes, strict=True):
                self._ready.popleft()
                self._settle(verified.event)
                flow.left -= 1
                flow.report.outcomes[outcome.status] += 1
            self._gate.wake()

    async def _next_batch(self) -> bool:
        """Wait for events, then a moment for more of them; False when there will be none."""
        await self._gate.wait(lambda: self._ready or self._closing)
        with suppress(TimeoutError):
            async with asyncio.timeout(self._options.linger):
                await self._gate.wait(self._batch_is_full)
        return bool(self._ready)

    def _batch_is_full(self) -> bool:
        return self._closing or len(self._ready) >= self._options.batch

    def _has_room(self) -> bool:
        return len(self._ready) < self._options.waiting

    def _fail(self, error: StoreError) -> None:
        self._failed = error
        self._gate.wake()
