"""What can be asked: the canonical queries of NIP-45, and any filters.

Each constructor takes what people copy (npub, nprofile, note, nevent, naddr, hex; with or without
`nostr:`) and raises InvalidIdentifier for anything else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from nostr_client import hll, kinds, nip19
from nostr_client.count.folding import fold
from nostr_client.errors import InvalidFilter, InvalidIdentifier
from nostr_client.filters import Filter

if TYPE_CHECKING:
    from collections.abc import Iterable


class Query(msgspec.Struct, frozen=True):
    """A question to count: filters that are OR'd, folded, and the name people know it by.

    `target` is the hex id, hex pubkey or address that a canonical query is about, else None.
    """

    filters: tuple[Filter, ...]
    name: str = "filter"
    target: str | None = None

    @property
    def offset(self) -> int | None:
        """The HLL offset where registers of all filters may be merged (8..23), else None."""
        wire = [f.to_dict() for f in self.filters]
        offsets = {hll.offset(f) if hll.eligible(f) else None for f in wire}
        return offsets.pop() if len(offsets) == 1 else None

    @property
    def one_per_author(self) -> bool:
        """True when an author has at most one matching event: one and the same replaceable kind."""
        asked = {f.kinds for f in self.filters}
        (first, *others) = asked or {None}
        return not others and first is not None and _replaceable(first)

    def to_dict(self) -> dict[str, Any]:
        """The query as JSON values: `name`, `target`, `filters` as sent."""
        wire = [f.to_dict() for f in self.filters]
        return {"name": self.name, "target": self.target, "filters": wire}


def _replaceable(asked: tuple[int, ...]) -> bool:
    return len(set(asked)) == 1 and kinds.is_replaceable(asked[0])


def query(filters: Filter | Iterable[Filter]) -> Query:
    """Any question: filters are OR'd, `limit` is ignored. Raises InvalidFilter for none at all."""
    given = (filters,) if isinstance(filters, Filter) else tuple(filters)
    if not given:
        raise InvalidFilter("a count needs a filter")
    folded = fold(given)
    if not folded:
        raise InvalidFilter("the filter can match nothing: an empty list, or since after until")
    return Query(folded)


def followers(target: str) -> Query:
    """Who follows a pubkey (npub, nprofile, hex): kind 3 with its `p` tag."""
    pubkey = nip19.decode_pubkey(target)
    return _canonical("followers", pubkey, "#p", [kinds.CONTACTS])


def reactions(target: str) -> Query:
    """Reactions to an event (note, nevent, hex) or address (naddr): kind 7."""
    return _about("reactions", target, [kinds.REACTION])


def reposts(target: str) -> Query:
    """Reposts of an event: kind 6."""
    return _about("reposts", target, [kinds.REPOST])


def replies(target: str) -> Query:
    """Replies to an event: kind 1."""
    return _about("replies", target, [kinds.TEXT_NOTE])


def quotes(target: str) -> Query:
    """Quotes of an event: kinds 1 and 1111 with its `q` tag."""
    found = event_or_address(target)
    return _canonical("quotes", found, "#q", [kinds.TEXT_NOTE, kinds.COMMENT])


def comments(target: str) -> Query:
    """Comments on an event (NIP-22, at any depth): kind 1111 with its root tag `E` or `A`."""
    found = event_or_address(target)
    name = "#A" if ":" in found else "#E"
    return _canonical("comments", found, name, [kinds.COMMENT])


CANONICAL = {
    "followers": followers,
    "reactions": reactions,
    "reposts": reposts,
    "quotes": quotes,
    "replies": replies,
    "comments": comments,
}
"""The canonical queries by name."""


def _about(name: str, target: str, asked: list[int]) -> Query:
    found = event_or_address(target)
    return _canonical(name, found, "#a" if ":" in found else "#e", asked)


def _canonical(name: str, target: str, tag: str, asked: list[int]) -> Query:
    return Query((Filter(kinds=asked, tags={tag: [target]}),), name, target)


def event_or_address(text: str) -> str:
    """The hex id of a note, nevent or hex id, or the address of an naddr (InvalidIdentifier)."""
    bare = text.strip()
    if len(bare) == 64 and not bare.strip("0123456789abcdefABCDEF"):
        return bare.lower()
    found = nip19.decode(bare)
    if isinstance(found, (nip19.Note, nip19.EventPointer)):
        return found.id
    if isinstance(found, nip19.Address):
        return found.coordinate
    raise InvalidIdentifier("not an event: expected note, nevent, naddr or 64 hex characters")
