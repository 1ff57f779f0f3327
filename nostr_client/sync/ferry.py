"""Events that pass from one relay to another: asked by id, verified, and handed over."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from nostr_client.errors import RelayError
from nostr_client.filters import Filter
from nostr_client.sync.tally import RelayOut, Tally
from nostr_client.sync.uploads import Uploads

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nostr_client.event import Event
    from nostr_client.keys import VerifiedEvent
    from nostr_client.relay import Relay
    from nostr_client.sync.memory import SyncMemory
    from nostr_client.sync.options import SyncOptions
    from nostr_client.sync.sharing import Sharing

_WAITING: Final = 5_000
"""Ids that wait for the way over before comparing waits for them."""


class Ferry:
    """Gives the events of ids from one relay, for `Uploads` to another; counts into `tally`."""

    def __init__(self, source: Relay, options: SyncOptions, tally: Tally) -> None:
        self._source = source
        self._options = options
        self._tally = tally

    async def query(self, filters: Sequence[Filter]) -> list[Event]:
        """The events that the source sends; what it does not send is counted. Raises RelayOut."""
        wanted = [id_ for one in filters for id_ in one.ids or ()]
        found: dict[str, Event] = {}
        for at in range(0, len(wanted), self._options.batch):
            await self._fetch(wanted[at : at + self._options.batch], found)
        self._tally.downloaded += len(found)
        self._hides(len(wanted) - len(found))
        return list(found.values())

    async def _fetch(self, ids: Sequence[str], found: dict[str, Event]) -> None:
        """Ask until a REQ brings nothing: relays cap what one gets."""
        left = list(ids)
        before = len(left) + 1
        while 0 < len(left) < before:
            before = len(left)
            found |= {one.event.id: one.event for one in await self._page(left)}
            left = [id_ for id_ in left if id_ not in found]

    async def _page(self, ids: Sequence[str]) -> Sequence[VerifiedEvent]:
        asked = Filter(ids=ids)
        for _ in range(self._options.tries):
            try:
                page = await self._source.fetch(asked, self._options.progress)
            except RelayError as error:
                why = str(error)
                await asyncio.sleep(self._options.pause)
                continue
            return page.events
        self._tally.lacks(f"downloads: {why}")
        raise RelayOut(f"nothing more comes from {self._source.url}")

    def _hides(self, count: int) -> None:
        tally = self._tally
        tally.hidden += count
        if tally.hidden > self._options.unsent + 4 * tally.downloaded:
            tally.lacks(f"it named {tally.hidden} ids and sent none of their events")
            raise RelayOut(f"too little comes from {self._source.url}")


class Lane:
    """The way from one relay to another; `put` ids, `finish`, and `run` ends when all is over."""

    def __init__(
        self,
        source: Tally,
        target: Tally,
        memory: SyncMemory,
        options: SyncOptions,
        sharing: Sharing,
    ) -> None:
        self._target = target
        ferry = Ferry(source.relay, options, source)
        self._uploads = Uploads(target.relay, ferry, memory, options, target, sharing)

    async def put(self, ids: Sequence[bytes]) -> None:
        """The target lacks these; waits while many others do."""
        await self._uploads.room(_WAITING)
        self._uploads.put(ids)

    def finish(self) -> None:
        """No more will be put."""
        self._uploads.finish()

    async def run(self) -> None:
        """Carry until all is settled; what failed stands in the tallies."""
        try:
            await self._uploads.run()
        except* RelayOut as errors:
            self._target.lacks("; ".join(dict.fromkeys(str(one) for one in errors.exceptions)))
