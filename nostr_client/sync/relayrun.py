"""Run one relay's part of a sync: windows, downloads and uploads at the same time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from nostr_client.codecs.filters import Filter
from nostr_client.codecs.kinds import DELETION, VANISH
from nostr_client.errors import RelayError, innermost
from nostr_client.network.waiting import Gate
from nostr_client.sync.compare.floor import Floors
from nostr_client.sync.compare.reactions import Reactions
from nostr_client.sync.compare.windows import WindowSchedule
from nostr_client.sync.downloads import Downloads
from nostr_client.sync.memory import Side, place_of
from nostr_client.sync.sharing import Sharing
from nostr_client.sync.tally import RelayOut
from nostr_client.sync.uploads import Uploads

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nostr_client.network.ingest import Ingest
    from nostr_client.network.relay import Relay
    from nostr_client.store.base import EventStore
    from nostr_client.sync.compare.floor import WindowResult
    from nostr_client.sync.compare.initiator import LearnedIds
    from nostr_client.sync.compare.windows import SyncWindow
    from nostr_client.sync.download_queue import DownloadQueue
    from nostr_client.sync.job import SyncJob
    from nostr_client.sync.memory import SyncMemory
    from nostr_client.sync.options import Mode, SyncOptions
    from nostr_client.sync.tally import RelayTally


_DELETING: Final = frozenset({DELETION, VANISH})

_READ: Final = 100
"""Events to read from the store at once."""


class RelayRun:
    """One relay's part of a sync.

    The tally has its results. Without `ingest` nothing is downloaded.
    """

    def __init__(
        self,
        relay: Relay,
        job: SyncJob,
        store: EventStore | None,
        queue: DownloadQueue,
        memory: SyncMemory,
        options: SyncOptions,
        mode: Mode,
        tally: RelayTally,
        now: int,
        ingest: Ingest | None = None,
    ) -> None:
        self._relay = relay
        self._place = place_of(relay)
        self._queue = queue
        self._memory = memory
        self._mode = mode
        self._tally = tally
        self._seen_have: set[bytes] = set()
        self._sent: set[bytes] = set()
        self._gate = Gate()
        self._schedule = WindowSchedule(job.windows, options)
        self._options = options
        self._brings_deletions = mode.downloads and any(
            one.kinds is None or not _DELETING.isdisjoint(one.kinds) for one in job.filters
        )
        self._uploads = self._downloads = None
        self._store = store
        self._sharing = sharing = Sharing(
            job.filters, relay.pubkey, mode.include_private, mode.include_others
        )
        if store is not None and mode.uploads:
            self._uploads = Uploads(
                relay, store, memory, options, tally, sharing, queue.all_brought
            )
        if ingest is not None:
            self._downloads = Downloads(relay, queue, ingest, job.filters, options, tally)
        self._reactions = Reactions(
            relay, job, store, queue, memory, options, mode, tally, self._schedule, now,
            ingest=ingest, learn=self._learn, compared=self._compared,
            lacking_there=self._lacking_there, wake=self._gate.wake,
        )  # fmt: skip
        self._floors = Floors(relay, job, store, self._reactions.pages, options, mode, tally)

    async def run(self) -> None:
        """Sync to the end, or as far as the relay allows. Raises StoreError. Safe to cancel."""
        self._queue.enter(self._place)
        try:
            async with asyncio.TaskGroup() as group:
                await self._work(group)
        except* RelayOut as errors:
            self._tally.lacks(str(innermost(errors)))
        except* RelayError as errors:
            self._tally.lacks(str(innermost(errors)))
        finally:
            self._queue.leave(self._relay.url)
        await self._queue.note_cut(self._relay.url)
        if self._uploads is not None:
            await self._uploads.note_unsettled()
        self._tally.ended = True

    async def _work(self, group: asyncio.TaskGroup) -> None:
        """Compare, download and upload at the same time. `_compared` decides when to upload."""
        downloads = [
            group.create_task(self._downloads.run())
            for _ in range(self._options.requests if self._downloads else 0)
            if self._downloads
        ]
        uploads = group.create_task(self._uploads.run()) if self._uploads else None
        await self._windows()
        await self._queue.served(self._relay.url)
        for task in downloads:
            task.cancel()
        for compared in self._reactions.compared:
            await self._lacking_there(await self._floors.lacking(compared))
        self._queue.brought(self._relay.url)
        if self._uploads is not None and uploads is not None:
            self._uploads.finish()
            await uploads

    async def _compared(self, one: WindowResult) -> None:
        """Upload ids that the relay surely lacks after a session. The other ids wait for downloads.

        At and below the oldest second with an event that both sides have, the session may be
        incomplete. If the filter matches deletions, a download may also bring a deletion.
        """
        one.close()
        if self._uploads is not None and not self._brings_deletions:
            unsure = one.unsure
            await self._lacking_there([key for key in one.have if key not in unsure])
        await self._floors.prove_early(one)

    async def _windows(self) -> None:
        """Run every window, and those that result from halving."""
        await self._reactions.recall()
        schedule = self._schedule
        async with asyncio.TaskGroup() as group:
            while not schedule.over:
                await self._gate.wait(lambda: schedule.ready or schedule.over)
                if schedule.ready:
                    group.create_task(self._window(schedule.start()))

    async def _window(self, window: SyncWindow) -> None:
        try:
            await self._reactions.handle(window)
        finally:
            self._schedule.end()
            self._gate.wake()

    async def _learn(self, learned: LearnedIds) -> int:
        """Queue the ids that one round needs. Return how many ids of the round were new."""
        fresh = [key for key in learned.have if key not in self._seen_have]
        self._seen_have.update(fresh)
        needed = await self._queue.need(self._relay.url, list(learned.need))
        self._tally.needs(needed)
        return len(fresh) + len(needed)

    async def _lacking_there(self, ids: Iterable[bytes]) -> None:
        """Queue our ids that the relay lacks for upload, except for those that must wait."""
        new = [key for key in dict.fromkeys(ids) if key not in self._sent]
        self._sent.update(new)
        if not self._mode.every and new:
            recalled = await self._memory.recall(self._place, Side.UP, new)
            new = [key for key in new if key not in recalled.waiting]
            if self._mode.direction.up or not self._mode.moves:
                self._tally.skips(recalled.waiting.values())
            if self._uploads is not None:
                self._uploads.due |= recalled.due
        self._tally.haves(new)
        if self._uploads is not None:
            self._uploads.put(new)
        elif self._mode.dry_run and self._mode.direction.up:
            await self._report_held_back(new)

    async def _report_held_back(self, ids: Sequence[bytes]) -> None:
        """Count the events that a real run would hold back, in a dry run."""
        if self._store is None:
            return
        for start in range(0, len(ids), _READ):
            some = [key.hex() for key in ids[start : start + _READ]]
            for event in await self._store.query([Filter(ids=some)]):
                if (why := self._sharing.holds_back(event)) is not None:
                    self._tally.held_back[why] += 1
