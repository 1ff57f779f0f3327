"""Proof of the floor: whether a relay compared all it has of a window, or only its newest events.

Some relays answer NIP-77 from a capped or cached snapshot and do not say so (khatru's event store
takes its newest N * 20 events). One REQ at and below the oldest event that the relay is known to
have shows it: a short page of known events proves the floor, an unknown event disproves it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from nostr_client.errors import RelayError
from nostr_client.filters import Filter
from nostr_client.negentropy.matching import Ids
from nostr_client.sync.job import items_of
from nostr_client.sync.windows import Window

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from nostr_client.relay import Relay
    from nostr_client.store.base import EventStore
    from nostr_client.sync.desk import Desk
    from nostr_client.sync.items import Items
    from nostr_client.sync.job import Job
    from nostr_client.sync.mode import Mode
    from nostr_client.sync.options import SyncOptions
    from nostr_client.sync.pages import Pages
    from nostr_client.sync.tally import Tally

_PROBE: Final = 10
"""Events asked for at the floor. An honest relay has one there; a page of ten may be cut."""

_CHUNK: Final = 500
"""Ids looked up at once."""

CAPPED: Final = "it compares only the newest of its events; the older ones were read by REQ"
UNPROVEN: Final = "it is not proven that the relay compared all its events"


@dataclass(slots=True)
class Compared:
    """One window after its session: ids that only we have, and packed ids that only it has."""

    window: Window
    have: dict[bytes, None]
    need: bytearray
    proven: bool = False
    """Whether the relay compared all it has."""


class Floors:
    """See the module; one for each relay. `pages` None: nothing may be read by REQ."""

    def __init__(
        self,
        relay: Relay,
        job: Job,
        desk: Desk,
        store: EventStore | None,
        pages: Pages | None,
        options: SyncOptions,
        mode: Mode,
        tally: Tally,
    ) -> None:
        self._relay = relay
        self._job = job
        self._desk = desk
        self._store = store
        self._pages = pages
        self._options = options
        self._mode = mode
        self._tally = tally

    async def prove_early(self, one: Compared) -> None:
        """Try the proof at the oldest event that both have, while downloads go on.

        A short page of known events proves the floor, wherever below it lies.
        """
        shared = len(unsure_of(one))
        if shared < len(one.window.items):
            try:
                one.proven = await self._is_proven(one, one.window.items.stamp(shared))
            except RelayError:
                return

    async def lacking(self, one: Compared) -> Sequence[bytes]:
        """The ids of a window that the relay lacks; call it when what it named has come.

        What the relay left out of the session is read by REQ, where that is allowed; else the
        tally says that something is not proven. Raises RelayOut, StoreError; safe to cancel.
        """
        if one.proven:
            return list(one.have)
        until = await self._oldest(one)
        if until is None:
            until = one.window.filter.until
        try:
            if await self._is_proven(one, until):
                return list(one.have)
            if self._mode.uploads and not self._mode.downloads:
                return await self._absent(one)
            if self._pages is not None:
                return await self._read_below(self._pages, one, until)
        except RelayError as error:
            self._tally.lacks(f"{UNPROVEN}: {error}")
        else:
            self._tally.lacks(UNPROVEN)
        return list(one.have)

    async def _oldest(self, one: Compared) -> int | None:
        """The time of the oldest event that the relay is known to have; None: none is known."""
        times = await self._needed_times(one) if self._mode.downloads else []
        if (at := len(unsure_of(one))) < len(one.window.items):
            times.append(one.window.items.stamp(at))
        return min(times, default=None)

    async def _needed_times(self, one: Compared) -> list[int]:
        """The oldest time of each chunk of what was downloaded."""
        times: list[int] = []
        needed = Ids(bytes(one.need)).hex()
        for at in range(0, len(needed) if self._store is not None else 0, _CHUNK):
            stamps = (await items_of(self._store, Filter(ids=needed[at : at + _CHUNK]))).stamps
            if len(stamps):
                times.append(int(stamps[0]))
        return times

    async def _is_proven(self, one: Compared, until: int | None) -> bool:
        page = await self._relay.fetch(
            [
                filter.replace(until=until, since=filter.since or 0, limit=_PROBE)
                for filter in self._filters(one.window)
            ]
        )
        old = set(_each(one.window.items.between(one.window.filter.since, until)))
        for event in page.events:
            key = bytes.fromhex(event.event.id)
            here = key in old and key not in one.have
            if not (here or self._desk.names(self._relay.url, key)):
                return False
        return page.frames < _PROBE or (not self._mode.moves and await self._counts(one))

    def _filters(self, window: Window) -> Sequence[Filter]:
        return [window.filter] if window.event_id is None else self._job.filters

    async def _counts(self, one: Compared) -> bool:
        """Whether the relay counts just as many events as it compared."""
        if self._relay.capabilities.count is False or one.window.event_id is not None:
            return False
        answer = await self._relay.count(one.window.filter)
        exact = not (answer.approximate or answer.limited)
        needed = len(set(Ids(bytes(one.need))))
        return exact and answer.count == len(one.window.items) - len(one.have) + needed

    async def _absent(self, one: Compared) -> list[bytes]:
        """Those of our ids that a REQ by ids does not bring."""
        absent = list(one.have)
        size = self._options.batch
        for at in range(0, len(one.have), size):
            asked = [key.hex() for key in list(one.have)[at : at + size]]
            page = await self._relay.fetch(Filter(ids=asked))
            there = {bytes.fromhex(event.event.id) for event in page.events}
            absent = [key for key in absent if key not in there]
        return absent

    async def _read_below(self, pages: Pages, one: Compared, until: int | None) -> Sequence[bytes]:
        """Read by REQ what lies at and below the floor, and take its word for that part."""
        self._tally.remarks[CAPPED] = None
        lacking = dict.fromkeys(one.have)
        for filter in self._filters(one.window):
            below = filter.replace(until=until)
            items = await items_of(self._store, below)
            absent = await pages.read(Window(below, items))
            for key in _each(items):
                lacking.pop(key, None)
            lacking.update(dict.fromkeys(absent or ()))
        return list(lacking)


def unsure_of(one: Compared) -> set[bytes]:
    """Ours below the oldest event that both have: the relay may have them and not compare them."""
    unsure: set[bytes] = set()
    for key in _each(one.window.items):
        if key not in one.have:
            break
        unsure.add(key)
    return unsure


def _each(items: Items) -> Iterator[bytes]:
    """The ids in order, read in small parts."""
    for at in range(0, len(items), _CHUNK):
        yield from Ids(items.packed(at, at + _CHUNK))
