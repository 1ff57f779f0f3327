"""List the ids of all events that one relay has for a query, by NIP-77 and within a budget.

An id costs 64 bytes on the wire, an event some 500. A relay that compares only a limited number of
events at once is asked by time windows. It may answer from a snapshot with only its newest events,
or from an old one, so both ends are proven: by a COUNT of the same number, or by a REQ for the
newest events and one at the oldest id of each window (`snapshot.prove_floor`) that return nothing
beyond the list. Ids that a relay named before and omits now are requested by id, as an id is gone
only if a REQ by ids does not return it. Omissions in the middle of a list stay invisible if the id
was never known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from nostr_client.count.reading.comparing import compare
from nostr_client.errors import RelayError
from nostr_client.network.paging.by_id import events_by_id
from nostr_client.network.paging.snapshot import Edge, prove_floor
from nostr_client.sync.compare.initiator import RefusalKind
from nostr_client.sync.compare.items import no_items
from nostr_client.sync.compare.windows import SyncWindow, halve

if TYPE_CHECKING:
    from collections.abc import Collection

    from nostr_client.codecs.filters import Filter
    from nostr_client.codecs.keys import VerifiedEvent
    from nostr_client.count.queries import Query
    from nostr_client.count.reading.comparing import Differences
    from nostr_client.network.relay import Relay
    from nostr_client.options import ReadBudget

ID_BYTES: Final = 64
"""Bytes of one id on the wire, as hex."""

_TOP: Final = 3
"""Events of the page at the upper end: room for events since the session."""

MOST_SESSIONS: Final = 256
"""Sessions of one list: a relay that compares 500 events at once is listed up to the budget."""

_MOST_LEFT_OUT: Final = 1_000
"""Ids requested because the list omits them: ten REQs. If more are gone, the events are read by
pages."""


class NamedIds(NamedTuple):
    """What a relay named, and what arrived since. `whole`: it is proven from the newest to the
    oldest.

    `full`: the budget ended the list, so it is partial. `events` came with the proof. `traffic`:
    bytes of ids and events.
    """

    ids: frozenset[bytes]
    whole: bool
    full: bool
    events: tuple[VerifiedEvent, ...]
    traffic: int


async def list_ids(
    relay: Relay,
    query: Query,
    *,
    budget: ReadBudget,
    reported: int | None,
    silence: float,
    now: int,
    before: Collection[bytes] = (),
) -> NamedIds | None:
    """Return the ids that a relay names, all of them or as many as the budget allows; None: it
    cannot.

    `reported`: the relay's own exact count. `silence`: seconds between its messages. `now`: Unix
    seconds. `before`: ids that it named before. Safe to cancel.
    """
    lister = _Lister(relay, budget, silence, now)
    for one in query.filters:
        if not await lister.run(one.replace(limit=None)):
            return None
    return await lister.named(reported if len(query.filters) == 1 else None, before)


class _Lister:
    """The windows of one relay, and the ids that it named in each."""

    def __init__(self, relay: Relay, budget: ReadBudget, silence: float, now: int) -> None:
        self._relay = relay
        self._most = min(budget.events, budget.bytes // ID_BYTES)
        self._silence = silence
        self._now = now
        self._asked: list[Filter] = []
        self._ids: set[bytes] = set()
        self._parts: list[tuple[Filter, Differences]] = []
        self._events: list[VerifiedEvent] = []
        self._traffic = 0
        self._full = False

    async def run(self, asked: Filter) -> bool:
        """List one filter, the newest window first; return False if the relay cannot."""
        self._asked.append(asked)
        windows = [SyncWindow(asked, no_items())]
        for _ in range(MOST_SESSIONS):
            if self._full or not windows:
                return True
            window = windows.pop()
            most = self._most - len(self._ids)
            found = await compare(self._relay, window.filter, {}, most=most, silence=self._silence)
            if found.full or found.refusal is None:
                self._take(window.filter, found)
                continue
            smaller = halve(window, self._now) if found.refusal.kind is RefusalKind.OVERFLOW else []
            if not smaller:
                return False
            windows += smaller
        return not windows

    def _take(self, asked: Filter, found: Differences) -> None:
        room = self._most - len(self._ids)
        self._ids.update([key for key in found.need if key not in self._ids][:room])
        self._traffic += ID_BYTES * len(found.need)
        self._parts.append((asked, found))
        self._full = self._full or found.full

    async def named(self, reported: int | None, before: Collection[bytes]) -> NamedIds:
        """Return the list, with the proof that it is everything."""
        whole = not self._full and await self._look_for(before)
        if whole and not (self._ids and len(self._ids) == reported):
            for asked, found in self._parts:
                whole = await self._reaches_down(asked, found) and whole
            for asked in self._asked if self._ids else ():  # else the floor asked for anything
                whole = whole and await self._reaches_up(asked)
        return NamedIds(frozenset(self._ids), whole, self._full, tuple(self._events), self._traffic)

    async def _look_for(self, before: Collection[bytes]) -> bool:
        """Ask by id for what the list omits: ids that arrive exist, and the rest are gone."""
        left = [key for key in before if key not in self._ids]
        if len(left) > _MOST_LEFT_OUT:
            return False
        try:
            found = await events_by_id(self._relay, left)
        except RelayError:
            return False
        fitting = [one for one in found.events if any(f.matches(one.event) for f in self._asked)]
        self._events += fitting
        self._ids.update(bytes.fromhex(one.event.id) for one in fitting)
        self._traffic += found.bytes
        return not found.unread

    async def _reaches_up(self, asked: Filter) -> bool:
        """Whether the newest events are in the list, or newer than one that is: these are added."""
        try:
            page = await self._relay.fetch([asked.replace(limit=_TOP, since=asked.since or 0)])
        except RelayError:
            return False
        self._events += page.events
        self._traffic += page.bytes
        times = {bytes.fromhex(one.event.id): one.event.created_at for one in page.events}
        newest = max((at for key, at in times.items() if key in self._ids), default=None)
        above = [at for key, at in times.items() if key not in self._ids]
        self._ids |= times.keys()
        seen = not above or (newest is not None and min(above) >= newest)
        return seen and not page.malformed

    async def _reaches_down(self, asked: Filter, found: Differences) -> bool:
        """Whether the relay has nothing in a window that it did not name."""
        try:
            floor = await self._floor(found)
            if found.need and floor is None:
                return False  # it does not send what it named
            proof = await prove_floor(self._relay, asked, floor, needed=found.need.keys())
        except RelayError:
            return False
        self._events += proof.beyond
        self._traffic += proof.bytes
        return proof.proven

    async def _floor(self, found: Differences) -> Edge | None:
        """Return the second of the first id: a list usually goes from the oldest to the newest."""
        first = next(iter(found.need), None)
        if first is None:
            return None
        came = await events_by_id(self._relay, [first])
        self._events += came.events
        self._traffic += came.bytes
        times = [(one.event.created_at, bytes.fromhex(one.event.id)) for one in came.events]
        return Edge.lowest(times)
