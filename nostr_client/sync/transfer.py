"""Carry events from one relay to another: ask by id, verify, and upload."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple

from nostr_client.codecs.display import plural
from nostr_client.codecs.filters import Filter
from nostr_client.errors import ProtocolError, RelayError
from nostr_client.sync.memory import BROKE, NOT_SENT, SETTLED, UNASKED, Side, place_of
from nostr_client.sync.tally import RelayOut, RelayTally
from nostr_client.sync.uploads import Uploads

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from nostr_client.codecs.event import Event
    from nostr_client.network.paging.page import EventPage
    from nostr_client.sync.memory import RefusalNote, SyncMemory
    from nostr_client.sync.options import SyncOptions
    from nostr_client.sync.sharing import Sharing

_WAITING: Final = 5_000
"""Most ids that wait for the transfer before the comparison waits."""


class RelayEvents:
    """Source of one relay's events for `Uploads` to another relay. Counts into `tally`.

    Events that the relay does not send are remembered. `due`: ids that it did not send before, and
    that are due for another try.
    """

    def __init__(
        self,
        tally: RelayTally,
        memory: SyncMemory,
        options: SyncOptions,
        filters: Sequence[Filter],
    ) -> None:
        self._source = tally.relay
        self._place = place_of(tally.relay)
        self._memory = memory
        self._options = options
        self._tally = tally
        self._filters = filters
        self.due: set[bytes] = set()

    async def query(self, filters: Sequence[Filter]) -> list[Event]:
        """Return the events that the source sends. Counts the others. Raises RelayOut."""
        wanted = [id_ for one in filters for id_ in one.ids or ()]
        found: dict[str, Event] = {}
        broke: set[str] = set()
        for at in range(0, len(wanted), self._options.batch):
            broke |= await self._fetch(wanted[at : at + self._options.batch], found)
        fitting = {
            id_: one for id_, one in found.items() if any(f.matches(one) for f in self._filters)
        }
        self._tally.downloaded += len(fitting)
        await self._came(fitting)
        missing = {
            bytes.fromhex(id_): UNASKED if id_ in found else BROKE if id_ in broke else NOT_SENT
            for id_ in wanted
            if id_ not in fitting
        }
        await self._hides(missing)
        return list(fitting.values())

    async def _came(self, ids: Iterable[str]) -> None:
        """Forget that events with these ids did not come before."""
        moved = self.due.intersection(map(bytes.fromhex, ids))
        if moved:
            await self._memory.forget(self._place, Side.DOWN, moved)

    async def _fetch(self, ids: Sequence[str], found: dict[str, Event]) -> set[str]:
        """Ask until a REQ brings nothing, because relays cap the answer of one REQ.

        Returns the ids that were asked for when a frame of the relay ended the connection.
        """
        left = list(ids)
        before = len(left) + 1
        while 0 < len(left) < before:
            before = len(left)
            page = await self._page(left)
            found |= {one.event.id: one.event for one in page.events}
            left = [id_ for id_ in left if id_ not in found]
            if page.error is not None:
                return set(left)
        return set()

    async def _page(self, ids: Sequence[str]) -> EventPage:
        """Send one REQ. `error` is set if a frame ended the connection. Raises RelayOut."""
        asked, why = Filter(ids=ids), ""
        for _ in range(self._options.tries):
            try:
                page = await self._source.fetch(asked, self._options.progress, partial=True)
            except RelayError as error:
                why = str(error)
            else:
                if page.error is None or isinstance(page.error, ProtocolError):
                    return page
                why = str(page.error)
            await asyncio.sleep(self._options.pause)
        self._tally.lacks(f"downloads: {why}")
        raise RelayOut(f"nothing more comes from {self._source.url}")

    async def _hides(self, notes: Mapping[bytes, RefusalNote]) -> None:
        if not notes:
            return
        tally = self._tally
        await self._memory.note(self._place, Side.DOWN, notes, self._options)
        tally.withholds(notes.values())
        if tally.hidden - tally.skipped > self._options.unsent + 4 * tally.downloaded:
            tally.lacks(f"it named {plural(tally.hidden, 'id')} and sent no event of these")
            raise RelayOut(f"too little comes from {self._source.url}")


class NewIds(NamedTuple):
    """Ids to carry. The sets have ids that failed before, and that are due for another try."""

    ids: Sequence[bytes]
    withheld_before: set[bytes]
    refused_before: set[bytes]


async def to_carry(
    ids: Sequence[bytes], source: RelayTally, target: RelayTally, memory: SyncMemory
) -> NewIds:
    """Return the ids to carry now. The tallies count those that must wait."""
    up = await memory.recall(place_of(target.relay), Side.UP, ids)
    target.skips(up.waiting.values())
    left = [key for key in ids if key not in up.waiting]
    down = await memory.recall(place_of(source.relay), Side.DOWN, left)
    notes = [note for note in down.waiting.values() if note.verdict not in SETTLED]
    source.withholds(notes, skipped=True)
    return NewIds([key for key in left if key not in down.waiting], down.due, up.due)


class TransferLane:
    """Lane from one relay to another.

    `put` ids and call `finish`. `run` ends when all is settled.
    """

    def __init__(
        self,
        source: RelayTally,
        target: RelayTally,
        memory: SyncMemory,
        options: SyncOptions,
        sharing: Sharing,
    ) -> None:
        self._target = target
        self._source = RelayEvents(source, memory, options, sharing.filters)
        self._uploads = Uploads(target.relay, self._source, memory, options, target, sharing)

    async def put(self, new: NewIds) -> None:
        """Add ids that the target lacks. Waits while many ids wait."""
        await self._uploads.room(_WAITING)
        self._source.due |= new.withheld_before
        self._uploads.due |= new.refused_before
        self._uploads.put(new.ids)

    def finish(self) -> None:
        """Note that no more ids come."""
        self._uploads.finish()

    async def run(self) -> None:
        """Carry until all is settled. The tallies have the failures."""
        try:
            await self._uploads.run()
        except* RelayOut as errors:
            self._target.lacks("; ".join(dict.fromkeys(str(one) for one in errors.exceptions)))
        await self._uploads.note_unsettled()
