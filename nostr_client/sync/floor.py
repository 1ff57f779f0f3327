"""What a relay left out of its NIP-77 sessions: windows whose floor is not proven, read by REQ.

Some relays answer NIP-77 from a capped or cached snapshot and do not say so (khatru's event store
takes its newest N * 20 events). `network.paging.snapshot` asks the question and judges the answer;
this module finds the floor of a window, and reads what lies below where it is not proven.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from nostr_client.codecs.filters import Filter
from nostr_client.errors import RelayError
from nostr_client.negentropy.matching import Ids
from nostr_client.network.paging.snapshot import Edge, prove_floor, up_to
from nostr_client.sync.job import items_of
from nostr_client.sync.windows import SyncWindow

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from nostr_client.network.paging.snapshot import Proof
    from nostr_client.network.relay import Relay
    from nostr_client.store.base import EventStore
    from nostr_client.sync.items import Items
    from nostr_client.sync.job import SyncJob
    from nostr_client.sync.options import Mode, SyncOptions
    from nostr_client.sync.pages import Pages
    from nostr_client.sync.tally import RelayTally

_CHUNK: Final = 500
"""Ids looked up at once."""

PROBED: Final = 50
"""Ids of one REQ that proves which are absent: a relay that sends less would seem to lack them."""

CAPPED: Final = "it compares only the newest of its events; the older ones were read by REQ"
UNPROVEN: Final = "it is not proven that the relay compared all its events"


@dataclass(slots=True)
class WindowResult:
    """One window after its session: ids that only we have, and packed ids that only it has."""

    window: SyncWindow
    have: dict[bytes, None]
    need: bytearray
    shared: Edge | None = None
    """The oldest second in which both have an event, and those events; None: none is shared."""
    early: Proof | None = None
    """What the REQ at `shared` showed."""

    def close(self) -> None:
        """Find `shared`, when the session is over."""
        items = self.window.items
        at = next((at for at, key in enumerate(_each(items)) if key not in self.have), None)
        if at is not None:
            second = items.stamp(at)
            there = _each(items.between(second, second))
            self.shared = Edge(second, frozenset(key for key in there if key not in self.have))

    @property
    def unsure(self) -> set[bytes]:
        """Ours up to the shared second: the relay may have them and not compare them."""
        if self.shared is None:
            return set(self.have)
        old = self.window.items.between(None, self.shared.second)
        return {key for key in _each(old) if key in self.have}


class Floors:
    """See the module; one for each relay. `pages` None: nothing may be read by REQ."""

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

        A short page of known events proves the floor, wherever below it lies.
        """
        if one.shared is not None:
            try:
                one.early = await self._prove(one, one.shared)
            except RelayError:
                return

    async def lacking(self, one: WindowResult) -> Sequence[bytes]:
        """The ids of a window that the relay lacks; call it when what it named has come.

        What the relay left out of the session is read by REQ, where that is allowed; else the
        tally says that something is not proven. Raises RelayOut, StoreError; safe to cancel.
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
        """The early proof where it decides already, else the proof at the floor."""
        early = one.early
        if early is not None and not early.failed and (early.beyond or floor == one.shared):
            return early
        return await self._prove(one, floor)

    async def _prove(self, one: WindowResult, floor: Edge | None) -> Proof:
        needed = frozenset(Ids(bytes(one.need)))
        return await prove_floor(self._relay, self._filters(one.window), floor, needed=needed)

    async def _floor(self, one: WindowResult) -> Edge | None:
        """The oldest edge of what the relay is known to have; None: no time is known."""
        edges = await self._needed_edges(one) if self._mode.downloads else []
        return Edge.oldest([one.shared, *edges])

    async def _needed_edges(self, one: WindowResult) -> list[Edge]:
        """The oldest edges of what was downloaded, one of each read of the store."""
        needed = set(Ids(bytes(one.need)))
        if len(needed) <= _CHUNK:
            asked: Sequence[Filter] = [Filter(ids=[key.hex() for key in needed])]
        else:  # reading a span in order costs a third of as many look-ups
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
        """Whether the relay counts as many events as it compared; asked where nothing moves."""
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
        """Those of our ids that a REQ by ids does not bring."""
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
        """Read by REQ what lies at and below the floor, and take its word for that part.

        The second above is read too, as a relay may leave out the second of `until`.
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
        """What is held of a part of a window; without a store it is what the window began with."""
        if self._store is None:
            return window.items.between(below.since, below.until)
        return await items_of(self._store, below)


def _each(items: Items) -> Iterator[bytes]:
    """The ids in order, read in small parts."""
    for at in range(0, len(items), _CHUNK):
        yield from Ids(items.packed(at, at + _CHUNK))
