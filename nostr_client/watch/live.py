"""What an event that comes between two rounds changes in the claims of the last one. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from nostr_client import hll
from nostr_client.claims.memory import members_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nostr_client.claims import Held
    from nostr_client.count.queries import Query
    from nostr_client.merge import Claim, Listing, Reading


def with_events(claim: Claim, query: Query, events: Sequence[Held]) -> Claim:
    """A claim after further events of its relay; the same object where they change nothing.

    They go into the registers, as NIP-45 recommends, into what was read, or to the ids that the
    relay named. A claim that gave
    nothing to count with stays as it is: the next round asks again.
    """
    if not claim.answered or not events:
        return claim
    if claim.reading is not None:
        return _read_on(claim, query, claim.reading, events)
    if claim.listing is not None:
        return _listed_on(claim, claim.listing, events)
    if claim.registers is None or query.offset is None:
        return claim
    added = hll.from_pubkeys([event.author for event in events], query.offset)
    registers = hll.merge(claim.registers, added)
    count = claim.count
    exact = query.judges or not claim.approximate  # of what is judged every count is approximate
    if count is not None and not query.one_per_author and exact:
        count += len(events)
    if registers == claim.registers and count == claim.count:
        return claim
    return msgspec.structs.replace(claim, registers=registers, count=count)


def _listed_on(claim: Claim, listing: Listing, events: Sequence[Held]) -> Claim:
    came = {event.id for event in events}
    if came <= listing.verified:
        return claim
    more = msgspec.structs.replace(
        listing, ids=listing.ids | came, verified=listing.verified | came
    )
    count = (claim.count or 0) + len(more.ids) - len(listing.ids)
    return msgspec.structs.replace(claim, listing=more, count=count)


def _read_on(claim: Claim, query: Query, reading: Reading, events: Sequence[Held]) -> Claim:
    fresh = [event for event in events if event.id not in reading.events]
    if not fresh:
        return claim
    ids = reading.events | {event.id for event in fresh}
    sums, labels = reading.amounts is not None, reading.labels is not None
    added = members_of(fresh, sums=sums, labels=labels)
    grown = {name: getattr(reading, name) | new for name, new in added.items() if new}
    more = msgspec.structs.replace(
        reading,
        authors=(authors := reading.authors | {event.author for event in fresh}),
        events=ids,
        **grown,
    )
    registers = claim.registers
    if registers is not None and query.offset is not None:
        sketch = hll.from_pubkeys([event.author for event in fresh], query.offset)
        registers = hll.merge(registers, sketch)
    count = len(authors) if query.one_per_author else len(ids)
    return msgspec.structs.replace(claim, reading=more, registers=registers, count=count)
