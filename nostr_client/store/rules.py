"""What a store keeps: replace, delete, expire and vanish, as functions of values alone.

Sources: NIP-01 (replaceable and addressable events, ties), NIP-09 (deletion requests), NIP-40
(expiration), NIP-62 (request to vanish).
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
"""Seconds that an honest clock may be ahead; what is dated later never moves a cursor."""

ALL_RELAYS: Final = "ALL_RELAYS"
"""The `relay` value of NIP-62 that speaks to every relay and store."""

_HEX: Final = frozenset("0123456789abcdef")


class Version(NamedTuple):
    """Which of two events of one replaceable or address wins: later, then the lowest id."""

    created_at: int
    id: str

    def beats(self, other: Version) -> bool:
        if self.created_at != other.created_at:
            return self.created_at > other.created_at
        return self.id < other.id


class Coordinate(NamedTuple):
    """Which event a replaceable (`d` is "") or addressable event is a version of."""

    kind: int
    pubkey: str
    d: str


class Deletion(NamedTuple):
    """What one kind 5 event asks for: ids and addresses, all of its own author."""

    ids: tuple[str, ...]
    addresses: tuple[Coordinate, ...]


class PriorState(NamedTuple):
    """What the store knows that bears on one arriving event."""

    held: bool = False
    """The event itself is there."""
    deleted: bool = False
    """One of its owners deleted its id."""
    deleted_until: int | None = None
    """Its author deleted the versions of its address up to this time."""
    vanished_until: int | None = None
    """Its author, or the receiver of this gift wrap, vanished up to this time."""
    current: Version | None = None
    """The version of its address that is held."""


NOTHING: Final = PriorState()


def judge(event: Event, known: PriorState, now: int) -> SaveOutcome:
    """What becomes of an arriving event, given what is known at `now` (Unix seconds)."""
    return SaveOutcome(event.id, *verdict(event, known, expiration(event), now))


def verdict(event: Event, known: PriorState, ends: int | None, now: int) -> tuple[SaveStatus, str]:
    """As `judge`, for those who have the event's expiration already: status and reason."""
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
    """Why an event that is DELETED or VANISHED is not kept: who asked for that.

    Of a gift wrap it may have been the recipient, and what is kept of the request does not say.
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
    """False for deletion requests (NIP-09) and requests to vanish (NIP-62)."""
    return kind not in (kinds.DELETION, kinds.VANISH)


def version(event: Event) -> Version:
    """How the event ranks among the versions of its address."""
    return Version(event.created_at, event.id)


def d_of(event: Event) -> str | None:
    """The `d` under which only one version is kept, "" for replaceable kinds, None for others.

    Of several `d` tags the first counts, and one without a value is "".
    """
    kind = event.kind
    if 3 < kind < 10_000:  # nearly every event, and this is asked for every event
        return None
    if kinds.is_replaceable(kind):
        return ""
    if not kinds.is_addressable(kind):
        return None
    first = next((tag for tag in event.tags if tag[0] == "d"), ())
    return first[1] if len(first) > 1 else ""


def expiration(event: Event) -> int | None:
    """When the event ends by its first `expiration` tag (Unix seconds); None: never, or no time.

    Later than the largest time that a store can hold is that time.
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
    """What a kind 5 event asks for: its `e` ids, and those `a` addresses that are its author's."""
    ids = dict.fromkeys(value for value in event.tag_values("e") if is_id(value))
    found = (parse_address(value) for value in event.tag_values("a"))
    own = dict.fromkeys(a for a in found if a is not None and a.pubkey == event.pubkey)
    return Deletion(tuple(ids), tuple(own))


def parse_address(text: str) -> Coordinate | None:
    """`kind:pubkey:d` of a replaceable or addressable kind, where `d` may hold colons; else None.

    Replaceable kinds are written with an empty `d`, or with none at all.
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
    """Whether a text is 64 lower-case hex digits, as ids and public keys are."""
    return len(text) == 64 and _HEX.issuperset(text)


def vanishes_here(event: Event, urls: Collection[str]) -> bool:
    """True when a kind 62 event speaks to all relays, or to one of ours (normalised URLs)."""
    named = event.tag_values("relay")
    return any(value == ALL_RELAYS or relay_url.normal_or_none(value) in urls for value in named)


def wrapped_for(event: Event) -> Iterator[str]:
    """Whom a gift wrap is for: who vanishes takes these with them (NIP-62, NIP-59)."""
    return event.tag_values("p") if event.kind == kinds.GIFT_WRAP else iter(())


def owners(event: Event) -> tuple[str, ...]:
    """The public keys whose requests to delete an id or to vanish remove the event.

    These are its author and, as the author of a gift wrap is a key that nobody keeps, the
    recipients of a gift wrap (NIP-09, NIP-59, NIP-62).
    """
    if event.kind != kinds.GIFT_WRAP:  # nearly every event
        return (event.pubkey,)
    return (event.pubkey, *wrapped_for(event))
