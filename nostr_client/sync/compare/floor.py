"""Find events that a relay left out of its NIP-77 sessions, and read them by REQ.

Some relays answer NIP-77 from a capped or cached snapshot and do not say so (khatru's event store
takes its newest N * 20 events). `network.paging.snapshot` asks the relay and judges the answer.
This module finds the floor of a window. If the floor is not proven, it reads the events below the
floor.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from nostr_client.codecs.filters import Filter
from nostr_client.errors import RelayError
from nostr_client.negentropy.matching import Ids
from nostr_client.network.paging.snapshot import Edge, prove_floor, up_to
from nostr_client.sync.compare.windows import SyncWindow
from nostr_client.sync.job import items_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from nostr_client.network.paging.snapshot import Proof
    from nostr_client.network.relay import Relay
    from nostr_client.store.base import EventStore
    from nostr_client.sync.compare.items import Items
    from nostr_client.sync.compare.pages import Pages
    from nostr_client.sync.job import SyncJob
    from nostr_client.sync.options import Mode, SyncOptions
    from nostr_client.sync.tally import RelayTally

_CHUNK: Final = 500
"""Ids to look up at once."""

PROBED: Final = 50
"""Ids of one REQ that tests which ids are absent.

A relay that sends fewer would seem to lack them.
"""

CAPPED: Final = "it compares only the newest of its events; the older ones were read by REQ"
UNPROVEN: Final = "it is not proven that the relay compared all its events"


@dataclass(slots=True)
class WindowResult:
    """One window after its session: ids that only we have, and packed ids of the relay alone."""

    window: SyncWindow
    have: dict[bytes, None]
    need: bytearray
    shared: Edge | None = None
    """The oldest second with an event that both sides have, and these events.

    None: no such event.
    """
    early: Proof | None = None
    """Result of the REQ at `shared`."""

    def close(self) -> None:
        """Find `shared`, after the session is over."""
        items = self.window.items
        at = next((at for at, key in enumerate(_each(items)) if key not in self.have), None)
        if at is not None:
            second = items.stamp(at)
            there = _each(items.between(second, second))
            self.shared = Edge(second, frozenset(key for key in there if key not in self.have))

    @property
    def unsure(self) -> set[bytes]:
        """Our ids up to the shared second. The relay may have them and not compare them."""
        if self.shared is None:
            return set(self.have)
        old = self.window.items.between(None, self.shared.second)
        return {key for key in _each(old) if key in self.have}


class Floors:
    """Floors of one relay's windows. `pages` is None if nothing may be read by REQ."""

    def __init__(
        self,
        relay: Relay,
        job: SyncJob,
        store: EventStore | None,
        pages: Pages | None,
        options: SyncOptions,
        mode: Mode,
        tally: RelayTally,
    ) -> None:
        self._relay = relay
        self._job = job
        self._store = store
        self._pages = pages
        self._options = options
        self._mode = mode
        self._tally = tally

    async def prove_early(self, one: WindowResult) -> None:
        """Try the proof at the oldest event that both have, while downloads go on.

        A short page of known events proves the floor, at any second below.
        """
        if one.shared is not None:
            try:
                one.early = await self._prove(one, one.shared)
            except RelayError:
                return

    async def lacking(self, one: WindowResult) -> Sequence[bytes]:
        """Return the ids of a window that the relay lacks. Call it after the named events have
        come.

        Events that the relay left out of the session are read by REQ, if that is allowed. Otherwise
        the tally notes that the comparison is not proven. Raises RelayOut, StoreError. Safe to
        cancel.
        """
        if one.early is not None and one.early.proven:
            return list(one.have)
        floor = await self._floor(one)
        try:
            proof = await self._proof(one, floor)
            if proof.proven or await self._counts(one, proof):
                return list(one.have)
            if self._mode.uploads and not self._mode.downloads:
                return await self._absent(one)
            if self._pages is not None:
                return await self._read_below(self._pages, one, floor, proof)
            self._tally.lacks(f"{UNPROVEN}: {proof.why}" if proof.why else UNPROVEN)
        except RelayError as error:
            self._tally.lacks(f"{UNPROVEN}: {error}")
        return list(one.have)

    async def _proof(self, one: WindowResult, floor: Edge | None) -> Proof:
        """Return the early proof if it is decisive, else the proof at the floor."""
        early = one.early
        if early is not None and not early.failed and (early.beyond or floor == one.shared):
            return early
        return await self._prove(one, floor)

    async def _prove(self, one: WindowResult, floor: Edge | None) -> Proof:
        needed = frozenset(Ids(bytes(one.need)))
        return await prove_floor(self._relay, self._filters(one.window), floor, needed=needed)

    async def _floor(self, one: WindowResult) -> Edge | None:
        """Return the oldest edge of the events that the relay surely has, or None without a known
        time.
        """
        edges = await self._needed_edges(one) if self._mode.downloads else []
        return Edge.oldest([one.shared, *edges])

    async def _needed_edges(self, one: WindowResult) -> list[Edge]:
        """Return the oldest edges of downloaded events, one for each read of the store."""
        needed = set(Ids(bytes(one.need)))
        if len(needed) <= _CHUNK:
            asked: Sequence[Filter] = [Filter(ids=[key.hex() for key in needed])]
        else:  # reading a range in order costs a third of as many look-ups
            until = one.window.filter.until if one.shared is None else one.shared.second
            whole = self._filters(one.window)
            asked = [each if until is None else up_to(each, until) for each in whole]
        edges: list[Edge] = []
        for filter in asked if needed and self._store is not None else ():
            items = await items_of(self._store, filter)
            at = next((at for at, key in enumerate(_each(items)) if key in needed), None)
            if at is not None:
                second = items.stamp(at)
                there = _each(items.between(second, second))
                edges.append(Edge(second, frozenset(needed.intersection(there))))
        return edges

    def _filters(self, window: SyncWindow) -> Sequence[Filter]:
        return [window.filter] if window.event_id is None else self._job.filters

    async def _counts(self, one: WindowResult, proof: Proof) -> bool:
        """Return True if the relay counts as many events as it compared.

        Only asked if nothing moves.
        """
        if self._mode.moves or proof.beyond:
            return False
        if self._relay.capabilities.count is False or one.window.event_id is not None:
            return False
        try:
            answer = await self._relay.count(one.window.filter)
        except RelayError:
            return False
        exact = not (answer.approximate or answer.limited)
        needed = len(set(Ids(bytes(one.need))))
        return exact and answer.count == len(one.window.items) - len(one.have) + needed

    async def _absent(self, one: WindowResult) -> list[bytes]:
        """Return those of our ids that a REQ by ids does not bring."""
        absent = list(one.have)
        size = min(PROBED, self._options.batch)
        for at in range(0, len(one.have), size):
            asked = [key.hex() for key in list(one.have)[at : at + size]]
            page = await self._relay.fetch(Filter(ids=asked))
            there = {bytes.fromhex(event.event.id) for event in page.events}
            absent = [key for key in absent if key not in there]
        return absent

    async def _read_below(
        self, pages: Pages, one: WindowResult, floor: Edge | None, proof: Proof
    ) -> Sequence[bytes]:
        """Read events at and below the floor by REQ. For this part, the REQ decides what is
        missing.

        The second above is read too, because a relay may leave out the second of `until`.
        """
        if proof.beyond:
            self._tally.remarks[CAPPED] = None
        lacking = dict.fromkeys(one.have)
        until = one.window.filter.until if floor is None else floor.second + 1
        named = set(Ids(bytes(one.need))).union(
            key for key in _each(one.window.items.between(None, until)) if key not in one.have
        )
        for filter in self._filters(one.window):
            below = filter if until is None else up_to(filter, until)
            items = await self._held(one.window, below)
            absent = await pages.read(SyncWindow(below, items))
            for key in _each(items):
                lacking.pop(key, None)
            lacking.update(dict.fromkeys(key for key in absent or () if key not in named))
        return list(lacking)

    async def _held(self, window: SyncWindow, below: Filter) -> Items:
        """Return our items in a part of a window. Without a store, take the items of the window."""
        if self._store is None:
            return window.items.between(below.since, below.until)
        return await items_of(self._store, below)


def _each(items: Items) -> Iterator[bytes]:
    """Yield the ids in order, read in small parts."""
    for at in range(0, len(items), _CHUNK):
        yield from Ids(items.packed(at, at + _CHUNK))
