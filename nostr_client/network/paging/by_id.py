"""Fetch events by id from one relay, in REQs of a size that every relay accepts.

A module of its own: it uses `Relay`, which imports `page`; the other readers do no I/O.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from nostr_client.codecs.filters import Filter

if TYPE_CHECKING:
    from collections.abc import Collection

    from nostr_client.codecs.keys import VerifiedEvent
    from nostr_client.network.relay import Relay

IDS_AT_ONCE: Final = 100
"""Ids in one REQ. Relays cap filters at 100 to 1,000 values."""


class FetchedById(NamedTuple):
    """Verified events that arrived, their size in `bytes`, and the number of unreadable frames."""

    events: tuple[VerifiedEvent, ...]
    bytes: int
    unread: int


async def events_by_id(relay: Relay, ids: Collection[bytes]) -> FetchedById:
    """Ask for ids, and again for missing ids while more events arrive, because a page may be cut.

    Raises RelayError. Safe to cancel.
    """
    events: list[VerifiedEvent] = []
    size = unread = 0
    ordered = sorted(ids)
    for start in range(0, len(ordered), IDS_AT_ONCE):
        left = ordered[start : start + IDS_AT_ONCE]
        while left:
            page = await relay.fetch(Filter(ids=[key.hex() for key in left]))
            events += page.events
            size += page.bytes
            unread += page.malformed
            came = {bytes.fromhex(one.event.id) for one in page.events}
            left = [key for key in left if key not in came] if came else []
    return FetchedById(tuple(events), size, unread)
