"""Compare one window with one relay, and react to each way in which the session can fail."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

from nostr_client.codecs.private_kinds import is_protected
from nostr_client.errors import (
    DeadlineExceeded,
    NetworkError,
    ProtocolError,
    RelayError,
    RelayRefused,
)
from nostr_client.sync.compare.floor import WindowResult
from nostr_client.sync.compare.initiator import Refusal, RefusalKind
from nostr_client.sync.compare.pages import Pages
from nostr_client.sync.compare.session import WindowSession
from nostr_client.sync.compare.windows import UNPROVEN, SyncWindow, halve, named_parts, split_values
from nostr_client.sync.job import items_of
from nostr_client.sync.memory import NIP77, Wait, place_of, retry_wait, scope_of
from nostr_client.sync.options import LEAST_FRAME
from nostr_client.sync.tally import RelayOut

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from nostr_client.codecs.filters import Filter
    from nostr_client.codecs.keys import VerifiedEvent
    from nostr_client.network.ingest import Ingest
    from nostr_client.network.relay import Relay
    from nostr_client.store.base import EventStore
    from nostr_client.sync.compare.initiator import LearnedIds
    from nostr_client.sync.compare.windows import WindowSchedule
    from nostr_client.sync.download_queue import DownloadQueue
    from nostr_client.sync.job import SyncJob
    from nostr_client.sync.memory import SyncMemory
    from nostr_client.sync.options import Mode, SyncOptions
    from nostr_client.sync.tally import RelayTally


_NO_NIP77: Final = (RefusalKind.UNSUPPORTED, RefusalKind.SILENT)


def _is_foreign(event: VerifiedEvent | None, pubkey: str | None) -> bool:
    """Return True if only another key may send the event (NIP-70)."""
    return event is not None and is_protected(event.event) and event.event.pubkey != pubkey


def refused_however_small(reason: str) -> str:
    """Return why a sync is partial if halving did not help."""
    return f"windows were refused however small, and read by REQ: {reason}"


class Reactions:
    """Handles windows of one relay. Call `recall` first, then `handle` for each window.

    `handle` may replace a window by others. Raises RelayOut if nothing more can be done with the
    relay.
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
        schedule: WindowSchedule,
        now: int,
        *,
        ingest: Ingest | None,
        learn: Callable[[LearnedIds], Awaitable[int]],
        compared: Callable[[WindowResult], Awaitable[None]],
        lacking_there: Callable[[Iterable[bytes]], Awaitable[None]],
        wake: Callable[[], None],
    ) -> None:
        self._relay = relay
        self._place = place_of(relay)
        self._job = job
        self._store = store
        self._memory = memory
        self._options = options
        self._tally = tally
        self._schedule = schedule
        self._now = now
        self._learn = learn
        self._report_compared = compared
        self._lacking_there = lacking_there
        self._wake = wake
        self._frame_bytes = options.frame_bytes
        self._filters: dict[str, str] = {}
        """By scope: why a filter is not compared by NIP-77, or "" if it is."""
        self._compared: set[str] = set()
        self.compared: list[WindowResult] = []
        """The windows that were compared to their end."""
        self._speaks = False
        self._pauses = 0
        self._authenticated = False
        self._published = not mode.uploads or _is_foreign(job.event, relay.pubkey)
        """Whether the filter event was sent, or must not be sent."""
        self.pages = None
        if options.pages and (mode.moves or mode.by_req):
            self.pages = Pages(relay, queue, ingest, tally)

    async def recall(self) -> None:
        """Use REQ if the relay said recently that it has no NIP-77."""
        reason = await self._memory.refusal(self._place, NIP77)
        if reason is not None:
            self._read_by_req(reason)

    def _read_by_req(self, reason: str) -> None:
        self._tally.unsupported = reason
        if self._job.event is not None:
            self._schedule.clear()
            self._schedule.put(self._job.fallback)

    async def handle(self, window: SyncWindow) -> None:
        """Reconcile a window, or read it by REQ."""
        refused = self._tally.unsupported or await self._recall_filter(window)
        if refused:
            await self._page(window, refused)
            return
        found = WindowResult(window, {}, bytearray())
        bargain = WindowSession(
            self._relay, window, self._options,
            frame_bytes=self._frame_bytes, learn=partial(self._take, found), begun=self._begun,
        )  # fmt: skip
        try:
            refusal = await bargain.run()
        except (NetworkError, DeadlineExceeded, ProtocolError, RelayRefused) as error:
            refusal = self._failed(bargain, error)
        finally:
            self._tally.rounds += bargain.rounds
        if bargain.learned >= self._options.patience:
            window = window.fresh()
        if refusal is None:
            await self._done(found)
            return
        if refusal.by_neg_err:
            self._relay.learn(negentropy=True)
        await self._REACTIONS[refusal.kind](self, window, refusal)

    async def _recall_filter(self, window: SyncWindow) -> str:
        """Return why the filter is not compared by NIP-77 now, or ""."""
        if window.event_id is not None:
            return ""
        scope = scope_of(window.filter)
        if scope not in self._filters:
            self._filters[scope] = await self._memory.refusal(self._place, scope) or ""
        self._tally.by_req = self._tally.by_req or self._filters[scope]
        return self._filters[scope]

    async def _take(self, found: WindowResult, learned: LearnedIds) -> int:
        found.have.update(dict.fromkeys(learned.have))
        found.need.extend(learned.need.packed)
        return await self._learn(learned)

    async def _done(self, found: WindowResult) -> None:
        scope = scope_of(found.window.filter)
        if scope not in self._compared:
            self._compared.add(scope)
            await self._memory.compares(self._place, scope)
        self.compared.append(found)
        await self._report_compared(found)
        self._tally.window_done(len(found.window.items))
        self._schedule.succeeded()

    def _begun(self) -> None:
        """Note that the relay answered with negentropy."""
        self._relay.learn(negentropy=True)
        self._speaks = True
        self._schedule.speaks()
        self._wake()

    def _failed(self, bargain: WindowSession, error: RelayError) -> Refusal:
        """Return a refusal for a broken session.

        If the connection broke, the frame may have been too large for the relay. Later frames are
        smaller.
        """
        if isinstance(error, NetworkError) and bargain.largest > LEAST_FRAME:
            self._frame_bytes = max(LEAST_FRAME, min(self._frame_bytes, bargain.largest) // 2)
        if isinstance(error, NetworkError):
            return Refusal(RefusalKind.LOST, str(error))
        unasked = self._relay.held_back() is not None  # by our own budget
        silent = isinstance(error, DeadlineExceeded) and not self._speaks and not unasked
        return Refusal(RefusalKind.SILENT if silent else RefusalKind.FAULT, str(error))

    # Reactions, by kind.

    async def _overflow(self, window: SyncWindow, refusal: Refusal) -> None:
        """Use smaller windows, up to the cap. A second that cannot be cut is read by REQ."""
        if window.event_id is not None:
            self._one_by_one()
        elif not len(window.items) and await self._is_empty(window):
            self._tally.window_done(0, paged=True)
        elif smaller := await self._smaller(window, refusal.most):
            if self._schedule.may_halve():
                self._schedule.put(smaller)
            else:
                await self._page_refused(window, refusal)
        else:
            await self._page(window, refusal.reason)

    async def _is_empty(self, window: SyncWindow) -> bool:
        """Return True if a REQ brings nothing.

        An empty window need not be halved down to a second.
        """
        asked = window.filter.replace(since=window.filter.since or 0, limit=1)
        try:
            page = await self._relay.fetch(asked)
        except RelayError:
            return False
        return not page.frames

    async def _smaller(self, window: SyncWindow, most: int | None) -> list[SyncWindow]:
        if by_time := halve(window, self._now, most):
            return by_time
        filters = split_values(window.filter) or await self._named(window.filter)
        return [SyncWindow(one, await items_of(self._store, one)) for one in filters]

    async def _named(self, filter: Filter) -> Sequence[Filter]:
        """Split the filter of one second by the kinds, then the authors, of its known events."""
        held = await self._store.query([filter]) if self._store is not None else []
        parts = await named_parts(filter, [self._relay], held)
        if parts is None:
            return ()
        if not parts.all:
            self._tally.lacks(UNPROVEN)
        return parts.filters

    async def _page_refused(self, window: SyncWindow, refusal: Refusal) -> None:
        """Read a window by REQ that is refused at any size. It is mostly too old for the relay."""
        self._tally.lacks(refused_however_small(refusal.reason))
        await self._page(window, refusal.reason)

    async def _again(self, window: SyncWindow, refusal: Refusal) -> None:
        """Try the same window again, and read it by REQ after some attempts."""
        if window.event_id is not None and window.tries:
            self._one_by_one()
        elif window.tries + 1 < self._options.tries:
            self._schedule.put([window.again()])
        elif refusal.kind is RefusalKind.LOST and self.pages is None:
            raise RelayOut(refusal.reason)
        elif self._speaks or refusal.kind is RefusalKind.LOST:
            await self._page(window, refusal.reason)
        else:
            await self._refuses(window, refusal)

    async def _busy(self, window: SyncWindow, refusal: Refusal) -> None:
        """Run fewer sessions at once. If this is the only one, pause."""
        if not self._schedule.crowd():
            if self._pauses > self._options.tries:
                await self._page(window, refusal.reason)
                return
            await asyncio.sleep(self._options.pause * 2**self._pauses)
            self._pauses += 1
        self._schedule.put([window])

    async def _not_found(self, window: SyncWindow, refusal: Refusal) -> None:
        """Send the filter event to a relay that does not have it, once."""
        if window.event_id is None or self._job.event is None or self._published:
            await self._refuses(window, refusal)
            return
        self._published = True
        try:
            await self._relay.publish(self._job.event)
        except RelayError:
            self._one_by_one()
        else:
            self._schedule.put([window])

    async def _auth(self, window: SyncWindow, refusal: Refusal) -> None:
        if self._authenticated:
            await self._refuses(window, refusal)
            return
        self._authenticated = True
        try:
            await self._relay.authenticate()
        except RelayError:
            await self._refuses(window, refusal)
        else:
            self._schedule.put([window])

    async def _refuses(self, window: SyncWindow, refusal: Refusal) -> None:
        """Use REQ for this filter, or for every filter if the relay does not support NIP-77."""
        if window.event_id is not None:
            self._one_by_one()
            return
        says_so = refusal.kind in (RefusalKind.UNSUPPORTED, RefusalKind.INVALID)
        day = self._options.refusal_ttl
        wait = Wait(day, day) if says_so else retry_wait(self._options)
        if refusal.kind is RefusalKind.BROKEN or (refusal.kind in _NO_NIP77 and not self._speaks):
            self._read_by_req(refusal.reason)
            self._relay.learn(negentropy=False)
            await self._memory.refuse(self._place, NIP77, refusal.reason, wait)
        else:
            scope = scope_of(window.filter)
            self._filters[scope] = self._tally.by_req = refusal.reason
            await self._memory.refuse(self._place, scope, refusal.reason, wait)
        await self._page(window, refusal.reason)

    def _one_by_one(self) -> None:
        """Use one session for each filter, because the relay does not accept the event id as a
        filter.
        """
        self._schedule.put(self._job.fallback)

    async def _page(self, window: SyncWindow, reason: str) -> None:
        """Read a window by REQ. Raises RelayOut, RelayError."""
        if self.pages is None:
            self._tally.no_other_way = True
            raise RelayOut(f"not comparable by negentropy: {reason}")
        lacking_there = await self.pages.read(window)
        if lacking_there is not None:
            await self._lacking_there(lacking_there)
            self._tally.window_done(len(window.items), paged=True)

    _REACTIONS: ClassVar[dict[RefusalKind, Callable[[Reactions, Any, Any], Awaitable[None]]]] = {
        RefusalKind.OVERFLOW: _overflow,
        RefusalKind.TOO_OLD: _page_refused,
        RefusalKind.RESTART: _again,
        RefusalKind.BUSY: _busy,
        RefusalKind.NOT_FOUND: _not_found,
        RefusalKind.AUTH: _auth,
        RefusalKind.UNSUPPORTED: _refuses,
        RefusalKind.SILENT: _refuses,
        RefusalKind.DENIED: _refuses,
        RefusalKind.INVALID: _refuses,
        RefusalKind.FAULT: _again,
        RefusalKind.BROKEN: _refuses,
        RefusalKind.LOST: _again,
    }
