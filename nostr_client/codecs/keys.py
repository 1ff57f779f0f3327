"""BIP-340 keys: sign and verify events. The one module that uses `codecs.secp256k1`.

Source: NIP-01, BIP-340.
"""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING, Final, NoReturn, Protocol

import msgspec

from nostr_client.codecs import nip19
from nostr_client.codecs.event import (
    Event,
    EventTemplate,
    check_event,
    compute_id,
    has_plain_fields,
    has_valid_id,
    require_hex,
)
from nostr_client.codecs.secp256k1 import BINDING
from nostr_client.errors import InvalidEvent, InvalidIdentifier, InvalidKey

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nostr_client.codecs.secp256k1 import PublicKey

_CURVE_ORDER: Final = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141


class VerifiedEvent(msgspec.Struct, frozen=True, gc=False):
    """An event whose structure, id and signature hold; made by this module's functions alone."""

    event: Event


def verify(event: Event) -> VerifiedEvent:
    """Check structure, id and BIP-340 signature; about 45 µs. Raises InvalidEvent."""
    if has_plain_fields(event):
        require_hex(event)
    else:
        check_event(event)
    if not has_valid_id(event):
        raise InvalidEvent("the id is not the hash of the event")
    if not _signature_holds(event):
        raise InvalidEvent("the signature does not hold")
    return VerifiedEvent(event)


def verify_many(events: Sequence[Event]) -> list[VerifiedEvent | InvalidEvent]:
    """Verify each event; the result has the same length and order, an error in place of a bad one.

    Meant for a worker thread, in chunks of 64 to 256: libsecp256k1 runs without the GIL.
    """
    return [_verify_quietly(event) for event in events]


def stored_event(event: Event) -> VerifiedEvent:
    """An event that our own store gave: it was verified before it was stored."""
    return VerifiedEvent(event)


def _verify_quietly(event: Event) -> VerifiedEvent | InvalidEvent:
    try:
        return verify(event)
    except InvalidEvent as error:
        return error.with_traceback(None)  # a kept traceback would keep the whole chunk alive


@functools.lru_cache(4096)  # bounded: a flood of new keys costs a little time and no more memory
def _public_key(pubkey: str) -> PublicKey:
    """The point of a key: a square root, a sixth of a verification, and authors come again."""
    return BINDING.public_key(bytes.fromhex(pubkey))


def _signature_holds(event: Event) -> bool:
    try:
        key = _public_key(event.pubkey)
        return key.verify(bytes.fromhex(event.sig), bytes.fromhex(event.id))
    except ValueError:  # not a point of the curve
        return False


class Signer(Protocol):
    """Whoever can sign for one key: a key in memory, an extension, a remote signer (NIP-46)."""

    @property
    def pubkey(self) -> str:
        """The public key, 64 lower-case hex characters."""
        ...

    async def sign(self, template: EventTemplate) -> VerifiedEvent:
        """Make a signed event. Raises InvalidEvent; may be cancelled at any time."""
        ...


class KeySigner:
    """A Signer with its secret key in memory. Neither repr nor pickle gives the secret away."""

    __slots__ = ("_pubkey", "_rand", "_secret")

    def __init__(self, secret: bytes, *, rand: Callable[[int], bytes] = os.urandom) -> None:
        """Take 32 secret bytes; `rand` gives BIP-340's auxiliary randomness. Raises InvalidKey."""
        if len(secret) != 32 or not 0 < int.from_bytes(secret, "big") < _CURVE_ORDER:
            raise InvalidKey("not a secret key of secp256k1: 32 bytes, neither 0 nor too large")
        self._secret = BINDING.secret_key(bytes(secret))
        self._pubkey = self._secret.pubkey.hex()
        self._rand = rand

    @classmethod
    def generate(cls, rand: Callable[[int], bytes] = os.urandom) -> KeySigner:
        """A signer with a fresh key from `rand`, the operating system's source by default.

        Raises InvalidKey when `rand` gives no key twice in a row: by chance once in 2^256.
        """
        try:
            return cls(rand(32), rand=rand)
        except InvalidKey:
            return cls(rand(32), rand=rand)

    @classmethod
    def from_nsec(cls, text: str, where: str = "") -> KeySigner:
        """A signer from `nsec1...` or 64 hex characters; `where`: what held them, such as a file.

        Raises InvalidIdentifier or InvalidKey, never with the text in the message.
        """
        try:
            return cls(nip19.decode_secret(text))
        except (InvalidIdentifier, InvalidKey) as error:
            if not where:
                raise
            raise type(error)(f"{where} holds no secret key: {error}") from error

    @property
    def pubkey(self) -> str:
        """The public key, 64 lower-case hex characters."""
        return self._pubkey

    def nsec(self) -> str:
        """The secret key as `nsec1...`: for showing to its owner alone."""
        return nip19.encode_secret(self._secret.secret)

    def sign_now(self, template: EventTemplate) -> VerifiedEvent:
        """Make a signed event at once; about 60 µs. Raises InvalidEvent for a bad template."""
        tags = tuple(tuple(tag) for tag in template.tags)
        parts = (self._pubkey, template.created_at, template.kind, tags, template.content)
        event_id = compute_id(*parts)
        sig = self._secret.sign(bytes.fromhex(event_id), self._rand(32))
        event = Event(event_id, *parts, sig.hex())
        check_event(event)
        return VerifiedEvent(event)

    async def sign(self, template: EventTemplate) -> VerifiedEvent:
        """As `sign_now`; never waits, so cancellation cannot leave half an event."""
        return self.sign_now(template)

    def __repr__(self) -> str:
        return f"KeySigner(pubkey={self._pubkey!r})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret key is not pickled")
