"""A relay's ids by REQ, one stretch of time after the other, so that not all need be held."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nostr_client.sync.items import LocalItems
from nostr_client.sync.pages import count_holes, next_page, tell_gaps, turn_page
from nostr_client.sync.windows import Window
from nostr_client.walk import Walk

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable

    from nostr_client.filters import Filter
    from nostr_client.sync.pages import Found
    from nostr_client.sync.tally import Tally


async def stretches(filter: Filter, size: int, tally: Tally) -> AsyncGenerator[Window]:
    """Windows of about `size` events that the relay of `tally` has, newest first.

    Together they cover the filter's time; what the relay did not give is told to the tally.
    Raises RelayError.
    """
    start, until = filter.since or 0, filter.until
    exclusive = False
    while True:
        walk: Walk[Found] = Walk([filter], start, until, exclusive=exclusive)
        low = await _read(walk, size, tally)
        await count_holes(tally.relay, filter, walk)
        tell_gaps(walk, tally)
        exclusive = walk.exclusive
        if low is None:
            return
        window = filter.replace(since=low or None, until=until)
        yield Window(window, _items(one for one in walk.found.values() if one.created_at >= low))
        if low <= start:
            return
        until = low - 1


async def _read(walk: Walk[Found], size: int, tally: Tally) -> int | None:
    """Walk until so many events are found; from which second on all were read."""
    while (page := await next_page(tally.relay, walk)) is not None:
        turn_page(walk, page)
        tally.moves += 1
        if len(walk.found) >= size and walk.reached is not None:
            return walk.reached
    return None if walk.stalled else walk.reached


def _items(found: Iterable[Found]) -> LocalItems:
    rows = sorted((one.created_at, one.id) for one in found)
    stamps = np.fromiter((stamp for stamp, _ in rows), np.uint64, len(rows))
    ids = np.frombuffer(b"".join(key for _, key in rows), np.uint8)
    return LocalItems(stamps, ids.reshape(len(rows), 32))
