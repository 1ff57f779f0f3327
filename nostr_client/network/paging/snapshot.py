"""Does a relay's NIP-77 answer reach as far as the relay's events do? One REQ at each end shows it.

A relay may compare a snapshot instead of everything that it holds: the newest events up to a cap,
or what it held some time ago. Strfry compares nothing for some kinds after AUTH. The session looks
the same, so its end proves nothing about the events that the relay did not name. The proof is a
REQ at the oldest named second: a relay that holds more than it named sends an event that it did
not name. Count and sync both use it. Count knows the time of every id that was named; sync knows
the times of the ids that both sides have, and of the others no more than the ids at first.
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
"""Events of a page that no relay is known to cut: smaller caps than this are not in use."""

_WITHHELD: Final = "the relay does not send what it named"


class Edge(NamedTuple):
    """The oldest (or the newest) second of what a relay named for a filter, and the ids in it."""

    second: int
    ids: frozenset[bytes]

    @classmethod
    def lowest(cls, named: Iterable[tuple[int, bytes]]) -> Edge | None:
        """The oldest edge of (`created_at`, id) pairs; None where nothing was named."""
        pairs = list(named)
        return cls._at(pairs, min(stamp for stamp, _ in pairs)) if pairs else None

    @classmethod
    def highest(cls, named: Iterable[tuple[int, bytes]]) -> Edge | None:
        """The newest edge of (`created_at`, id) pairs; None where nothing was named."""
        pairs = list(named)
        return cls._at(pairs, max(stamp for stamp, _ in pairs)) if pairs else None

    @classmethod
    def oldest(cls, edges: Iterable[Edge | None]) -> Edge | None:
        """The oldest of several edges, with the ids of all edges at its second; None: no edge."""
        some = [one for one in edges if one is not None]
        second = min((one.second for one in some), default=None)
        if second is None:
            return None
        return cls(second, frozenset().union(*(one.ids for one in some if one.second == second)))

    @classmethod
    def _at(cls, named: Iterable[tuple[int, bytes]], second: int) -> Edge:
        return cls(second, frozenset(key for stamp, key in named if stamp == second))


class Proof(msgspec.Struct, frozen=True, kw_only=True):
    """What the REQ at an edge showed.

    `beyond`: verified events that the relay holds there and did not name, so its snapshot is capped
    or old. `why`: the reason why the answer may leave something out; "" where it is whole.
    `failed`: the reason is an error, and the same question may succeed later. `frames` and `bytes`
    are what the question cost.
    """

    beyond: tuple[VerifiedEvent, ...] = ()
    why: str = ""
    failed: bool = False
    frames: int = 0
    bytes: int = 0

    @property
    def proven(self) -> bool:
        """Whether the relay named everything that it holds at this end."""
        return not self.beyond and not self.why

    @property
    def whole(self) -> bool:
        """Whether what it named and `beyond` are everything that it holds at this end."""
        return not self.why


async def prove_floor(
    relay: Relay,
    filter: Filter | Sequence[Filter],
    floor: Edge | None,
    *,
    needed: AbstractSet[bytes] = frozenset(),
    largest: int = 0,
) -> Proof:
    """Ask for what the relay holds below the oldest id that it named for the filters (OR'd).

    `floor` is the oldest edge of the named ids with known times. None: no time is known, and a REQ
    for anything decides. `needed`: ids that the relay named, whose times need not be known; they
    may lie below the floor. `largest`: the largest page that the relay is known to have sent, in
    events; it decides where ten events or more come. One REQ, two where the relay leaves out the
    second of `until`. Raises RelayError where the relay cannot be asked. Safe to cancel.
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
        # Not even what it named came: the relay may leave out the second of `until`.
    return proof


def up_to(filter: Filter, until: int) -> Filter:
    """The filter for events up to a second, within its own `until`."""
    return filter.replace(until=until if filter.until is None else min(until, filter.until))


async def prove_ceiling(
    relay: Relay, filter: Filter, ceiling: Edge | None, *, largest: int = 0
) -> Proof:
    """Ask for what the relay holds above the newest id that it named; as `prove_floor`.

    An event that came after the session is `beyond` too: where the proof is `whole`, taking these
    in is enough.
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
    """One REQ: a page that shows everything brings the `expected` ids; it may bring `needed`."""
    # Some relays have nothing for a filter without conditions.
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
    """Why the relay may hold more at this end than the page and what it named; "" where not."""
    if page.error is not None:
        return str(page.error)
    if page.invalid or page.mismatched:
        return "events came that do not hold"
    if page.malformed:
        return "frames came that could not be read"
    if page.frames >= limit or not (page.frames < FEW or page.frames < largest):
        return "the relay may hold more than it sends at once"
    return "" if expected <= came else _WITHHELD
