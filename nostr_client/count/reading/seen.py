"""Collect the events of one question, and decide which of them do not count. Pure.

An author deletes an event by its id or by its address (kind 5, NIP-09), or asks to forget
everything up to a time (kind 62, NIP-62). A newer version replaces an older one. Nobody else's
request deletes anything, so the author of an event must be known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from nostr_client.codecs import kinds
from nostr_client.codecs.filters import Filter
from nostr_client.store.rules import ALL_RELAYS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from nostr_client.codecs.event import Event
    from nostr_client.codecs.keys import VerifiedEvent
    from nostr_client.count.claims.coverage import HeldEvent


REQUESTS: Final = frozenset({kinds.DELETION, kinds.VANISH})
"""Kinds of the events by which an author deletes others."""


class Seen(NamedTuple):
    """An event that arrived: who signed it and when, and the address that its versions share."""

    author: bytes
    created_at: int
    kind: int
    address: str | None


class SeenEvents:
    """See the module. All ids and authors are 32 raw bytes."""

    def __init__(self) -> None:
        self.by_id: dict[bytes, Seen] = {}
        """Events that arrived."""
        self.requests: dict[str, Event] = {}
        """Deletions and requests to vanish that arrived, by id (hex)."""
        self.superseded: dict[bytes, bytes] = {}
        """Ids of versions (replaceable and addressable kinds), each with the version that replaces
        it."""
        self._by_author: dict[bytes, list[Event]] = {}
        self._newest: dict[tuple[int, str, str], tuple[int, str]] = {}

    def saw(self, events: Iterable[VerifiedEvent]) -> None:
        """Add events: their authors, and which of two versions wins."""
        for one in events:
            event = one.event
            address = _address(event)
            named = None if address is None else ":".join(map(str, address))
            author = bytes.fromhex(event.pubkey)
            self.by_id[bytes.fromhex(event.id)] = Seen(author, event.created_at, event.kind, named)
            if address is not None:
                self._replace(address, event)
            if event.kind in REQUESTS and event.id not in self.requests:
                self.requests[event.id] = event
                self._by_author.setdefault(author, []).append(event)

    def _replace(self, address: tuple[int, str, str], event: Event) -> None:
        mine = (-event.created_at, event.id)  # the newer, of equals the one with the lower id
        other = self._newest.get(address, mine)
        self._newest[address] = min(mine, other)
        if mine != other:
            (_, winner), (_, loser) = sorted((mine, other))
            self.superseded[bytes.fromhex(loser)] = bytes.fromhex(winner)

    def is_blocked(self, id: bytes) -> bool:
        """Whether its author asked to delete an event, or to forget everything of that time."""
        one = self.by_id.get(id)
        if one is None or one.kind in REQUESTS:
            return False
        return any(_blocks(request, id, one) for request in self._by_author.get(one.author, ()))

    def remember(self, held: Iterable[HeldEvent], kind: int) -> None:
        """Add events of one kind from earlier rounds: who signed each, and when."""
        replaceable = kinds.is_replaceable(kind)
        for one in held:
            address = f"{kind}:{one.author.hex()}:" if replaceable else None
            self.by_id.setdefault(one.id, Seen(one.author, one.created_at, kind, address))

    def requests_for(self, ids: Iterable[bytes], authors: Iterable[bytes] = ()) -> Iterator[Filter]:
        """Return the filters for deletions of ids and of their addresses, and for requests to
        vanish.

        `authors`: those of events of earlier rounds.
        """
        named = list(ids)
        known = [self.by_id[id] for id in named if id in self.by_id]
        yield Filter(kinds=[kinds.DELETION], tags={"#e": [id.hex() for id in named]})
        addresses = sorted({one.address for one in known if one.address is not None})
        if addresses:
            yield Filter(kinds=[kinds.DELETION], tags={"#a": addresses})
        people = {one.author for one in known}.union(authors)
        if people:
            yield Filter(kinds=[kinds.VANISH], authors=sorted(one.hex() for one in people))

    def deleted_unseen(self, ids: Collection[bytes]) -> set[bytes]:
        """Return which of the ids a request names while their author is unknown."""
        named = set[bytes]().union(*map(_deleted_by, self.requests.values()))
        return named.intersection(ids).difference(self.by_id)


def _blocks(request: Event, id: bytes, one: Seen) -> bool:
    """Whether a request of the event's own author blocks it (NIP-09, NIP-62)."""
    if request.kind == kinds.VANISH:
        return one.created_at <= request.created_at and ALL_RELAYS in request.tag_values("relay")
    if id in _deleted_by(request):
        return True
    if one.address is None or one.created_at > request.created_at:
        return False
    return one.address in request.tag_values("a")


def _deleted_by(event: Event) -> set[bytes]:
    if event.kind != kinds.DELETION:
        return set()
    named = [tag[1] for tag in event.tags if len(tag) > 1 and tag[0] == "e" and len(tag[1]) == 64]
    return {bytes.fromhex(id) for id in named if not id.strip("0123456789abcdef")}


def _address(event: Event) -> tuple[int, str, str] | None:
    """Return what versions of an event share; None for a regular one."""
    if kinds.is_replaceable(event.kind):
        return event.kind, event.pubkey, ""
    if kinds.is_addressable(event.kind):
        names = (tag[1] for tag in event.tags if len(tag) > 1 and tag[0] == "d")
        return event.kind, event.pubkey, next(names, "")
    return None
