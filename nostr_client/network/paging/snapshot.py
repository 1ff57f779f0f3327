"""Prove with one REQ at each end that a relay's NIP-77 session covers all of its events.

A relay may compare a snapshot instead of all events. The snapshot has the newest events up to a
cap, or the events of some time ago. Strfry compares nothing for some kinds after AUTH. Such a
session looks the same as a full one, so its end proves nothing about events that the relay did not
name. The proof is a REQ at the oldest named second. A relay that has more events than it named then
sends an event that it did not name.

Count and sync both use the proof. Count knows the time of every named id. Sync at first knows only
the times of ids that both sides have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from nostr_client.codecs.filters import Filter
from nostr_client.codecs.keys import VerifiedEvent

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from collections.abc import Set as AbstractSet

    from nostr_client.network.paging.page import EventPage
    from nostr_client.network.relay import Relay

FEW: Final = 10
"""Events of a page that no known relay cuts. Smaller caps are not in use."""

_WITHHELD: Final = "the relay does not send what it named"


class Edge(NamedTuple):
    """The oldest (or newest) second that a relay named for a filter, and the ids in that second."""

    second: int
    ids: frozenset[bytes]

    @classmethod
    def lowest(cls, named: Iterable[tuple[int, bytes]]) -> Edge | None:
        """Return the oldest edge of (`created_at`, id) pairs, or None without a pair."""
        pairs = list(named)
        return cls._at(pairs, min(stamp for stamp, _ in pairs)) if pairs else None

    @classmethod
    def highest(cls, named: Iterable[tuple[int, bytes]]) -> Edge | None:
        """Return the newest edge of (`created_at`, id) pairs, or None without a pair."""
        pairs = list(named)
        return cls._at(pairs, max(stamp for stamp, _ in pairs)) if pairs else None

    @classmethod
    def oldest(cls, edges: Iterable[Edge | None]) -> Edge | None:
        """Return the oldest of several edges, with the ids of all edges at its second, or None."""
        some = [one for one in edges if one is not None]
        second = min((one.second for one in some), default=None)
        if second is None:
            return None
        return cls(second, frozenset().union(*(one.ids for one in some if one.second == second)))

    @classmethod
    def _at(cls, named: Iterable[tuple[int, bytes]], second: int) -> Edge:
        return cls(second, frozenset(key for stamp, key in named if stamp == second))


class Proof(msgspec.Struct, frozen=True, kw_only=True):
    """Result of the REQ at an edge.

    - `beyond`: verified events that the relay has there and did not name. Its snapshot is capped or
      old.
    - `why`: why the answer may leave something out, or "" if it is whole.
    - `failed`: the reason is an error, and the same request may succeed later.
    - `frames` and `bytes`: the cost of the request.
    """

    beyond: tuple[VerifiedEvent, ...] = ()
    why: str = ""
    failed: bool = False
    frames: int = 0
    bytes: int = 0

    @property
    def proven(self) -> bool:
        """Whether the relay named everything that it has at this end."""
        return not self.beyond and not self.why

    @property
    def whole(self) -> bool:
        """Whether the named events and `beyond` are all events that the relay has at this end."""
        return not self.why


async def prove_floor(
    relay: Relay,
    filter: Filter | Sequence[Filter],
    floor: Edge | None,
    *,
    needed: AbstractSet[bytes] = frozenset(),
    largest: int = 0,
) -> Proof:
    """Ask for events below the oldest id that the relay named for the filters (OR'd).

    - `floor`: the oldest edge of the named ids with known times. None means that no time is known.
      The REQ then has no bound.
    - `needed`: ids that the relay named, with or without known times. They may lie below the floor.
    - `largest`: the largest page, in events, that the relay is known to have sent. It matters if
      ten or more events come.

    Sends one REQ, or two if the relay leaves out the second of `until`. Raises RelayError if the
    relay cannot be asked. Safe to cancel.
    """
    filters = [filter] if isinstance(filter, Filter) else filter
    if floor is None:
        return await _ask(relay, filters, needed, needed, FEW, largest)
    limit = max(FEW, len(floor.ids) + 1)
    for until in (floor.second, floor.second + 1):
        asked = [up_to(one, until) for one in filters]
        proof = await _ask(relay, asked, floor.ids, needed, limit, largest, newest=floor.second)
        if proof.why != _WITHHELD:
            break
        # Not even the named events came, so the relay may leave out the second of `until`.
    return proof


def up_to(filter: Filter, until: int) -> Filter:
    """Return the filter for events up to a second, within the filter's own `until`."""
    return filter.replace(until=until if filter.until is None else min(until, filter.until))


async def prove_ceiling(
    relay: Relay, filter: Filter, ceiling: Edge | None, *, largest: int = 0
) -> Proof:
    """Ask for events above the newest id that the relay named, as `prove_floor` does below.

    An event that came after the session is in `beyond` too. If the proof is `whole`, storing these
    events is enough.
    """
    if ceiling is None:
        return await _ask(relay, [filter], frozenset(), frozenset(), FEW, largest)
    asked = filter.replace(since=max(ceiling.second, filter.since or 0))
    limit = max(FEW, len(ceiling.ids) + 1)
    return await _ask(relay, [asked], ceiling.ids, frozenset(), limit, largest)


async def _ask(
    relay: Relay,
    filters: Sequence[Filter],
    expected: AbstractSet[bytes],
    needed: AbstractSet[bytes],
    limit: int,
    largest: int,
    *,
    newest: int | None = None,
) -> Proof:
    """Send one REQ.

    A page that shows everything has the `expected` ids. It may have `needed` ids.
    """
    # Some relays send nothing for a filter without conditions.
    asked = [one.replace(since=one.since or 0, limit=limit) for one in filters]
    page = await relay.fetch(asked, partial=True)
    came = {bytes.fromhex(one.event.id): one for one in page.events}
    beyond = tuple(
        one
        for key, one in came.items()
        if key not in expected
        and key not in needed
        and (newest is None or one.event.created_at <= newest)
    )
    why = _doubt(page, came.keys(), expected, limit, largest)
    failed = page.error is not None
    return Proof(beyond=beyond, why=why, failed=failed, frames=page.frames, bytes=page.bytes)


def _doubt(
    page: EventPage,
    came: AbstractSet[bytes],
    expected: AbstractSet[bytes],
    limit: int,
    largest: int,
) -> str:
    """Return why the relay may have more events at this end, or "" if it has no more."""
    if page.error is not None:
        return str(page.error)
    if page.invalid or page.mismatched:
        return "events came that do not hold"
    if page.malformed:
        return "frames came that could not be read"
    if page.frames >= limit or not (page.frames < FEW or page.frames < largest):
        return "the relay may hold more than it sends at once"
    return "" if expected <= came else _WITHHELD
