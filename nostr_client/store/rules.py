"""Decide which events a store keeps: replacement, deletion, expiration and vanishing.

The functions are pure. Sources: NIP-01 (replaceable and addressable events, ties), NIP-09 (deletion
requests), NIP-40 (expiration), NIP-62 (request to vanish).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from nostr_client.codecs import kinds, relay_url
from nostr_client.codecs.event import MAX_TIME
from nostr_client.store.base import SaveOutcome, SaveStatus

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from nostr_client.codecs.event import Event

SKEW: Final = 900
"""Seconds that a correct clock may be ahead. An event with a later date never moves a cursor."""

ALL_RELAYS: Final = "ALL_RELAYS"
"""The `relay` value of NIP-62 that addresses every relay and store."""

_HEX: Final = frozenset("0123456789abcdef")


class Version(NamedTuple):
    """Rank of an event among the versions of its address.

    The later version wins. If the times are equal, the version with the lower id wins.
    """

    created_at: int
    id: str

    def beats(self, other: Version) -> bool:
        if self.created_at != other.created_at:
            return self.created_at > other.created_at
        return self.id < other.id


class Coordinate(NamedTuple):
    """Address of a replaceable or addressable event. `d` is "" for a replaceable event."""

    kind: int
    pubkey: str
    d: str


class Deletion(NamedTuple):
    """Ids and addresses that one kind 5 event asks to delete. The addresses are its author's."""

    ids: tuple[str, ...]
    addresses: tuple[Coordinate, ...]


class PriorState(NamedTuple):
    """State of the store that matters for one new event."""

    held: bool = False
    """Whether the event itself is stored."""
    deleted: bool = False
    """Whether one of its owners deleted its id."""
    deleted_until: int | None = None
    """Time up to which its author deleted the versions of its address."""
    vanished_until: int | None = None
    """Time up to which its author, or the receiver of this gift wrap, vanished."""
    current: Version | None = None
    """The stored version of its address."""


NOTHING: Final = PriorState()


def judge(event: Event, known: PriorState, now: int) -> SaveOutcome:
    """Return the outcome of a new event for the state `known` at `now` (Unix seconds)."""
    return SaveOutcome(event.id, *verdict(event, known, expiration(event), now))


def verdict(event: Event, known: PriorState, ends: int | None, now: int) -> tuple[SaveStatus, str]:
    """Return status and reason like `judge`, for an event whose expiration is known."""
    if kinds.is_ephemeral(event.kind):
        return _PASSED if ends is None or ends > now else _EXPIRED
    if known is not NOTHING:
        refused = _refused(event, known)
        if refused is not None:
            return refused
    if ends is not None and ends <= now:
        return _EXPIRED
    if known.current is not None and not version(event).beats(known.current):
        return SaveStatus.SUPERSEDED, "a newer version is held"
    return _STORED


_STORED: Final = (SaveStatus.STORED, "")
_PASSED: Final = (SaveStatus.EPHEMERAL, "ephemeral events are not kept")
_EXPIRED: Final = (SaveStatus.EXPIRED, "its expiration has passed")


def _refused(event: Event, known: PriorState) -> tuple[SaveStatus, str] | None:
    if known.held:
        return SaveStatus.DUPLICATE, ""
    if _vanished(event, known):
        return SaveStatus.VANISHED, why_gone(event, SaveStatus.VANISHED)
    if _deleted(event, known):
        return SaveStatus.DELETED, why_gone(event, SaveStatus.DELETED)
    return None


def why_gone(event: Event, status: SaveStatus) -> str:
    """Return who asked to delete the event, or asked to vanish.

    For a gift wrap this may be its author or its recipient. The stored rows do not record which
    one.
    """
    who = "author or its recipient" if event.kind == kinds.GIFT_WRAP else "author"
    asked = "for its deletion" if status is SaveStatus.DELETED else "to vanish"
    return f"its {who} asked {asked}"


def _vanished(event: Event, known: PriorState) -> bool:
    if event.kind == kinds.VANISH or known.vanished_until is None:
        return False
    return event.created_at <= known.vanished_until


def _deleted(event: Event, known: PriorState) -> bool:
    if not is_deletable(event.kind):
        return False
    until = known.deleted_until
    return known.deleted or (until is not None and event.created_at <= until)


def is_deletable(kind: int) -> bool:
    """Return False for deletion requests (NIP-09) and requests to vanish (NIP-62), else True."""
    return kind not in (kinds.DELETION, kinds.VANISH)


def version(event: Event) -> Version:
    """Return the rank of an event among the versions of its address."""
    return Version(event.created_at, event.id)


def d_of(event: Event) -> str | None:
    """Return the `d` of an event's address: "" for a replaceable kind, None for other kinds.

    Only the first `d` tag counts. A `d` tag without a value is "".
    """
    kind = event.kind
    if 3 < kind < 10_000:  # fast path for nearly every event
        return None
    if kinds.is_replaceable(kind):
        return ""
    if not kinds.is_addressable(kind):
        return None
    first = next((tag for tag in event.tags if tag[0] == "d"), ())
    return first[1] if len(first) > 1 else ""


def expiration(event: Event) -> int | None:
    """Return the time of the first `expiration` tag in Unix seconds, or None without a valid time.

    A time above the largest storable time becomes that time.
    """
    for tag in event.tags:
        if tag[0] == "expiration":
            return _time(tag[1]) if len(tag) > 1 else None
    return None


def _time(text: str) -> int | None:
    if not (text.isascii() and text.isdigit()):
        return None
    return min(int(text), MAX_TIME) if len(text) < 20 else MAX_TIME


def deletion(event: Event) -> Deletion:
    """Return what a kind 5 event asks to delete.

    These are its `e` ids, and the `a` addresses that belong to its author.
    """
    ids = dict.fromkeys(value for value in event.tag_values("e") if is_id(value))
    found = (parse_address(value) for value in event.tag_values("a"))
    own = dict.fromkeys(a for a in found if a is not None and a.pubkey == event.pubkey)
    return Deletion(tuple(ids), tuple(own))


def parse_address(text: str) -> Coordinate | None:
    """Parse `kind:pubkey:d` of a replaceable or addressable kind. Return None for other texts.

    `d` may contain colons. For a replaceable kind, `d` is empty or absent.
    """
    kind, _, rest = text.partition(":")
    pubkey, _, d = rest.partition(":")
    if not (kind.isascii() and kind.isdigit() and len(kind) <= 5 and is_id(pubkey)):
        return None
    number = int(kind)
    if kinds.is_addressable(number) or (kinds.is_replaceable(number) and not d):
        return Coordinate(number, pubkey, d)
    return None


def is_id(text: str) -> bool:
    """Return whether a text is 64 lower-case hex digits, like an id or a public key."""
    return len(text) == 64 and _HEX.issuperset(text)


def vanishes_here(event: Event, urls: Collection[str]) -> bool:
    """Return whether a kind 62 event addresses all relays or one of `urls` (normalised URLs)."""
    named = event.tag_values("relay")
    return any(value == ALL_RELAYS or relay_url.normal_or_none(value) in urls for value in named)


def wrapped_for(event: Event) -> Iterator[str]:
    """Yield the recipients of a gift wrap.

    A recipient who vanishes removes the gift wrap too (NIP-62, NIP-59).
    """
    return event.tag_values("p") if event.kind == kinds.GIFT_WRAP else iter(())


def owners(event: Event) -> tuple[str, ...]:
    """Return the public keys whose requests to delete an id or to vanish remove the event.

    These are its author and, for a gift wrap, its recipients (NIP-09, NIP-59, NIP-62). The author
    of a gift wrap is a key that nobody keeps.
    """
    if event.kind != kinds.GIFT_WRAP:  # fast path for nearly every event
        return (event.pubkey,)
    return (event.pubkey, *wrapped_for(event))
