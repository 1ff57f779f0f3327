"""Count events by their ids: which are proven, and which only one relay names. Pure.

A relay that is read proves its events. A relay that lists ids (NIP-77) only names them: an id is
proven if its event was fetched, if a relay that was read has it, or if two relays name it. So a
single relay can raise the number, but not its low end.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

from nostr_client.count.merge.drift import at_most, gone_at_most, share_since
from nostr_client.count.merge.values import Figure, Proven

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nostr_client.count.merge.values import Claim, Listing, Reading

_UNSEEN: Final = 3.5
"""Expected hits that a sample without one excludes, 97 times in 100 (Poisson: -ln 0.03)."""


class ListedClaim(NamedTuple):
    """One relay's claim, and the believed part of its listing; `trusted`: without proof."""

    claim: Claim
    listing: Listing | None
    trusted: bool = False


class DistinctEvents(NamedTuple):
    """The distinct events of all relays. `proven` is a part of `named`.

    `gone`: how many of them may have gone since a relay was read. `deleted`: how many may have been
    deleted at relays that were asked only about a sample. `current`: this round proved the members
    of every relay that was read. `named_only`: some relays only named their events, or were not
    asked for the deletions of all their events.
    """

    named: frozenset[bytes]
    proven: frozenset[bytes]
    gone: int
    deleted: int
    current: bool
    named_only: bool

    @property
    def low(self) -> int:
        """The number of proven events."""
        return max(len(self.proven) - self.gone - self.deleted, 0)

    @property
    def figure(self) -> Figure:
        """Return the figure if every relay named everything: exact if all of it is proven now."""
        value = len(self.named)
        if not self.current:
            return Figure.at_least(value, self.low)
        if self.low == value:
            return Figure.exactly(value, as_said=self.named_only)
        return Figure(value=value, low=self.low, high=value, as_said=self.named_only)


def members(sources: Sequence[ListedClaim]) -> DistinctEvents:
    """Return what the relays have and name together, without what is retracted."""
    retracted = union(source.claim.retracted.ids for source in sources)
    readings = [s.claim.reading for s in sources if s.claim.answered and s.claim.reading]
    listings = [s.listing for s in sources if s.listing]
    read = union(reading.events for reading in readings)
    lists = [listing.ids for listing in listings]
    believed = union(s.listing.ids for s in sources if s.listing and s.trusted)
    verified = union(listing.verified for listing in listings)
    proven = read | verified | believed | _twice(lists)
    named = (read | union(lists)) - retracted
    counted = proven - retracted  # an id that only one relay names weakens no proof
    by_ids = any(s.listing or s.claim.retracted.asked is not None for s in sources)
    return DistinctEvents(
        named=named,
        proven=counted,
        gone=gone_at_most(readings, _events),
        deleted=sum(_perhaps_deleted(s, counted) for s in sources if by_ids and s.claim.answered)
        + _deleted_since(sources, counted),
        current=all(reading.proven is Proven.MEMBERS for reading in readings)
        and not any(source.claim.stands_in or source.claim.retracted.earlier for source in sources),
        named_only=any(map(_names_only, sources)),
    )


def _names_only(source: ListedClaim) -> bool:
    read = source.claim.reading
    held = read is not None and bool(read.events) and source.claim.answered
    return source.listing is not None or (held and not source.claim.retracted.looked_for)


def _twice(lists: Iterable[frozenset[bytes]]) -> frozenset[bytes]:
    """Return the ids in at least two lists."""
    once: set[bytes] = set()
    twice: set[bytes] = set()
    for ids in lists:
        twice |= once & ids
        once |= ids
    return frozenset(twice)


def _perhaps_deleted(source: ListedClaim, proven: frozenset[bytes]) -> int:
    """Return how many proven ids this relay may know as deleted without having been asked about
    them."""
    held = _held(source)
    if held is None:
        return 0
    lacking = proven - held
    asked = len(lacking & source.claim.retracted.all_asked)
    unasked = len(lacking) - asked
    if unasked <= 0 or asked == 0:
        return unasked
    return min(unasked, math.ceil(_UNSEEN * unasked / asked))


def _deleted_since(sources: Sequence[ListedClaim], proven: frozenset[bytes]) -> int:
    """Return how many proven ids may have been deleted since relays were asked earlier."""
    claims = [source.claim for source in sources if source.claim.answered]
    known = [one.retracted for one in claims if one.retracted.earlier]
    return at_most(sum(len(k.earlier & proven) * share_since(k.earlier_at, claims) for k in known))


def _held(source: ListedClaim) -> frozenset[bytes] | None:
    """Return the ids that a relay reported; None if it reported none that are believed."""
    claim = source.claim
    if claim.listing is not None:
        return None if claim.listing.failed else claim.listing.ids
    return claim.reading.events if claim.reading is not None else None


def _events(reading: Reading) -> frozenset[bytes]:
    return reading.events


def union(sets: Iterable[frozenset[bytes]]) -> frozenset[bytes]:
    """Return all ids of some sets."""
    return frozenset().union(*sets)
