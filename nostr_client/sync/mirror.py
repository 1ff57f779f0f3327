"""Bring two relays to the same events without a store, and without a list of their ids.

If both support NIP-77, they are compared with each other (`pair_session`). The bytes grow with the
difference, and only the open ranges are in memory. If one relay does not support NIP-77, its ids
are read by REQ, in windows of `SyncOptions.window` events. The other relay is compared with each
window. Events that only one relay has go to the other as they are found, and are verified on the
way.

The rules of a sync apply. Events that a relay refused or did not send are remembered. A REQ proves
that each relay compared all of its events. Events that a relay left out are read by REQ.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from typing import TYPE_CHECKING, Final

from nostr_client.codecs.filters import Filter
from nostr_client.errors import RelayError
from nostr_client.negentropy.bridge import DifferingIds
from nostr_client.negentropy.matching import Ids
from nostr_client.network.paging.snapshot import Edge, prove_floor, up_to
from nostr_client.network.waiting import task_group
from nostr_client.sync.compare.floor import CAPPED
from nostr_client.sync.compare.floor import UNPROVEN as UNPROVEN_FLOOR
from nostr_client.sync.compare.initiator import RefusalKind
from nostr_client.sync.compare.items import no_items
from nostr_client.sync.compare.pages import time_windows
from nostr_client.sync.compare.pair_session import LowestIds, PairRefusal, PairSession
from nostr_client.sync.compare.reactions import refused_however_small
from nostr_client.sync.compare.windows import (
    UNPROVEN,
    SyncWindow,
    WindowSchedule,
    halve,
    named_parts,
    split_values,
)
from nostr_client.sync.download_queue import DownloadQueue
from nostr_client.sync.job import SyncJob
from nostr_client.sync.memory import NOT_SENT, LocalMemory, Side, place_of
from nostr_client.sync.options import Mode, SyncOptions
from nostr_client.sync.procedure import report_progress, resolved
from nostr_client.sync.relayrun import RelayRun
from nostr_client.sync.report import SyncReport
from nostr_client.sync.sharing import Sharing
from nostr_client.sync.tally import RelayOut, RelayTally
from nostr_client.sync.transfer import NewIds, TransferLane, to_carry

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from nostr_client.network.relay import Relay
    from nostr_client.sync.memory import SyncMemory
    from nostr_client.sync.procedure import OnProgress, Question

_LISTING: Final = Mode(ids_only=True, keep_ids=True, by_req=True)

_EVER: Final = 2**63 - 1
"""Last possible second, for a relay that compares none of its events."""

_NO_NIP77: Final = (RefusalKind.UNSUPPORTED, RefusalKind.BROKEN, RefusalKind.NOT_FOUND)


async def mirror(
    question: Question,
    relays: tuple[tuple[str, Relay], tuple[str, Relay]],
    *,
    mode: Mode | None = None,
    options: SyncOptions | None = None,
    on_progress: OnProgress | None = None,
    memory: SyncMemory | None = None,
    now: Callable[[], float] = time.time,
) -> SyncReport:
    """Copy between two relays, each given as (the user's spelling, relay).

    The direction of `mode` is seen from the first relay: down copies from the first to the second,
    up copies the other way. `ids_only` copies nothing, and reads events only with `by_req`. In the
    report, `need` of a relay counts events that the other one lacks, and `have` counts events that
    it lacks itself. `memory`: what to remember between runs, by default nothing. Raises
    InvalidInput for a bad question, StoreError. Safe to cancel. A later run copies the rest.
    """
    mode = mode or Mode()
    options = options or SyncOptions()
    filters, _ = await resolved(question, None, [relay for _, relay in relays])
    tallies = [RelayTally(name, relay, mode.keep_ids) for name, relay in relays]
    work = _Mirror(filters, tallies, options, memory or LocalMemory(now), int(now()), mode)
    async with task_group() as group:
        ticker = group.create_task(report_progress(tallies, on_progress)) if on_progress else None
        try:
            await work.run()
        finally:
            if ticker is not None:
                ticker.cancel()
    if on_progress is not None:
        on_progress([one.report() for one in tallies])
    both = tallies[0].need + tallies[1].need
    return SyncReport(relays=tuple(one.report() for one in tallies), need=both, have=both)


def _above(filter: Filter, second: int | None) -> Filter | None:
    """Return the filter for events after a second, or None if no later second is possible."""
    if second is None:
        return filter
    since = max(second + 1, filter.since or 0)
    return (
        None
        if since > (_EVER if filter.until is None else filter.until)
        else filter.replace(since=since)
    )


class _Mirror:
    """One mirror: windows of both relays, one after the other, and a lane to each relay."""

    def __init__(
        self,
        filters: Sequence[Filter],
        tallies: Sequence[RelayTally],
        options: SyncOptions,
        memory: SyncMemory,
        now: int,
        mode: Mode,
    ) -> None:
        self._tallies = tallies
        self._options = options
        self._memory = memory
        self._now = now
        self._mode = mode
        self._goes = (
            mode.direction.down and not mode.every,
            mode.direction.up and not mode.every,
        )
        """For each side, whether its events go to the other."""
        self._schedule = WindowSchedule([SyncWindow(one, no_items()) for one in filters], options)
        targets = (0,) * mode.uploads + (1,) * mode.downloads
        self._lanes = {at: self._lane(filters, at, mode) for at in targets}
        """By the side to which events go."""
        self._seen: set[bytes] | None = set() if len(filters) > 1 else None
        self._pauses = 0
        self._authenticated: set[int] = set()

    def _lane(self, filters: Sequence[Filter], target: int, mode: Mode) -> TransferLane:
        """Return the lane to one side. Events of other people go only if the filters name them."""
        to = self._tallies[target]
        sharing = Sharing(filters, to.relay.pubkey, mode.include_private, mode.include_others)
        return TransferLane(self._tallies[1 - target], to, self._memory, self._options, sharing)

    async def run(self) -> None:
        async with task_group() as group:
            for lane in self._lanes.values():
                group.create_task(lane.run())
            try:
                await self._windows()
            except RelayOut as error:
                for tally in self._tallies:
                    if not tally.lacking_something:
                        tally.lacks(str(error))
            for lane in self._lanes.values():
                lane.finish()
        for tally in self._tallies:
            tally.ended = True

    async def _windows(self) -> None:
        schedule = self._schedule
        while not schedule.over:
            window = schedule.start()
            await self._compare(window)
            schedule.end()

    async def _compare(self, window: SyncWindow) -> None:
        refused = self._without_nip77()
        if refused is not None:
            await self._by_windows(window, refused)
            return
        async with task_group() as group:
            asked = [group.create_task(self._floor(window, side)) for side in (0, 1)]
        left_out: dict[int, int] = {}
        for side, task in enumerate(asked):
            floor = task.result()
            if isinstance(floor, PairRefusal):
                await self._react(window, floor)
                return
            if floor is not None:
                left_out[side] = floor
        above = _above(window.filter, max(left_out.values(), default=None))
        if above is not None:
            refusal = await PairSession(above, self._tallies, self._options, self._learn).run()
            if refusal is not None:
                await self._react(window, refusal)
                return
        self._done()
        if left_out:
            await self._below(window, left_out)

    async def _below(self, window: SyncWindow, left_out: Mapping[int, int]) -> None:
        """Read by REQ the events that a side has and does not compare.

        Compare the other side with them.
        """
        for side in left_out:
            self._tallies[side].remarks[CAPPED] = None
        below = up_to(window.filter, max(left_out.values()))
        if below.until == _EVER:
            below = window.filter
        await self._by_windows(SyncWindow(below, no_items()), next(iter(left_out)))

    async def _floor(self, window: SyncWindow, side: int) -> int | PairRefusal | None:
        """Return the second up to which a side may have more than it compares, or None if it has no
        more.
        """
        tally = self._tallies[side]
        lowest = LowestIds(window.filter, tally, self._options)
        refusal = await lowest.find()
        if refusal is not None:
            return PairRefusal(side, refusal)
        try:
            edge = await self._edge(tally.relay, lowest.ids)
            if edge is None:
                await self._withheld(tally, lowest.ids)
            needed = frozenset(lowest.ids)
            proof = await prove_floor(tally.relay, window.filter, edge, needed=needed)
        except RelayError as error:
            tally.lacks(f"{UNPROVEN_FLOOR}: {error}")
            return None
        if proof.failed:
            tally.lacks(f"{UNPROVEN_FLOOR}: {proof.why}")
        if proof.proven or proof.failed:
            return None
        return _EVER if edge is None else edge.second

    async def _withheld(self, tally: RelayTally, ids: Sequence[bytes]) -> None:
        """Note ids that a relay named without sending an event."""
        notes = dict.fromkeys(ids, NOT_SENT)
        tally.withholds(notes.values())
        await self._memory.note(place_of(tally.relay), Side.DOWN, notes, self._options)

    async def _edge(self, relay: Relay, ids: Sequence[bytes]) -> Edge | None:
        """Return the oldest second of the events that a relay compares.

        It is the second of the relay's first id, or of the ids after it if the first event does not
        come.
        """
        for asked in (ids[:1], ids[1:]):
            page = await relay.fetch(Filter(ids=[key.hex() for key in asked])) if asked else None
            if page is not None and page.events:
                return Edge.lowest(
                    (one.event.created_at, bytes.fromhex(one.event.id)) for one in page.events
                )
        return None

    def _done(self) -> None:
        self._schedule.succeeded()
        for tally in self._tallies:
            tally.window_done(0)

    def _without_nip77(self) -> int | None:
        """Return a side that is known not to support NIP-77, or None."""
        return next((at for at in (0, 1) if self._tallies[at].unsupported), None)

    async def _react(self, window: SyncWindow, refused: PairRefusal) -> None:
        side, refusal = refused
        if refusal.kind is RefusalKind.OVERFLOW:
            parts = await self._smaller(window, refusal.most)
            if parts and self._schedule.may_halve():
                self._schedule.put(parts)
                return
            if parts:
                self._tallies[side].lacks(refused_however_small(refusal.reason))
        elif refusal.kind is RefusalKind.BUSY and self._pauses <= self._options.tries:
            await asyncio.sleep(self._options.pause * 2**self._pauses)
            self._pauses += 1
            self._schedule.put([window])
            return
        elif refusal.kind is RefusalKind.AUTH and await self._may_authenticate(side):
            self._schedule.put([window])
            return
        elif refusal.kind in _NO_NIP77:
            self._tallies[side].unsupported = refusal.reason
            self._tallies[side].relay.learn(negentropy=False)
        elif refusal.kind is RefusalKind.TOO_OLD:
            self._tallies[side].lacks(f"read by REQ: {refusal.reason}")
        await self._by_windows(window, side)

    async def _smaller(self, window: SyncWindow, most: int | None) -> list[SyncWindow]:
        if by_time := halve(window, self._now, most):
            return by_time
        filters = split_values(window.filter)
        if not filters:
            relays = [tally.relay for tally in self._tallies]
            named = await named_parts(window.filter, relays)
            if named is not None:
                filters = named.filters
                if not named.all:
                    self._lack(UNPROVEN)
        return [SyncWindow(one, no_items()) for one in filters]

    async def _may_authenticate(self, side: int) -> bool:
        if side in self._authenticated:
            return False
        self._authenticated.add(side)
        try:
            await self._tallies[side].relay.authenticate()
        except RelayError:
            return False
        return True

    async def _by_windows(self, window: SyncWindow, side: int) -> None:
        """Read one side by REQ, and compare the other side with its events."""
        tally = self._tallies[side]
        if self._mode.every and not self._mode.by_req:
            tally.lacks("it was not compared by ids to its end")
            return
        try:
            async with aclosing(time_windows(window.filter, self._options.window, tally)) as parts:
                async for listed in parts:
                    tally.window_done(0, paged=True)
                    await self._against(listed, 1 - side)
        except RelayError as error:
            tally.lacks(str(error))
            raise RelayOut(f"{tally.relay.url} could not be read") from error

    async def _against(self, listed: SyncWindow, side: int) -> None:
        """Compare one side with the ids that the other side has in a window."""
        tally = self._tallies[side]
        part = RelayTally(tally.name, tally.relay, keep_ids=True)
        queue = DownloadQueue(None, self._memory, self._options, fetch=False, every=True)
        job = SyncJob((listed.filter,), (listed,), local=len(listed.items))
        await RelayRun(
            tally.relay, job, None, queue, self._memory, self._options, _LISTING, part, self._now
        ).run()
        tally.absorb(part)
        mine, others = _packed(part.missing_here), _packed(part.missing_there)
        await self._learn(DifferingIds(others, mine) if side else DifferingIds(mine, others))

    async def _learn(self, only: DifferingIds) -> None:
        """Count the ids that only one side has, and send them to the other."""
        for side, ids in enumerate(only):
            fresh = list(dict.fromkeys(ids))
            if self._seen is not None:
                fresh = [key for key in fresh if key not in self._seen]
                self._seen.update(fresh)
            if fresh:
                await self._lack_there(side, fresh)

    async def _lack_there(self, side: int, ids: Sequence[bytes]) -> None:
        """Send ids that only this side has to the other side, except for those that must wait."""
        source, target = self._tallies[side], self._tallies[1 - side]
        new = NewIds(ids, set(), set())
        if self._goes[side]:
            new = await to_carry(ids, source, target, self._memory)
        if self._mode.keep_ids:
            source.needs(list(new.ids))
            target.haves(list(new.ids))
        else:  # a mirror of millions of events must not keep the ids
            source.need += len(new.ids)
            target.have += len(new.ids)
        if new.ids and (lane := self._lanes.get(1 - side)):
            await lane.put(new)

    def _lack(self, why: str) -> None:
        for tally in self._tallies:
            tally.lacks(why)


def _packed(ids: Sequence[str]) -> Ids:
    return Ids(bytes.fromhex("".join(ids)))
