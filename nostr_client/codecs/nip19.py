"""Identifiers that people copy: npub, nsec, note, nprofile, nevent, naddr, and `nostr:` URIs.

`read` is the one function for what a person types or pastes; `decode` takes an identifier alone.
The subject of an identifier must be sound. A hint (author, kind, relay) that is not sound is
dropped with a warning, as it says nothing about the subject. TLV types that are not known are
ignored, as NIP-19 asks. Source: NIP-19, NIP-21.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

import msgspec

from nostr_client.codecs import bech32
from nostr_client.codecs.kinds import MAX_KIND
from nostr_client.codecs.nip05 import is_name
from nostr_client.errors import InvalidIdentifier, clip

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


PREFIXES: Final = ("npub", "nsec", "note", "nprofile", "nevent", "naddr", "nrelay")
"""The prefixes of NIP-19."""

_AROUND: Final = " \t\r\n.,;:!?\"'`()[]{}<>“”‘’«»*_~|"
_NAMED: Final = rf"(?:{'|'.join(PREFIXES)})1"
_BEFORE: Final = re.compile(rf"(?:(?:web\+)?nostr:(?://)?|@)+(?={_NAMED})", re.IGNORECASE)
_WHOLE: Final = re.compile(rf"{_NAMED}[0-9a-z]+", re.IGNORECASE)
_HEX: Final = re.compile(r"[0-9a-fA-F]{64}")
_URL: Final = re.compile(r"https?://[^/?#]*([^?#]*)(.*)", re.IGNORECASE | re.DOTALL)


def identifier_in(text: str) -> str:
    """The identifier or the 64 hex characters in pasted text, else the text without outer space.

    In the URL of a web viewer the identifier is a part of the path, the last one that looks like
    one. Raises InvalidIdentifier for a URL without any.
    """
    bare = text.strip()
    url = _URL.fullmatch(bare.strip(_AROUND))
    if url is not None:
        return _in_path(url[1])
    inside = bare.strip(_AROUND)
    before = _BEFORE.match(inside)
    inside = inside[before.end() :] if before else inside
    return inside if looks_hex(inside) or _WHOLE.fullmatch(inside) else bare


def looks_hex(text: str) -> bool:
    """Whether text has the form of an id or a key: 64 hex characters of either case."""
    return _HEX.fullmatch(text) is not None


def _in_path(path: str) -> str:
    for part in reversed(path.split("/")):
        before = _BEFORE.match(part)
        inside = (part[before.end() :] if before else part).strip(_AROUND)
        if looks_hex(inside) or _WHOLE.fullmatch(inside):
            return inside
    raise InvalidIdentifier("a URL without an identifier in its path")


T = TypeVar("T")

URI_SCHEME: Final = "nostr:"

_SPECIAL, _RELAY, _AUTHOR, _KIND = range(4)

_SHOWN: Final = 24
"""Bytes of foreign text that an error names it by."""


class PublicKey(msgspec.Struct, frozen=True):
    """An npub: a public key, in 64 lower-case hex characters."""

    pubkey: str

    def encode(self) -> str:
        """Return `npub1...`. Raises InvalidIdentifier."""
        return bech32.encode("npub", _from_hex(self.pubkey))


class SecretKey(msgspec.Struct, frozen=True):
    """An nsec: a secret key of 32 bytes. `repr` does not show the bytes."""

    secret: bytes

    def encode(self) -> str:
        """Return `nsec1...`. Raises InvalidIdentifier."""
        return encode_secret(self.secret)

    def __repr__(self) -> str:
        return "SecretKey(...)"


class Note(msgspec.Struct, frozen=True):
    """A note: an event id, in 64 lower-case hex characters."""

    id: str

    def encode(self) -> str:
        """Return `note1...`. Raises InvalidIdentifier."""
        return bech32.encode("note", _from_hex(self.id))


class Profile(msgspec.Struct, frozen=True):
    """An nprofile: a public key, and relays that may have the profile."""

    pubkey: str
    relays: tuple[str, ...] = ()

    def encode(self) -> str:
        """Return `nprofile1...`. Raises InvalidIdentifier."""
        items = [(_SPECIAL, _from_hex(self.pubkey)), *_relay_items(self.relays)]
        return bech32.encode("nprofile", _join(items))


class EventPointer(msgspec.Struct, frozen=True):
    """An nevent: an event id, with relays, author and kind as hints.

    Nobody has checked the hints.
    """

    id: str
    relays: tuple[str, ...] = ()
    author: str | None = None
    kind: int | None = None

    def encode(self) -> str:
        """Return `nevent1...`. Raises InvalidIdentifier."""
        items = [(_SPECIAL, _from_hex(self.id)), *_relay_items(self.relays)]
        if self.author is not None:
            items.append((_AUTHOR, _from_hex(self.author)))
        if self.kind is not None:
            items.append((_KIND, _kind_bytes(self.kind)))
        return bech32.encode("nevent", _join(items))


class Address(msgspec.Struct, frozen=True):
    """An naddr: kind, author and `d` tag of an addressable event, with relays as hints."""

    kind: int
    pubkey: str
    identifier: str = ""
    relays: tuple[str, ...] = ()

    @property
    def coordinate(self) -> str:
        """The address in the form of `a` tags: `kind:pubkey:d`."""
        return f"{self.kind}:{self.pubkey}:{self.identifier}"

    def encode(self) -> str:
        """Return `naddr1...`. Raises InvalidIdentifier."""
        items = [(_SPECIAL, _utf8(self.identifier)), *_relay_items(self.relays)]
        items += [(_AUTHOR, _from_hex(self.pubkey)), (_KIND, _kind_bytes(self.kind))]
        return bech32.encode("naddr", _join(items))


class Hex(msgspec.Struct, frozen=True):
    """64 lower-case hex characters: an event id or a public key, which hex does not say."""

    value: str


Identifier = PublicKey | SecretKey | Note | Profile | EventPointer | Address

Target = PublicKey | Note | Profile | EventPointer | Address | Hex
"""What a person may name: any identifier but a secret key."""

ANY: Final = "an identifier: expected npub, nprofile, note, nevent, naddr or 64 hex characters"
PUBKEY: Final = "a public key: expected npub, nprofile or 64 hex characters"
EVENT: Final = "an event: expected note, nevent, naddr or 64 hex characters"


class Parsed(NamedTuple):
    """An identifier, and the hints that were dropped, each as a warning."""

    identifier: Identifier
    warnings: tuple[str, ...] = ()


class ParsedIdentifier(NamedTuple):
    """What a person named, and the hints that were dropped, each as a warning."""

    target: Target
    warnings: tuple[str, ...] = ()


def parse(text: str) -> Parsed:
    """Read any NIP-19 identifier, and return the warnings too.

    The text may begin with `nostr:`. The function refuses a secret key in a `nostr:` URI (NIP-21).
    An error never contains a secret key. Raises InvalidIdentifier.
    """
    bare = text.strip()
    is_uri = bare[: len(URI_SCHEME)].lower() == URI_SCHEME
    prefix, payload = bech32.decode(bare[len(URI_SCHEME) :] if is_uri else bare)
    if prefix == "nsec" and not is_uri:
        return Parsed(SecretKey(_exactly_32(payload)))
    reader = _READERS.get(prefix)
    if reader is not None:
        dropped: list[str] = []
        return Parsed(reader(payload, dropped), tuple(dropped))
    if prefix == "nrelay":
        raise InvalidIdentifier("nrelay is deprecated: give the URL of the relay")
    raise InvalidIdentifier(f"not an identifier of NIP-19: {clip(prefix, 20)}1...")


def decode(text: str) -> Identifier:
    """Read any NIP-19 identifier.

    This function does the same as `parse`, but returns no warnings. Raises InvalidIdentifier.
    """
    return parse(text).identifier


def read(text: str, what: str = ANY) -> ParsedIdentifier:
    """Read the identifier that a person typed or pasted.

    The text is 64 hex characters, or any identifier except a secret key. The function removes
    punctuation around the identifier, `@`, `nostr:`, `web+nostr:` and the URL of a web viewer.
    Raises InvalidIdentifier, which shows the text and says that the text is not `what`. The error
    never shows a secret key.
    """
    if is_name(text):
        raise InvalidIdentifier(f"{named(text)} is not {what}: {_A_NAME}")
    try:
        bare = identifier_in(text)
        if looks_hex(bare):
            return ParsedIdentifier(Hex(bare.lower()))
        found, warnings = parse(bare)
    except InvalidIdentifier as error:
        raise InvalidIdentifier(f"{named(text)} is not {what} ({error})") from error
    if isinstance(found, SecretKey):
        secret = "a secret key, which belongs nowhere but in your signer"
        raise InvalidIdentifier(f"{named(text)} is not {what} (it is {secret})")
    return ParsedIdentifier(found, warnings)


_A_NAME: Final = (
    "it is a name at a domain (NIP-05), which commands that ask relays look up, such as "
    "`nostr-client count followers NAME`"
)


def decode_pubkey(text: str) -> str:
    """The public key, as hex, that a person named. Raises InvalidIdentifier."""
    match read(text, PUBKEY).target:
        case PublicKey(pubkey) | Profile(pubkey) | Hex(pubkey):
            return pubkey
    raise InvalidIdentifier(f"{named(text)} is not {PUBKEY}")


def event_or_address(text: str, what: str = EVENT) -> str:
    """The hex id of the event, or the address, that a person named. Raises InvalidIdentifier.

    An address is an naddr, or plain text as `a` tags hold it (`kind:pubkey:d`).
    """
    if is_address(text.strip()):
        return text.strip()
    match read(text, what).target:
        case Note(id) | EventPointer(id) | Hex(id):
            return id
        case Address() as address:
            return address.coordinate
    raise InvalidIdentifier(f"{named(text)} is not {what}")


def person_event_or_address(text: str, what: str) -> tuple[str, str]:
    """What a person named, with the tag that names it: `p`, `e` or `a`. Raises InvalidIdentifier.

    A person must be an npub or nprofile: 64 hex characters are an event's id.
    """
    if not is_address(text.strip()):
        match read(text, what).target:
            case PublicKey(pubkey) | Profile(pubkey):
                return "p", pubkey
    found = event_or_address(text, what)
    return ("a" if ":" in found else "e"), found


def is_address(text: str) -> bool:
    """Whether text is an address as `a` tags hold it: `kind:pubkey:d`."""
    kind, _, rest = text.partition(":")
    pubkey, sign, _ = rest.partition(":")
    fits = kind.isascii() and kind.isdecimal() and len(kind) <= 5 and int(kind) <= MAX_KIND
    return bool(fits and sign and looks_hex(pubkey) and pubkey == pubkey.lower())


def named(text: str) -> str:
    """What an error calls text by: its beginning, and nothing of what may be a secret key."""
    shown = "nsec1..." if "nsec" in text.lower() else clip(text.strip(), _SHOWN)
    return f"'{shown}'"


def decode_secret(text: str) -> bytes:
    """The 32 bytes of nsec or of 64 hex characters. Raises InvalidIdentifier, without the text."""
    bare = text.strip()
    if looks_hex(bare):
        return bytes.fromhex(bare)
    found = decode(bare)
    if isinstance(found, SecretKey):
        return found.secret
    raise InvalidIdentifier("not a secret key: expected nsec or 64 hex characters")


def encode_secret(secret: bytes) -> str:
    """`nsec1...` of 32 secret bytes. Raises InvalidIdentifier."""
    return bech32.encode("nsec", _exactly_32(secret))


def _profile(payload: bytes, dropped: list[str]) -> Profile:
    items = _split(payload, dropped)
    return Profile(_exactly_32(_special(items)).hex(), _relays(items, dropped))


def _event_pointer(payload: bytes, dropped: list[str]) -> EventPointer:
    items = _split(payload, dropped)
    return EventPointer(
        _exactly_32(_special(items)).hex(),
        _relays(items, dropped),
        _hint("author", lambda raw: _exactly_32(raw).hex(), items.get(_AUTHOR), dropped),
        _hint("kind", _kind, items.get(_KIND), dropped),
    )


def _address(payload: bytes, dropped: list[str]) -> Address:
    items = _split(payload, dropped)
    if _AUTHOR not in items or _KIND not in items:
        raise InvalidIdentifier("naddr without author or kind")
    try:
        identifier = _special(items).decode()
    except UnicodeDecodeError as error:
        raise InvalidIdentifier("naddr whose identifier is not UTF-8") from error
    author = _exactly_32(items[_AUTHOR][0]).hex()
    return Address(_kind(items[_KIND][0]), author, identifier, _relays(items, dropped))


_READERS: Final[dict[str, Callable[[bytes, list[str]], Identifier]]] = {
    "npub": lambda payload, _: PublicKey(_exactly_32(payload).hex()),
    "note": lambda payload, _: Note(_exactly_32(payload).hex()),
    "nprofile": _profile,
    "nevent": _event_pointer,
    "naddr": _address,
}


def _split(payload: bytes, dropped: list[str]) -> dict[int, list[bytes]]:
    """The TLV items by type; one that is cut short ends them, and is dropped."""
    items: dict[int, list[bytes]] = {}
    place = 0
    while place < len(payload):
        end = place + 2 + (payload[place + 1] if place + 1 < len(payload) else len(payload))
        if end > len(payload):
            dropped.append("its end was dropped: a TLV item is longer than what is left")
            break
        items.setdefault(payload[place], []).append(payload[place + 2 : end])
        place = end
    return items


def _hint(
    name: str, convert: Callable[[bytes], T], found: list[bytes] | None, dropped: list[str]
) -> T | None:
    try:
        return convert(found[0]) if found else None
    except InvalidIdentifier as error:
        dropped.append(f"its {name} was dropped: {error}")
        return None


def _join(items: list[tuple[int, bytes]]) -> bytes:
    if any(len(value) > 255 for _, value in items):
        raise InvalidIdentifier("an item is longer than the 255 bytes that NIP-19 can hold")
    return b"".join(bytes((kind, len(value))) + value for kind, value in items)


def _special(items: dict[int, list[bytes]]) -> bytes:
    if _SPECIAL not in items:
        raise InvalidIdentifier("the identifier names nothing: no TLV item of type 0")
    return items[_SPECIAL][0]


def _relays(items: dict[int, list[bytes]], dropped: list[str]) -> tuple[str, ...]:
    found = items.get(_RELAY, [])
    usable = [raw.decode("ascii") for raw in found if raw and raw.isascii()]
    if len(usable) < len(found):
        dropped.append("a relay was dropped: empty, or not ASCII")
    return tuple(usable)


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


def _from_hex(text: str) -> bytes:
    if not looks_hex(text):
        raise InvalidIdentifier("64 hex characters expected")
    return bytes.fromhex(text)
