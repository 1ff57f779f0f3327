"""The Nostr event: strict structure, canonical bytes, id. No cryptography beyond SHA-256.

Source: NIP-01. The signature is checked in `nostr_client.codecs.keys`, so that this module can be
imported where libsecp256k1 is not wanted.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Annotated, Any, Final, Protocol

import msgspec
from msgspec import Meta

from nostr_client.codecs.kinds import MAX_KIND
from nostr_client.errors import InvalidEvent, clip

MAX_TIME: Final = 2**63 - 1
"""Largest `created_at`, in seconds: what SQLite and the 64-bit negentropy timestamp can hold."""

Tag = tuple[str, ...]
Tags = tuple[Tag, ...]

_Hex32 = Annotated[str, Meta(min_length=64, max_length=64)]
_Hex64 = Annotated[str, Meta(min_length=128, max_length=128)]
_Tag = Annotated[tuple[str, ...], Meta(min_length=1)]
_Time = Annotated[int, Meta(ge=0, le=MAX_TIME)]
_Kind = Annotated[int, Meta(ge=0, le=MAX_KIND)]


class Event(msgspec.Struct, frozen=True, gc=False):
    """A signed event (NIP-01). Hex is lower case.

    The constructor checks nothing, for speed. `parse_event` returns an event with valid fields.
    `check_event` checks the fields of an event. `verify` also checks the id and the signature.
    """

    # gc=False: strings, integers and tuples of them hold no reference cycle.
    id: _Hex32
    pubkey: _Hex32
    created_at: _Time
    """Unix seconds, as the author claims."""
    kind: _Kind
    tags: tuple[_Tag, ...]
    content: str
    sig: _Hex64

    def __hash__(self) -> int:
        return hash(self.id)  # equal events have equal ids

    def to_json(self) -> str:
        """Return the event as compact JSON, with the keys in NIP-01's order.

        Raises InvalidEvent if a text has a lone surrogate.
        """
        return _encode(self).decode()

    def tag_values(self, name: str) -> Iterator[str]:
        """Yield the second item of each tag with this name, in order."""
        return (tag[1] for tag in self.tags if tag[0] == name and len(tag) > 1)

    def first_tag(self, name: str) -> str | None:
        """Return the second item of the first tag with this name, or None.

        The method skips tags that have only one item.
        """
        return next(self.tag_values(name), None)

    def __repr__(self) -> str:
        shown = f"id={self.id!r}, kind={self.kind}, pubkey={self.pubkey!r}"
        return f"Event({shown}, tags={len(self.tags)}, content={clip(self.content, 40)!r})"


class Dated(Protocol):
    """An event, or what is kept of one."""

    @property
    def created_at(self) -> int: ...
    @property
    def id(self) -> str | bytes: ...


def nip01_order(one: Dated) -> tuple[int, Any]:
    """Return a sort key: newer first, of one second the lower id (NIP-01).

    Of the versions of a replaceable event, the first is the one that counts.
    """
    return -one.created_at, one.id


class EventTemplate(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of an event that a Signer signs. The signer checks them."""

    kind: int
    content: str = ""
    tags: Tags = ()
    created_at: int | None = None
    """Unix seconds. None means the time of signing."""


_encoder: Final = msgspec.json.Encoder()
_decode_event: Final = msgspec.json.Decoder(Event).decode


def parse_event(raw: bytes | str | Mapping[str, object]) -> Event:
    """Read one event from JSON text, or from a mapping of decoded JSON.

    The function checks the types, ranges and lengths of all fields. Hex must be lower case, and
    numbers must be written as integers. The function drops unknown keys, because the signature does
    not cover them. The function does not check the id and the signature. Raises InvalidEvent.
    """
    try:
        if isinstance(raw, Mapping):
            event = msgspec.convert(raw, Event)
            _encoder.encode(event)  # refuses lone surrogates, which convert lets pass
        else:
            event = _decode_event(raw)
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidEvent(f"not an event: {clip(str(error))}") from error
    return require_hex(event)


def require_hex(event: Event) -> Event:
    """The same event, once its id, pubkey and sig are seen to be lower-case hex (InvalidEvent)."""
    text = event.id + event.pubkey + event.sig
    try:
        if bytes.fromhex(text).hex() == text:  # fromhex alone lets spaces and upper case pass
            return event
    except ValueError:
        pass
    raise InvalidEvent("not an event: id, pubkey and sig must be lower-case hex")


def check_event(event: Event) -> None:
    """Raise InvalidEvent unless every field is as `parse_event` would have it."""
    try:
        same = _decode_event(_encoder.encode(event)) == event
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidEvent(f"not an event: {clip(str(error))}") from error
    if not same:
        raise InvalidEvent("not an event: fields of other types than NIP-01's")
    require_hex(event)


def has_plain_fields(event: Event) -> bool:
    """True when every field has the very type and range that `parse_event` gives; about 1 µs.

    Texts are not looked into: `require_hex` checks the hex ones, and lone surrogates show when the
    id is computed. False proves nothing: then `check_event` decides.
    """
    tags = event.tags
    return (
        type(event.created_at) is type(event.kind) is int
        and 0 <= event.created_at <= MAX_TIME
        and 0 <= event.kind <= MAX_KIND
        and type(event.content) is type(event.id) is type(event.pubkey) is type(event.sig) is str
        and len(event.id) == len(event.pubkey) == 64
        and len(event.sig) == 128
        and type(tags) is tuple
        and _ONLY_TUPLES.issuperset(map(type, tags))
        and all(tags)
        and _ONLY_TEXTS.issuperset(map(type, chain.from_iterable(tags)))
    )


_ONLY_TUPLES: Final = frozenset((tuple,))
_ONLY_TEXTS: Final = frozenset((str,))


def serialize(
    pubkey: str, created_at: int, kind: int, tags: Sequence[Sequence[str]], content: str
) -> bytes:
    """The UTF-8 bytes that are hashed for the id: those of JavaScript's JSON.stringify.

    Short escapes for newline, quote, backslash, return, tab, backspace and form feed, other
    control characters as lower-case \\u00xx, everything else (0x7f, U+2028, `&`) verbatim.
    Raises InvalidEvent for lone surrogates.
    """
    return _encode([0, pubkey, created_at, kind, tags, content])


def compute_id(
    pubkey: str, created_at: int, kind: int, tags: Sequence[Sequence[str]], content: str
) -> str:
    """The event id: SHA-256 of `serialize(...)` as 64 lower-case hex characters."""
    return hashlib.sha256(serialize(pubkey, created_at, kind, tags, content)).hexdigest()


def has_valid_id(event: Event) -> bool:
    """True when the id is the hash of the content; False also for what cannot be hashed."""
    try:
        made = compute_id(event.pubkey, event.created_at, event.kind, event.tags, event.content)
    except InvalidEvent:
        return False
    return made == event.id


def _encode(value: object) -> bytes:
    try:
        return _encoder.encode(value)
    except (ValueError, TypeError, OverflowError) as error:
        raise InvalidEvent(f"cannot be written as JSON: {clip(str(error))}") from error
