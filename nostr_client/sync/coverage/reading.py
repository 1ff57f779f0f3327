"""Read a filter from one relay within a budget, without NIP-77; or events by id from the store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from nostr_client.codecs.display import plural
from nostr_client.codecs.event import Event
from nostr_client.codecs.filters import Filter
from nostr_client.errors import RelayError
from nostr_client.network.paging.range_reader import Walk
from nostr_client.sync.compare.pages import PagedId, count_holes, next_page, turn_page

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nostr_client.network.relay import Relay
    from nostr_client.options import ReadBudget
    from nostr_client.store.base import EventStore

BATCH: Final = 50
"""Ids in one REQ or query: relays cap filters at 100 to 1,000 values."""


class EventsById(msgspec.Struct, frozen=True):
    """Events by id. `why`: why more events may exist, or "" if these are all."""

    events: dict[str, Event]
    why: str = ""


async def read_held(relay: Relay, filter: Filter, budget: ReadBudget) -> EventsById:
    """Read every event of a filter, to a proven end or to the budget. Safe to cancel."""
    walk: Walk[PagedId] = Walk([filter], filter.since or 0, filter.until)
    events: dict[str, Event] = {}
    received = 0
    try:
        while (page := await next_page(relay, walk)) is not None:
            events.update((one.event.id, one.event) for one in page.events)
            received += page.bytes
            turn_page(walk, page)
            if len(events) > budget.events or received > budget.bytes:
                return EventsById(
                    events, f"the budget was spent after {plural(len(events), 'event')}"
                )
        await count_holes(relay, filter, walk)
    except RelayError as error:
        return EventsById(events, str(error))
    return EventsById(events, _doubt(walk))


def _doubt(walk: Walk[PagedId]) -> str:
    """Return why a reading that ended is not whole, or "" if it is."""
    if walk.complete:
        return ""
    if walk.stalled:
        return walk.stalled
    if walk.holes:
        return "some seconds may hold more events than the relay sends"
    return "some frames of the relay could not be read"


async def stored_events(store: EventStore | None, ids: Sequence[str]) -> dict[str, Event]:
    """Return the events of these ids that the store has. Raises StoreError. Safe to cancel."""
    if store is None:
        return {}
    found: dict[str, Event] = {}
    for at in range(0, len(ids), BATCH):
        found |= {one.id: one for one in await store.query([Filter(ids=ids[at : at + BATCH])])}
    return found
