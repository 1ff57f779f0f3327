"""Sync one question with many relays, and report the result of all."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from nostr_client.codecs.filters import Filter
from nostr_client.codecs.keys import verify
from nostr_client.errors import InvalidInput, NostrTallyError, RelayError, innermost
from nostr_client.network.ingest import Ingest
from nostr_client.sync.download_queue import DownloadQueue
from nostr_client.sync.job import checked, filters_of, prepared
from nostr_client.sync.memory import memory_of
from nostr_client.sync.options import Mode, SyncOptions
from nostr_client.sync.relayrun import RelayRun
from nostr_client.sync.report import RelayReport, SyncReport
from nostr_client.sync.tally import RelayTally

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from nostr_client.codecs.event import Event
    from nostr_client.codecs.keys import VerifiedEvent
    from nostr_client.network.relay import Relay
    from nostr_client.store.base import EventStore
    from nostr_client.sync.job import SyncJob
    from nostr_client.sync.memory import SyncMemory

OnProgress = Callable[[Sequence[RelayReport]], None]

Question = Filter | Sequence[Filter] | str
"""Filters that are OR'd, or the id (hex) of an event whose content has the filters."""

_TICK = 0.25
"""Seconds between two calls of `on_progress`."""


class Syncer:
    """Brings a store and relays together. Without a store it can only count. Reuse it for many
    syncs.

    `memory`: what to remember between syncs, by default in the store's file. `now` returns Unix
    seconds. `on_event` gets the id and the relay of each event before the event is saved, e.g.
    `counters.ingest.Provenance.note`.
    """

    def __init__(
        self,
        store: EventStore | None,
        *,
        options: SyncOptions | None = None,
        memory: SyncMemory | None = None,
        now: Callable[[], float] = time.time,
        on_event: Callable[[str, str], None] | None = None,
    ) -> None:
        self._store = store
        self._on_event = on_event
        self._options = options or SyncOptions()
        self._memory = memory or memory_of(store, now)
        self._now = now

    async def sync(
        self,
        question: Question,
        relays: Sequence[tuple[str, Relay]],
        mode: Mode | None = None,
        *,
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> SyncReport:
        """Sync with every relay, given as (the user's spelling, relay), all at once.

        Each step has a deadline (`SyncOptions`). `timeout` bounds the whole sync, in seconds. A
        failure of a relay is a status in the report. Raises InvalidInput for a bad question,
        StoreError. Safe to cancel at any point. Stored events stay, and the next sync continues.
        """
        mode = mode or Mode()
        if self._store is None and mode.moves:
            raise InvalidInput("a sync needs a store; without one, only ids can be compared")
        filters, event = await resolved(question, self._store, [one for _, one in relays])
        window = self._options.window
        async with prepared(self._store, filters, event, window) as job:
            return await self._sync(job, relays, mode, timeout, on_progress)

    async def _sync(
        self,
        job: SyncJob,
        relays: Sequence[tuple[str, Relay]],
        mode: Mode,
        timeout: float | None,
        on_progress: OnProgress | None,
    ) -> SyncReport:
        local = job.local if mode.every else None
        tallies = [RelayTally(name, relay, mode.keep_ids, local) for name, relay in relays]
        queue = self._new_queue(mode)
        try:
            async with asyncio.timeout(timeout), self._ingest(relays, mode) as ingest:
                await self._run_all(job, tallies, queue, mode, on_progress, ingest)
        except TimeoutError:
            for tally in tallies:
                if not tally.ended:
                    tally.lacks(f"stopped after {timeout:g} s")
        await queue.forget_moved()
        return _report(job, tallies, queue, mode)

    @asynccontextmanager
    async def _ingest(
        self, relays: Sequence[tuple[str, Relay]], mode: Mode
    ) -> AsyncIterator[Ingest | None]:
        """Open the ingest for the downloads of all relays, or None if nothing is downloaded."""
        if self._store is None or not mode.downloads or not relays:
            yield None
            return
        verifier = relays[0][1].verifier  # the pool has one verifier for all its relays
        async with Ingest(self._store, on_event=self._on_event, verifier=verifier) as ingest:
            yield ingest

    def _new_queue(self, mode: Mode) -> DownloadQueue:
        return DownloadQueue(
            self._store, self._memory, self._options, fetch=mode.downloads, every=mode.every
        )

    async def _run_all(
        self,
        job: SyncJob,
        tallies: Sequence[RelayTally],
        queue: DownloadQueue,
        mode: Mode,
        on_progress: OnProgress | None,
        ingest: Ingest | None,
    ) -> None:
        now = int(self._now())
        runs = [
            RelayRun(
                one.relay, job, self._store, queue, self._memory, self._options, mode, one, now,
                ingest,
            )
            for one in tallies
        ]  # fmt: skip
        try:
            async with asyncio.TaskGroup() as group:
                ticker = (
                    group.create_task(report_progress(tallies, on_progress))
                    if on_progress
                    else None
                )
                async with asyncio.TaskGroup() as working:
                    for run in runs:
                        working.create_task(run.run())
                if ticker is not None:
                    ticker.cancel()
        except ExceptionGroup as errors:
            first = innermost(errors)
            raise (
                first if isinstance(first, NostrTallyError) else NostrTallyError(str(first))
            ) from errors
        finally:
            if on_progress is not None:
                on_progress([one.report() for one in tallies])


async def resolved(
    question: Question, store: EventStore | None, relays: Sequence[Relay]
) -> tuple[tuple[Filter, ...], VerifiedEvent | None]:
    """Return the filters of a question, and the event that has them. Raises InvalidInput."""
    if isinstance(question, Filter):
        return checked([question]), None
    if not isinstance(question, str):
        return checked(question), None
    event = await _filter_event(question, store, relays)
    return filters_of(event), verify(event)


async def _filter_event(id_: str, store: EventStore | None, relays: Sequence[Relay]) -> Event:
    """Return the event with the filters, from the store or else from any relay."""
    asked = Filter(ids=[id_])
    if store is not None and (found := await store.query([asked])):
        return found[0]
    for relay in relays:
        try:
            page = await relay.fetch(asked)
        except RelayError:
            continue
        if page.events:
            return page.events[0].event
    raise InvalidInput(f"neither the store nor a relay has the filter event {id_}")


async def report_progress(tallies: Sequence[RelayTally], on_progress: OnProgress) -> None:
    """Call `on_progress` a few times a second, until cancelled."""
    while True:
        on_progress([one.report() for one in tallies])
        await asyncio.sleep(_TICK)


def _report(
    job: SyncJob, tallies: Sequence[RelayTally], queue: DownloadQueue, mode: Mode
) -> SyncReport:
    if mode.direction.down or not mode.moves:
        for one in tallies:
            one.lacks_here(queue.missing(one.relay.url))
    relays = tuple(one.report() for one in tallies)
    whole = all(one.held is not None for one in relays)
    return SyncReport(
        relays=relays,
        need=queue.distinct,
        have=len(set().union(*(one.lacking for one in tallies))),
        events=job.local + queue.distinct if whole else None,
    )
