"""Identifiers that people copy: npub, nsec, note, nprofile, nevent, naddr, and `nostr:` URIs.

Source: NIP-19, NIP-21. TLV types that are not known are passed over, as NIP-19 asks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from nostr_client import bech32
from nostr_client.errors import InvalidIdentifier, clip
from nostr_client.kinds import MAX_KIND

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

URI_SCHEME: Final = "nostr:"

_SPECIAL, _RELAY, _AUTHOR, _KIND = range(4)

_SHOWN: Final = 24
"""Bytes of foreign text that an error names it by."""


class PublicKey(msgspec.Struct, frozen=True):
    """npub: a public key, 64 lower-case hex characters."""

    pubkey: str

    def encode(self) -> str:
        """`npub1...`. Raises InvalidIdentifier."""
        return bech32.encode("npub", _from_hex(self.pubkey))


class SecretKey(msgspec.Struct, frozen=True):
    """nsec: 32 secret bytes; repr does not show them."""

    secret: bytes

    def encode(self) -> str:
        """`nsec1...`. Raises InvalidIdentifier."""
        return encode_secret(self.secret)

    def __repr__(self) -> str:
        return "SecretKey(...)"


class Note(msgspec.Struct, frozen=True):
    """note: an event id, 64 lower-case hex characters."""

    id: str

    def encode(self) -> str:
        """`note1...`. Raises InvalidIdentifier."""
        return bech32.encode("note", _from_hex(self.id))


class Profile(msgspec.Struct, frozen=True):
    """nprofile: a public key and relays where its profile may be found."""

    pubkey: str
    relays: tuple[str, ...] = ()

    def encode(self) -> str:
        """`nprofile1...`. Raises InvalidIdentifier."""
        items = [(_SPECIAL, _from_hex(self.pubkey)), *_relay_items(self.relays)]
        return bech32.encode("nprofile", _join(items))


class EventPointer(msgspec.Struct, frozen=True):
    """nevent: an event id, with relays, author and kind as hints that nobody has checked."""

    id: str
    relays: tuple[str, ...] = ()
    author: str | None = None
    kind: int | None = None

    def encode(self) -> str:
        """`nevent1...`. Raises InvalidIdentifier."""
        items = [(_SPECIAL, _from_hex(self.id)), *_relay_items(self.relays)]
        if self.author is not None:
            items.append((_AUTHOR, _from_hex(self.author)))
        if self.kind is not None:
            items.append((_KIND, _kind_bytes(self.kind)))
        return bech32.encode("nevent", _join(items))


class Address(msgspec.Struct, frozen=True):
    """naddr: kind, author and `d` tag of an addressable event, with relays as hints."""

    kind: int
    pubkey: str
    identifier: str = ""
    relays: tuple[str, ...] = ()

    @property
    def coordinate(self) -> str:
        """The address as `a` tags hold it: `kind:pubkey:d`."""
        return f"{self.kind}:{self.pubkey}:{self.identifier}"

    def encode(self) -> str:
        """`naddr1...`. Raises InvalidIdentifier."""
        items = [(_SPECIAL, _utf8(self.identifier)), *_relay_items(self.relays)]
        items += [(_AUTHOR, _from_hex(self.pubkey)), (_KIND, _kind_bytes(self.kind))]
        return bech32.encode("naddr", _join(items))


Identifier = PublicKey | SecretKey | Note | Profile | EventPointer | Address


def decode(text: str) -> Identifier:
    """Read any NIP-19 identifier, with or without `nostr:` before it. Raises InvalidIdentifier.

    A secret key in a `nostr:` URI is refused (NIP-21). Errors never repeat the text of one.
    """
    bare = text.strip()
    is_uri = bare[: len(URI_SCHEME)].lower() == URI_SCHEME
    prefix, payload = bech32.decode(bare[len(URI_SCHEME) :] if is_uri else bare)
    if prefix == "nsec" and not is_uri:
        return SecretKey(_exactly_32(payload))
    reader = _READERS.get(prefix)
    if reader is None:
        raise InvalidIdentifier(f"not an identifier of NIP-19: {clip(prefix, 20)}1...")
    return reader(payload)


def decode_pubkey(text: str) -> str:
    """The public key, as hex, of npub, nprofile or 64 hex characters. Raises InvalidIdentifier."""
    if _looks_hex(text.strip()):
        return text.strip().lower()
    what = "a public key: expected npub, nprofile or 64 hex characters"
    found = decode_named(text, what)
    if isinstance(found, (PublicKey, Profile)):
        return found.pubkey
    raise InvalidIdentifier(f"{named(text)} is not {what}")


def decode_named(text: str, what: str) -> Identifier:
    """As `decode`, for text that is no secret; its error names the text, and `what` is right."""
    try:
        return decode(text)
    except InvalidIdentifier as error:
        raise InvalidIdentifier(f"{named(text)} is not {what} ({error})") from error


def named(text: str) -> str:
    """What an error calls text by: its beginning, and nothing of what may be a secret key."""
    shown = "nsec1..." if "nsec" in text.lower() else clip(text.strip(), _SHOWN)
    return f"'{shown}'"


def decode_secret(text: str) -> bytes:
    """The 32 bytes of nsec or of 64 hex characters. Raises InvalidIdentifier, without the text."""
    bare = text.strip()
    if _looks_hex(bare):
        return bytes.fromhex(bare)
    found = decode(bare)
    if isinstance(found, SecretKey):
        return found.secret
    raise InvalidIdentifier("not a secret key: expected nsec or 64 hex characters")


def encode_secret(secret: bytes) -> str:
    """`nsec1...` of 32 secret bytes. Raises InvalidIdentifier."""
    return bech32.encode("nsec", _exactly_32(secret))


def to_uri(identifier: PublicKey | Note | Profile | EventPointer | Address) -> str:
    """The `nostr:` URI of an identifier (NIP-21, which has none for secret keys)."""
    return URI_SCHEME + identifier.encode()


def _profile(payload: bytes) -> Profile:
    items = _split(payload)
    return Profile(_exactly_32(_special(items)).hex(), _relays(items))


def _event_pointer(payload: bytes) -> EventPointer:
    items = _split(payload)
    author, kind = items.get(_AUTHOR), items.get(_KIND)
    return EventPointer(
        _exactly_32(_special(items)).hex(),
        _relays(items),
        _exactly_32(author[0]).hex() if author else None,
        _kind(kind[0]) if kind else None,
    )


def _address(payload: bytes) -> Address:
    items = _split(payload)
    if _AUTHOR not in items or _KIND not in items:
        raise InvalidIdentifier("naddr without author or kind")
    try:
        identifier = _special(items).decode()
    except UnicodeDecodeError as error:
        raise InvalidIdentifier("naddr whose identifier is not UTF-8") from error
    author = _exactly_32(items[_AUTHOR][0]).hex()
    return Address(_kind(items[_KIND][0]), author, identifier, _relays(items))


_READERS: Final[dict[str, Callable[[bytes], Identifier]]] = {
    "npub": lambda payload: PublicKey(_exactly_32(payload).hex()),
    "note": lambda payload: Note(_exactly_32(payload).hex()),
    "nprofile": _profile,
    "nevent": _event_pointer,
    "naddr": _address,
}


def _split(payload: bytes) -> dict[int, list[bytes]]:
    items: dict[int, list[bytes]] = {}
    place = 0
    while place < len(payload):
        end = place + 2 + (payload[place + 1] if place + 1 < len(payload) else len(payload))
        if end > len(payload):
            raise InvalidIdentifier("cut short: a TLV item is longer than what is left")
        items.setdefault(payload[place], []).append(payload[place + 2 : end])
        place = end
    return items


def _join(items: list[tuple[int, bytes]]) -> bytes:
    if any(len(value) > 255 for _, value in items):
        raise InvalidIdentifier("an item is longer than the 255 bytes that NIP-19 can hold")
    return b"".join(bytes((kind, len(value))) + value for kind, value in items)


def _special(items: dict[int, list[bytes]]) -> bytes:
    if _SPECIAL not in items:
        raise InvalidIdentifier("the identifier names nothing: no TLV item of type 0")
    return items[_SPECIAL][0]


def _relays(items: dict[int, list[bytes]]) -> tuple[str, ...]:
    return tuple(raw.decode("ascii") for raw in items.get(_RELAY, ()) if raw.isascii())


def _relay_items(relays: tuple[str, ...]) -> Iterator[tuple[int, bytes]]:
    for relay in relays:
        if not relay.isascii():
            raise InvalidIdentifier("a relay URL must be ASCII here")
        yield _RELAY, relay.encode("ascii")


def _kind(raw: bytes) -> int:
    kind = int.from_bytes(raw, "big")
    if len(raw) != 4 or kind > MAX_KIND:
        raise InvalidIdentifier("not a kind: 4 bytes, at most 65535")
    return kind


def _kind_bytes(kind: int) -> bytes:
    if not 0 <= kind <= MAX_KIND:
        raise InvalidIdentifier("not a kind: 0 to 65535")
    return kind.to_bytes(4, "big")


def _exactly_32(payload: bytes) -> bytes:
    if len(payload) != 32:
        raise InvalidIdentifier(f"32 bytes expected, {len(payload)} found")
    return payload


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InvalidIdentifier("the identifier holds a lone surrogate") from error


def _looks_hex(text: str) -> bool:
    return len(text) == 64 and not text.strip("0123456789abcdefABCDEF")


def _from_hex(text: str) -> bytes:
    if not _looks_hex(text):
        raise InvalidIdentifier("64 hex characters expected")
    return bytes.fromhex(text)
