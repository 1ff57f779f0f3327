"""Does a relay's NIP-77 answer reach as far as the relay's events do? One REQ at each end shows it.

A relay may compare a snapshot instead of everything that it holds: the newest events up to a cap,
or what it held some time ago. Strfry compares nothing for some kinds after AUTH. The session looks
the same, so its end proves nothing about the events that the relay did not name. The proof is a
REQ at the oldest named second: a relay that holds more than it named sends an event that it did
not name. Sync and count both use it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from nostr_client.filters import Filter
from nostr_client.keys import VerifiedEvent

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nostr_client.page import Page
    from nostr_client.relay import Relay

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
    def _at(cls, named: Iterable[tuple[int, bytes]], second: int) -> Edge:
        return cls(second, frozenset(key for stamp, key in named if stamp == second))


class Proof(msgspec.Struct, frozen=True, kw_only=True):
    """What the REQ at an edge showed.

    `beyond`: verified events that the relay holds there and did not name, so its snapshot is capped
    or old. `why`: the reason why the answer may leave something out; "" where it is whole.
    `frames` and `bytes` are what the question cost.
    """

    beyond: tuple[VerifiedEvent, ...] = ()
    why: str = ""
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
    relay: Relay, filter: Filter, floor: Edge | None, *, largest: int = 0
) -> Proof:
    """Ask for what the relay holds below the oldest id that it named for `filter`.

    `floor` is the edge of everything that the relay named: the shared ids and the needed ones, with
    the times of the events. None: the relay named nothing, and a REQ for anything decides.
    `largest`: the largest page that the relay is known to have sent, in events; it decides where
    the oldest second holds ten events or more. One REQ, two where the relay leaves out the second
    of `until`. Raises RelayError where the relay cannot be asked. Safe to cancel.
    """
    if floor is None:
        return await _ask(relay, filter, frozenset(), largest)
    for until in (floor.second, floor.second + 1):
        asked = filter.replace(until=min(until, filter.until or until))
        proof = await _ask(relay, asked, floor.ids, largest, newest=floor.second)
        if proof.why != _WITHHELD:
            break
        # Not even what it named came: the relay may leave out the second of `until`.
    return proof


async def prove_ceiling(
    relay: Relay, filter: Filter, ceiling: Edge | None, *, largest: int = 0
) -> Proof:
    """Ask for what the relay holds above the newest id that it named; as `prove_floor`.

    An event that came after the session is `beyond` too: where the proof is `whole`, taking these
    in is enough.
    """
    if ceiling is None:
        return await _ask(relay, filter, frozenset(), largest)
    asked = filter.replace(since=max(ceiling.second, filter.since or 0))
    return await _ask(relay, asked, ceiling.ids, largest)


async def _ask(
    relay: Relay,
    filter: Filter,
    known: frozenset[bytes],
    largest: int,
    *,
    newest: int | None = None,
) -> Proof:
    limit = max(FEW, len(known) + 1)
    # Some relays have nothing for a filter without conditions.
    asked = Filter(since=0) if filter.replace(limit=None) == Filter() else filter
    page = await relay.fetch(asked.replace(limit=limit), partial=True)
    beyond = tuple(
        one
        for one in page.events
        if bytes.fromhex(one.event.id) not in known
        and (newest is None or one.event.created_at <= newest)
    )
    why = _doubt(page, known, limit, largest)
    return Proof(beyond=beyond, why=why, frames=page.frames, bytes=page.bytes)


def _doubt(page: Page, known: frozenset[bytes], limit: int, largest: int) -> str:
    """Why the relay may hold more at this end than the page and `known` say; "" where not."""
    if page.error is not None:
        return str(page.error)
    if page.invalid or page.mismatched:
        return "events came that do not hold"
    if page.malformed:
        return "frames came that could not be read"
    if page.frames >= limit or not (page.frames < FEW or page.frames < largest):
        return "the relay may hold more than it sends at once"
    came = {bytes.fromhex(one.event.id) for one in page.events}
    return "" if known <= came else _WITHHELD
