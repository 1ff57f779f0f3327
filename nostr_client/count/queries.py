"""The questions: the canonical queries of NIP-45, and any filters.

Each constructor accepts what people type and paste, as `nip19.read` does (npub, nprofile, note,
nevent, naddr, hex, `nostr:`, the URL of a web viewer), and raises InvalidIdentifier for anything
else.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import msgspec

from nostr_client import hll
from nostr_client.codecs import kinds, nip19
from nostr_client.codecs.filters import Filter
from nostr_client.codecs.private_kinds import RECEIVER_ONLY
from nostr_client.codecs.references import (
    people_named,
    reacted_to,
    reaction_label,
    reply_place,
)
from nostr_client.codecs.zaps import RECEIPT, read_zap
from nostr_client.count.claims import VOID, HeldEvent
from nostr_client.count.merge import CountUnit
from nostr_client.errors import InvalidFilter, InvalidInput, clip
from nostr_client.network.outbox import OutboxTarget, read_target

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from nostr_client.codecs.event import Event
    from nostr_client.codecs.zaps import Zap


def fold(filters: Iterable[Filter]) -> tuple[Filter, ...]:
    """Return the fewest filters, by simple folding, that together match the same events.

    `limit` is dropped (it would cap the count), as are filters that match nothing and repetitions;
    two that differ in one list become one. The order of attributes and values stays, as the HLL
    offset depends on it.
    """
    left = [f.replace(limit=None) for f in filters]
    left = [f for f in left if not f.matches_nothing]
    folded: list[Filter] = []
    for candidate in left:
        _insert(folded, candidate)
    return tuple(folded)


def _insert(folded: list[Filter], candidate: Filter) -> None:
    """Add a filter; a folded one may fit with a third, so it is inserted again."""
    for i, other in enumerate(folded):
        together = _joined(other, candidate)
        if together is not None:
            del folded[i]
            _insert(folded, together)
            return
    folded.append(candidate)


def _joined(a: Filter, b: Filter) -> Filter | None:
    """Return one filter for two that are equal but for one list; None if no such filter exists."""
    one, two = a.to_dict(), b.to_dict()
    if set(one) != set(two):
        return None
    differing = [name for name in one if not _same(one[name], two[name])]
    if not differing:
        return a
    (name, *rest) = differing
    if rest or not isinstance(one[name], list):
        return None
    return Filter.from_json(one | {name: list(dict.fromkeys([*one[name], *two[name]]))})


def _same(a: Any, b: Any) -> bool:
    return set(a) == set(b) if isinstance(a, list) else a == b


MOST_ADDRESS: Final = 1_000
"""Characters of an address that is looked up: those in use have some 120."""

NO_TARGET: Final = "?"
"""The label of a zap whose target is neither an event id nor an address."""


class Query(msgspec.Struct, frozen=True, dict=True):
    """A question to count: a name and filters. An event matches if any filter matches."""

    # A round of watches reads each property many times: those that go through filters are cached.

    filters: tuple[Filter, ...]
    name: str = "filter"
    """The name of a canonical query, or `filter`."""
    target: str | None = None
    """The hex id, hex pubkey or address that a canonical query is about."""
    author: str | None = None
    """The hex pubkey of the target's author, if known. The key helps to find relays (NIP-65)."""
    hints: tuple[str, ...] = ()
    """The relays that the identifier of the target names. They help to find relays."""
    receivers: frozenset[str] | None = None
    """The hex pubkeys that zaps of the target may pay. None if they are not known."""
    by_content: bool = False
    """True to count events by their content, too. The client then reads events on every relay."""

    @property
    def is_zaps(self) -> bool:
        """True if the query counts zaps. The client checks each receipt and uses no relay's own
        number.
        """
        return self.name == "zaps"

    @cached_property
    def searches(self) -> bool:
        """True if a filter searches text (NIP-50). Each relay decides what matches, so no number is
        exact.
        """
        return any(f.search is not None for f in self.filters)

    @property
    def needs_target(self) -> bool:
        """True if the client must first fetch the target to know the receivers of its zaps."""
        return self.is_zaps and self.receivers is None and not self.pays_person

    @property
    def pays_person(self) -> bool:
        """True if the query counts the zaps of a person.

        For such a query, the event that a receipt names decides whom the receipt may pay.
        """
        return self.is_zaps and self.filters[0].tags[0][0] == "#p"

    @property
    def person(self) -> str | None:
        """The hex pubkey of the person that a canonical query is about. None for other queries."""
        names_person = self.target is not None and self.filters[0].tags[0][0] == "#p"
        return self.target if names_person else None

    @cached_property
    def judges(self) -> bool:
        """True if some matching events do not count. The client must read the events to know which
        of them count.
        """
        return self.is_zaps or self._names_in_passing

    @property
    def reads(self) -> bool:
        """True if the number comes only from events that the client reads."""
        return self.is_zaps or self.by_content

    @property
    def note(self) -> str | None:
        """A text that says what registers and counts cannot distinguish for this query, or None."""
        return _NOTES.get(self.name) if self._names_in_passing else None

    @property
    def _names_in_passing(self) -> bool:
        """Whether a matching event may only name the target; for an address none does."""
        if self.name not in _NOTES or self.target is None:
            return False
        return self.name != "reactions" or ":" not in self.target

    @cached_property
    def unit(self) -> CountUnit:
        """What the query counts: distinct authors or events.

        A named query counts distinct authors, as registers do. Filters and zaps count events.
        """
        named = self.name in CANONICAL and self.offset is not None
        return CountUnit.AUTHORS if named else CountUnit.EVENTS

    @cached_property
    def by_registers(self) -> bool:
        """True if registers give the number of this query.

        Registers count authors. They also count events if each author has at most one matching
        event.
        """
        return self.offset is not None and (self.unit is CountUnit.AUTHORS or self.one_per_author)

    def hold(self, event: Event) -> HeldEvent | None:
        """Return the stored form of a matching event, or None if the event does not count.

        For a zap, the author is the payer, and the amount is in millisats. For a follow list, the
        amount is the number of keys in the list.
        """
        if self.is_zaps:
            return self._hold_zap(event)
        label = ""
        if self.name == "reactions":
            if self._names_in_passing and reacted_to(event) != self.target:
                return None
            label = reaction_label(event) if self.by_content else ""
        elif self._names_in_passing and self.target and event.kind == kinds.TEXT_NOTE:
            label = reply_place(event, self.target) or ""
            if not label:
                return None
        kept = label if self.by_content else ""
        id, author = bytes.fromhex(event.id), bytes.fromhex(event.pubkey)
        size = len(people_named(event)) if event.kind == kinds.CONTACTS else 0
        return HeldEvent(event.created_at, id, author, size, label=kept)

    def _hold_zap(self, receipt: Event) -> HeldEvent | None:
        """Return a zap, labelled with its target if that decides whether it may pay the person."""
        zap = read_zap(receipt, self.target, self.receivers)
        if zap is None or not _is_key(zap.receiver):
            return None
        return HeldEvent(
            receipt.created_at,
            bytes.fromhex(receipt.id),
            bytes.fromhex(zap.sender),
            zap.amount,
            label=_open_target(zap) if self.pays_person else "",
            signer=bytes.fromhex(receipt.pubkey),
            receiver=bytes.fromhex(zap.receiver),
            payment=zap.payment,
        )

    def hold_any(self, event: Event) -> HeldEvent:
        """Return the stored form of any matching event.

        If the event does not count, its amount is VOID. Relays count every matching event, so the
        client compares these forms with the numbers of relays.
        """
        id, author = bytes.fromhex(event.id), bytes.fromhex(event.pubkey)
        return self.hold(event) or HeldEvent(event.created_at, id, author, VOID)

    @cached_property
    def offset(self) -> int | None:
        """The HyperLogLog offset (8 to 23) if the registers of all filters can be merged, else
        None.
        """
        if self.is_zaps:
            return None  # wallet services sign receipts, not payers
        wire = [f.to_dict() for f in self.filters]
        offsets = {hll.offset(f) if hll.mergeable(f) else None for f in wire}
        return offsets.pop() if len(offsets) == 1 else None

    @cached_property
    def one_per_author(self) -> bool:
        """True if each author has at most one matching event.

        Each filter must ask for one kind only, and all filters for the same replaceable kind.
        """
        asked = {f.kinds for f in self.filters}
        (first, *others) = asked or {None}
        return not others and first is not None and _replaceable(first)

    def to_dict(self) -> dict[str, Any]:
        """Return the query as JSON values: `name`, `target` and `filters`."""
        wire = [f.to_dict() for f in self.filters]
        return {"name": self.name, "target": self.target, "filters": wire}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Query:
        """Read a query from the values that `to_dict` returned. `author` and `hints` may be added.

        Raises InvalidInput or one of its subclasses, KeyError or TypeError.
        """
        filters = tuple(Filter.from_json(one) for one in fields["filters"])
        hints = tuple(fields.get("hints", ()))
        return cls(filters, fields["name"], fields["target"], fields.get("author"), hints)


_REPLIES: Final = (
    "registers and counts cannot distinguish a direct reply from one below it, "
    "nor from a mention (NIP-10); only events that are read do"
)
_NOTES: Final = {
    "reactions": "registers and counts include reactions that name this event in passing, as part "
    "of a thread (NIP-25); only events that are read show the difference",
    "replies": _REPLIES,
    "replies+comments": _REPLIES,
}
"""Queries whose matching events are judged one by one, and what relays cannot distinguish."""


def _replaceable(asked: tuple[int, ...]) -> bool:
    return len(set(asked)) == 1 and kinds.is_replaceable(asked[0])


def query(filters: Filter | Iterable[Filter]) -> Query:
    """Count the events that match any of the filters.

    The query ignores `limit`. Raises InvalidFilter without a filter.
    """
    given = (filters,) if isinstance(filters, Filter) else tuple(filters)
    if not given:
        raise InvalidFilter("a count needs a filter")
    folded = fold(given)
    if not folded:
        raise InvalidFilter("the filter can match nothing: an empty list, or since after until")
    return Query(folded)


def followers(target: str) -> Query:
    """Count who follows a pubkey: authors of kind 3 events with this key in a `p` tag.

    The target is an npub, an nprofile or a hex pubkey.
    """
    pubkey = nip19.decode_pubkey(target)
    return _canonical("followers", pubkey, "#p", [kinds.CONTACTS])


def reactions(target: str) -> Query:
    """Count the reactions (kind 7) to an event or an address.

    The target is a note, an nevent, a hex id or an naddr.
    """
    return _about("reactions", target, [kinds.REACTION])


def reposts(target: str) -> Query:
    """Count the reposts of an event or an address (NIP-18).

    For an event, the query asks for kinds 6 and 16, because an id does not show the event's kind.
    For an address, the query asks for kind 16 only.
    """
    found = nip19.event_or_address(target)
    if ":" in found:
        return _canonical("reposts", found, "#a", [kinds.GENERIC_REPOST])
    return _canonical("reposts", found, "#e", [kinds.REPOST, kinds.GENERIC_REPOST])


def replies(target: str) -> Query:
    """Count the replies (kind 1) to an event: the direct replies and all replies below them."""
    return _about("replies", target, [kinds.TEXT_NOTE])


def quotes(target: str) -> Query:
    """Count the quotes of an event: events of kind 1 or 1111 with the event in a `q` tag."""
    found = nip19.event_or_address(target)
    return _canonical("quotes", found, "#q", [kinds.TEXT_NOTE, kinds.COMMENT])


def comments(target: str) -> Query:
    """Count the comments (kind 1111) on an event or an address, at any depth (NIP-22).

    The query finds comments by their `E` or `A` tag.
    """
    found = nip19.event_or_address(target)
    name = "#A" if ":" in found else "#E"
    return _canonical("comments", found, name, [kinds.COMMENT])


def replies_and_comments(target: str) -> Query:
    """Count the replies (kind 1) and comments (kind 1111) to an event or an address."""
    one, other = replies(target), comments(target)
    return Query((*one.filters, *other.filters), "replies+comments", one.target)


def zaps(target: str) -> Query:
    """Count the zaps of an event, an address or a person (NIP-57).

    The client reads and checks each zap receipt.
    """
    what = "a person or an event: expected npub, nprofile, note, nevent, naddr or 64 hex characters"
    name, found = nip19.person_event_or_address(target, what)
    return _canonical("zaps", found, f"#{name}", [RECEIPT])


CANONICAL = {
    "followers": followers,
    "reactions": reactions,
    "reposts": reposts,
    "quotes": quotes,
    "replies": replies,
    "comments": comments,
    "replies+comments": replies_and_comments,
    "zaps": zaps,
}
"""The canonical queries by name."""


def canonical(name: str, text: str) -> Query:
    """Return a canonical query by name, with the author and the relays of the identifier.

    Raises InvalidInput for an unknown name, InvalidIdentifier for a bad target.
    """
    make = CANONICAL.get(name)
    if make is None:
        raise InvalidInput(f"no such query: {clip(name, 40)} (there are {', '.join(CANONICAL)})")
    made = make(text)
    named = read_target(text)
    return msgspec.structs.replace(made, author=named.author, hints=named.hints)


ANSWERS: Final = ("reactions", "replies", "comments", "replies+comments")
"""The questions about events by which people answer somebody."""


def target_of(query: Query) -> OutboxTarget:
    """Return whose relays a query should be asked on (NIP-65): the target's author.

    People write reactions and replies to their own relays, too, so the kinds of these are given.
    """
    found = _author_of(query)
    kinds = (kind for one in query.filters for kind in one.kinds or ())
    answers = tuple(dict.fromkeys(kinds)) if query.name in ANSWERS else ()
    return msgspec.structs.replace(found, question=query.name, answers=answers)


def person_of(query: Query) -> str | None:
    """Return the pubkey that a question names: its one author, person, or author of an address."""
    authors = {key for one in query.filters for key in one.authors or ()}
    target = _author_of(query)
    named = target.author if target.event_id is None else None
    found = authors.pop() if len(authors) == 1 else named
    return found if found is not None and _is_key(found) else None


def is_regular(query: Query) -> bool:
    """Whether each id is an event of its own: no version of these kinds replaces another."""
    return all(
        one.search is None and one.kinds is not None and all(map(kinds.is_regular, one.kinds))
        for one in query.filters
    )


def is_listable(query: Query) -> bool:
    """Whether each id is an event of its own, which the relay sends to any client."""
    return is_regular(query) and all(
        RECEIVER_ONLY.isdisjoint(one.kinds or ()) for one in query.filters
    )


def _author_of(query: Query) -> OutboxTarget:
    names = {name for f in query.filters for name, _ in f.tags}
    values = {value for f in query.filters for _, listed in f.tags for value in listed}
    target = query.target or (values.pop() if len(values) == 1 else None)
    if target is None:
        return OutboxTarget()
    if names == {"#p"}:
        return OutboxTarget(author=target, hints=query.hints)
    if ":" in target:
        return OutboxTarget(author=target.split(":")[1], hints=query.hints)
    found = target if _is_key(target) else None
    return OutboxTarget(author=query.author, event_id=found, hints=query.hints)


def _open_target(zap: Zap) -> str:
    """Return the event or address whose author and splits decide whether a zap may pay its
    receiver.

    Empty if the zap names none, or an address of the receiver's own, which proves itself.
    """
    about = zap.about
    if about is None:
        return ""
    if nip19.is_address(about) and len(about) <= MOST_ADDRESS:
        return "" if about.split(":")[1] == zap.receiver else about
    return about if _is_key(about) else NO_TARGET


def _is_key(text: str) -> bool:
    """Whether text is 32 bytes of hex: a pubkey or an id."""
    return len(text) == 64 and not text.strip("0123456789abcdef")


def _about(name: str, target: str, asked: list[int]) -> Query:
    found = nip19.event_or_address(target)
    return _canonical(name, found, "#a" if ":" in found else "#e", asked)


def _canonical(name: str, target: str, tag: str, asked: list[int]) -> Query:
    return Query((Filter(kinds=asked, tags={tag: [target]}),), name, target)
