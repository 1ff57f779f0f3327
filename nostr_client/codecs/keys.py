"""BIP-340 keys: sign and verify events. The one module that uses `codecs.secp256k1`.

Source: NIP-01, BIP-340.
"""

from __future__ import annotations

import functools
import os
import time
from typing import TYPE_CHECKING, Final, NoReturn, Protocol

import msgspec

from nostr_client.codecs import nip19
from nostr_client.codecs.event import (
    Event,
    EventTemplate,
    Tags,
    check_event,
    compute_id,
    has_plain_fields,
    has_valid_id,
    require_hex,
)
from nostr_client.codecs.secp256k1 import BINDING
from nostr_client.errors import InvalidEvent, InvalidIdentifier, InvalidKey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from nostr_client.codecs.secp256k1 import SchnorrPublicKey

_CURVE_ORDER: Final = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141

_KEYS_KEPT: Final = 32_768
"""Public keys whose points are kept, about 13 MB. A flood of new keys takes no more memory."""


class VerifiedEvent(msgspec.Struct, frozen=True, gc=False):
    """An event whose fields, id and signature were checked.

    `verify`, `verify_many` and signers return verified events. A store accepts only verified
    events. A verified event has the fields of its `event`, so programs read it like an event.
    """

    event: Event

    @property
    def id(self) -> str:
        """The event id, 64 lower-case hex characters."""
        return self.event.id

    @property
    def pubkey(self) -> str:
        """The author's public key, 64 lower-case hex characters."""
        return self.event.pubkey

    @property
    def created_at(self) -> int:
        """The time at which the author claims to have made the event, in Unix seconds."""
        return self.event.created_at

    @property
    def kind(self) -> int:
        """The kind, 0 to 65535."""
        return self.event.kind

    @property
    def tags(self) -> Tags:
        """The tags. Each tag has at least one string."""
        return self.event.tags

    @property
    def content(self) -> str:
        """The content, as the author signed it."""
        return self.event.content

    @property
    def sig(self) -> str:
        """The BIP-340 signature, 128 lower-case hex characters."""
        return self.event.sig

    def tag_values(self, name: str) -> Iterator[str]:
        """Yield the second item of each tag with this name, in order."""
        return self.event.tag_values(name)

    def first_tag(self, name: str) -> str | None:
        """Return the second item of the first tag with this name, or None.

        The method skips tags that have only one item.
        """
        return self.event.first_tag(name)

    def to_json(self) -> str:
        """Return the event as compact JSON, with the keys in NIP-01's order."""
        return self.event.to_json()

    def __repr__(self) -> str:
        return f"Verified{self.event!r}"


def verify(event: Event) -> VerifiedEvent:
    """Check the fields, the id and the BIP-340 signature of an event.

    A check takes about 45 µs. Raises InvalidEvent.
    """
    _check_fields_and_id(event)
    _check_signature(event)
    return VerifiedEvent(event)


def verify_many(events: Sequence[Event]) -> list[VerifiedEvent | InvalidEvent]:
    """Check each event and return a list in the same order.

    The list has an InvalidEvent in place of each bad event. Call the function in a worker thread,
    with 64 to 256 events. libsecp256k1 releases the GIL. The signatures come last, so that threads
    of several lists seldom wait for each other.
    """
    errors = [_error_of(_check_fields_and_id, event) for event in events]
    return [
        error or _error_of(_check_signature, event) or VerifiedEvent(event)
        for event, error in zip(events, errors, strict=True)
    ]


def stored_event(event: Event) -> VerifiedEvent:
    """An event that our own store gave: it was verified before it was stored."""
    return VerifiedEvent(event)


def _error_of(check: Callable[[Event], None], event: Event) -> InvalidEvent | None:
    try:
        check(event)
    except InvalidEvent as error:
        return error.with_traceback(None)  # a kept traceback would keep the whole chunk alive
    return None


def _check_fields_and_id(event: Event) -> None:
    if has_plain_fields(event):
        require_hex(event)
    else:
        check_event(event)
    if not has_valid_id(event):
        raise InvalidEvent("the id is not the hash of the event")


def _check_signature(event: Event) -> None:
    if not _signature_holds(event):
        raise InvalidEvent("the signature does not hold")


@functools.lru_cache(_KEYS_KEPT)
def _public_key(pubkey: str) -> SchnorrPublicKey:
    """Return the point of a key. It costs a sixth of a check, and most authors come again."""
    return BINDING.public_key(bytes.fromhex(pubkey))


def _signature_holds(event: Event) -> bool:
    try:
        key = _public_key(event.pubkey)
        return key.verify(bytes.fromhex(event.sig), bytes.fromhex(event.id))
    except ValueError:  # not a point of the curve
        return False


class Signer(Protocol):
    """Signs events with one key: a key in memory, an extension or a remote signer (NIP-46)."""

    @property
    def pubkey(self) -> str:
        """The public key, 64 lower-case hex characters."""
        ...

    async def sign(self, template: EventTemplate) -> VerifiedEvent:
        """Return a signed event. Raises InvalidEvent. Safe to cancel."""
        ...


class KeySigner:
    """A Signer with a secret key in memory.

    The secret is neither in the repr nor in a pickle. Raises InvalidKey.

    - `secret`: the secret key, 32 bytes.
    - `rand`: a function that returns random bytes for BIP-340 signatures.
    - `now`: a function that returns Unix seconds, for templates without a time.
    """

    __slots__ = ("_now", "_pubkey", "_rand", "_secret")

    def __init__(
        self,
        secret: bytes,
        *,
        rand: Callable[[int], bytes] = os.urandom,
        now: Callable[[], float] = time.time,
    ) -> None:
        if len(secret) != 32 or not 0 < int.from_bytes(secret, "big") < _CURVE_ORDER:
            raise InvalidKey("not a secret key of secp256k1: 32 bytes, neither 0 nor too large")
        self._secret = BINDING.secret_key(bytes(secret))
        self._pubkey = self._secret.pubkey.hex()
        self._rand = rand
        self._now = now

    @classmethod
    def generate(cls, rand: Callable[[int], bytes] = os.urandom) -> KeySigner:
        """Make a signer with a new key from the operating system's random source.

        `rand` is another random source. Raises InvalidKey if the source twice returns an invalid
        key.
        """
        try:
            return cls(rand(32), rand=rand)
        except InvalidKey:
            return cls(rand(32), rand=rand)

    @classmethod
    def from_hex(cls, text: str) -> KeySigner:
        """Make a signer from a secret key of 64 hex characters.

        Raises InvalidIdentifier or InvalidKey. The message never has the secret.
        """
        if not nip19.looks_hex(text.strip()):
            raise InvalidIdentifier("not a secret key: expected 64 hex characters")
        return cls.from_nsec(text)

    @classmethod
    def from_nsec(cls, text: str, where: str = "") -> KeySigner:
        """Make a signer from `nsec1...` or 64 hex characters.

        `where` is the source of the key, for error messages. Raises InvalidIdentifier or
        InvalidKey. The message never has the secret.
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

    @property
    def npub(self) -> str:
        """The public key as `npub1...`."""
        return nip19.PublicKey(self._pubkey).encode()

    def nsec(self) -> str:
        """Return the secret key as `nsec1...`. Show this text only to its owner."""
        return nip19.encode_secret(self._secret.secret)

    def sign_now(self, template: EventTemplate) -> VerifiedEvent:
        """Return a signed event. The signature takes about 60 µs.

        A template without `created_at` gets the current time. Raises InvalidEvent for a bad
        template.
        """
        tags = tuple(tuple(tag) for tag in template.tags)
        at = int(self._now()) if template.created_at is None else template.created_at
        parts = (self._pubkey, at, template.kind, tags, template.content)
        event_id = compute_id(*parts)
        sig = self._secret.sign(bytes.fromhex(event_id), self._rand(32))
        event = Event(event_id, *parts, sig.hex())
        check_event(event)
        return VerifiedEvent(event)

    def sign_many(self, templates: Sequence[EventTemplate]) -> list[VerifiedEvent]:
        """Return a signed event for each template, in order.

        Call the method in a worker thread, with 64 to 256 templates. libsecp256k1 releases the GIL.
        Raises InvalidEvent for a bad template.
        """
        return [self.sign_now(one) for one in templates]

    async def sign(self, template: EventTemplate) -> VerifiedEvent:
        """Return a signed event, as `sign_now` does. Never waits. Raises InvalidEvent."""
        return self.sign_now(template)

    def __repr__(self) -> str:
        return f"KeySigner(pubkey={self._pubkey!r})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret key is not pickled")
