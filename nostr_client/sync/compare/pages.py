"""Read a window by REQ, page by page, if negentropy cannot compare it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from nostr_client.codecs.display import plural
from nostr_client.errors import RelayError, RelayRefused
from nostr_client.network.paging.range_reader import Walk
from nostr_client.store.base import SaveOutcome
from nostr_client.sync.compare.items import LocalItems
from nostr_client.sync.compare.windows import SyncWindow

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Container, Iterable, Sequence

    from nostr_client.codecs.filters import Filter
    from nostr_client.codecs.keys import VerifiedEvent
    from nostr_client.network.ingest import Ingest
    from nostr_client.network.paging.page import EventPage
    from nostr_client.network.relay import Relay
    from nostr_client.sync.download_queue import DownloadQueue
    from nostr_client.sync.tally import RelayTally


MOST_COUNTS: Final = 8
"""Most COUNTs for one window. Dense seconds are rare, and a hostile relay can invent them."""


class PagedId(NamedTuple):
    """An event from a page. `id` has 32 raw bytes."""

    created_at: int
    id: bytes


def _found(one: VerifiedEvent) -> PagedId:
    return PagedId(one.event.created_at, bytes.fromhex(one.event.id))


async def next_page(relay: Relay, walk: Walk[PagedId]) -> EventPage | None:
    """Return the page that a walk asks for, or None at its end. Raises RelayError.

    A page may take minutes. Connecting must not, so a relay that refuses a connection is not waited
    for.
    """
    asked = walk.ask()
    if asked is None:
        return None
    await relay.connect()
    return await relay.fetch(asked, partial=True)


def turn_page(walk: Walk[PagedId], page: EventPage) -> None:
    """Pass a page to the walk. Raises the page's RelayError if the walk cannot go on."""
    if page.error is None:
        walk.take([_found(one) for one in page.events], page.sent)
    elif not (isinstance(page.error, RelayRefused) and walk.refuse()):
        raise page.error


async def count_holes(relay: Relay, filter: Filter, walk: Walk[PagedId]) -> None:
    """Ask the relay how many events the seconds have that its pages may not show completely."""
    if relay.capabilities.count is False:
        return
    for second in sorted(walk.holes)[-MOST_COUNTS:]:
        try:
            answer = await relay.count(filter.replace(since=second, until=second, limit=None))
        except RelayError:
            return
        if not (answer.approximate or answer.limited):
            walk.counted(second, answer.count)


def gaps(walk: Walk[PagedId]) -> list[str]:
    """Return texts for people about the parts that the walk could not read."""
    found = []
    if walk.unread:
        found.append(f"{plural(walk.unread, 'frame')} of the relay could not be read")
    if walk.holes:
        seconds = plural(len(walk.holes), "second")
        found.append(f"{seconds} may hold more events than the relay sends")
    if walk.stalled:
        found.append(walk.stalled)
    return found


def report_gaps(walk: Walk[PagedId], tally: RelayTally) -> None:
    """Note the parts that the walk could not read in the tally."""
    for gap in gaps(walk):
        tally.lacks(gap)


class Pages:
    """Reads windows by REQ. `ingest` stores new events. Without it they are only counted."""

    def __init__(
        self, relay: Relay, queue: DownloadQueue, ingest: Ingest | None, tally: RelayTally
    ) -> None:
        self._relay = relay
        self._queue = queue
        self._ingest = ingest
        self._tally = tally

    async def read(self, window: SyncWindow) -> list[bytes] | None:
        """Read the window to its end. Return the local ids that the relay did not send.

        Return None if the window could not be read completely. The tally then has the reason.
        Raises RelayError.
        """
        walk: Walk[PagedId] = Walk([window.filter], window.filter.since or 0, window.filter.until)
        local = window.items.packed()
        held = dict.fromkeys(local[at : at + 32] for at in range(0, len(local), 32))
        while (page := await next_page(self._relay, walk)) is not None:
            await self._take(page, (walk.found, held))
            turn_page(walk, page)
        await count_holes(self._relay, window.filter, walk)
        report_gaps(walk, self._tally)
        if not walk.complete:
            return None
        return [key for key in held if key not in walk.found]

    async def _take(self, page: EventPage, seen: Sequence[Container[bytes]]) -> None:
        """Store events that are new and in none of `seen`."""
        keys = {one.event.id: bytes.fromhex(one.event.id) for one in page.events}
        fresh = [key for key in keys.values() if not any(key in one for one in seen)]
        lacking = set(await self._queue.met(self._relay.url, fresh))
        self._tally.needs(list(lacking))
        if self._ingest is not None:
            new = [one for one in page.events if keys[one.event.id] in lacking]
            results = await self._ingest.save(new, self._relay.url)
            outcomes = [one for one in results if isinstance(one, SaveOutcome)]
            self._tally.saves(outcomes)
            await self._queue.declined(self._queue.saved(outcomes))


async def time_windows(filter: Filter, size: int, tally: RelayTally) -> AsyncGenerator[SyncWindow]:
    """Yield windows of about `size` events that the relay of `tally` has, newest first.

    Together they cover the filter's time range. The tally notes events that the relay did not give.
    Raises RelayError.
    """
    start, until = filter.since or 0, filter.until
    exclusive = False
    while True:
        walk: Walk[PagedId] = Walk([filter], start, until, exclusive=exclusive)
        low = await _read(walk, size, tally)
        await count_holes(tally.relay, filter, walk)
        report_gaps(walk, tally)
        exclusive = walk.exclusive
        if low is None:
            return
        window = filter.replace(since=low or None, until=until)
        yield SyncWindow(
            window, _items(one for one in walk.found.values() if one.created_at >= low)
        )
        if low <= start:
            return
        until = low - 1


async def _read(walk: Walk[PagedId], size: int, tally: RelayTally) -> int | None:
    """Walk until `size` events are found. Return the second from which all events were read."""
    while (page := await next_page(tally.relay, walk)) is not None:
        turn_page(walk, page)
        tally.moves += 1
        if len(walk.found) >= size and walk.reached is not None:
            return walk.reached
    return None if walk.stalled else walk.reached


def _items(found: Iterable[PagedId]) -> LocalItems:
    rows = sorted((one.created_at, one.id) for one in found)
    stamps = np.fromiter((stamp for stamp, _ in rows), np.uint64, len(rows))
    ids = np.frombuffer(b"".join(key for _, key in rows), np.uint8)
    return LocalItems(stamps, ids.reshape(len(rows), 32))
