"""Find the events that no repair moves: protected by their author (NIP-70), or expired (NIP-40).

A relay need not have these events, so they are no gaps. The id of an event does not show this. So
some events that a relay lacks are looked up in the store, then on the relays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from nostr_client.codecs.private_kinds import is_protected, reposts_protected
from nostr_client.store.rules import expiration
from nostr_client.sync.coverage.reading import stored_events
from nostr_client.sync.coverage.sampling import fetched

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nostr_client.codecs.event import Event
    from nostr_client.network.relay import Relay
    from nostr_client.store.base import EventStore
    from nostr_client.sync.coverage.matrix import Coverage

MOST: Final = 50
"""Most events that one comparison downloads for this, about 30 kB.

If more events are missing, none is downloaded. The relay's share is low in any case.
"""

_MOST_STORED: Final = 5_000
"""Most events that one comparison reads in the store for this."""


class UnreadId(NamedTuple):
    """An event that some relay lacks, and the relays that have it."""

    id: str
    holders: Sequence[str]


def is_kept_back(event: Event) -> bool:
    """Return True if an author keeps an event on the relays that the author chose (NIP-70)."""
    return is_protected(event) or reposts_protected(event)


def is_expired(event: Event, now: int) -> bool:
    """Return True if an event had expired (NIP-40) at a time, in Unix seconds."""
    ends = expiration(event)
    return ends is not None and ends <= now


def stays(event: Event, now: int) -> bool:
    """Return True if no repair moves an event."""
    return is_kept_back(event) or is_expired(event, now)


def unread(coverage: Coverage) -> list[UnreadId]:
    """Return the events that relays lack and of which only the id is known, in a stable order."""
    cells = [cell for row in coverage.cells.values() for cell in row.values()]
    read = frozenset(coverage.events).union(*(one.held for one in cells if one.by == "events"))
    ids: set[str] = set()
    for relay in coverage.relays:
        for kind in coverage.kinds:
            ids |= coverage.lacking(relay, kind) or frozenset()
    return [UnreadId(one, coverage.holders(one)) for one in sorted(ids - read)]


async def looked_up(
    gaps: Sequence[UnreadId], relays: Mapping[str, Relay], store: EventStore | None
) -> list[Event]:
    """Return events of gaps: those in the store, and the others if they are few.

    `relays`: by the name in `UnreadId.holders`. A relay that does not answer is skipped. Raises
    StoreError. Safe to cancel.
    """
    found = await stored_events(store, [gap.id for gap in gaps[:_MOST_STORED]])
    left = [gap for gap in gaps if gap.id not in found]
    if len(left) > MOST:
        return list(found.values())
    for name, relay in relays.items():
        asked = [gap.id for gap in left if gap.id not in found and name in gap.holders]
        if asked:
            found |= await fetched(relay, asked) or {}
    return list(found.values())
