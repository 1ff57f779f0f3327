"""Encryption of published values to the keys of a fleet, by NIP-44 version 2.

NIP-44 is between two keys. So a message to many carries a key of its own, made for it alone, which
is encrypted to each reader; the text is encrypted with that key, in parts as NIP-44 allows 65,535
bytes. The cryptography is nostr-sdk's (extra `[fleet]`): the rust-nostr project keeps it, many
clients stand on it, and it is one wheel of 4 MB without dependencies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from nostr_client.codecs.keys import KeySigner
from nostr_client.errors import InvalidInput, optional

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_READERS: Final = 100
"""Keys that one message is encrypted to: some 250 bytes each."""

MOST_PARTS: Final = 64

PART: Final = 16_000
"""Characters of a part: below 65,535 bytes however they are encoded."""


class Sealed(msgspec.Struct, frozen=True):
    """The content of an encrypted event: its key for each reader, and its parts."""

    keys: dict[str, str]
    parts: list[str]
    v: int = 1


_decode: Final = msgspec.json.Decoder(Sealed)


class _Kind(msgspec.Struct):
    keys: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


def is_sealed(content: str) -> bool:
    """Whether a content is an encrypted one."""
    try:
        return msgspec.json.decode(content, type=_Kind).keys is not msgspec.UNSET
    except (msgspec.MsgspecError, RecursionError):
        return False


class Sealer:
    """Encrypts and decrypts with the key of a signer. Raises MissingExtra."""

    def __init__(self, signer: KeySigner) -> None:
        self._sdk = _library()
        self.pubkey = signer.pubkey
        self._secret = self._sdk.SecretKey.parse(signer.nsec())

    def seal(self, text: str, readers: Sequence[str]) -> str:
        """`text` for these public keys (hex), and nobody else. Raises InvalidInput, InvalidKey."""
        if len(readers) > MOST_READERS:
            raise InvalidInput(f"more than {MOST_READERS} readers")
        once = KeySigner.generate()
        secret = self._sdk.SecretKey.parse(once.nsec())
        keys = {key: self._encrypt(self._secret, key, once.nsec()) for key in readers}
        parts = [text[n : n + PART] for n in range(0, len(text), PART)] or [""]
        sealed = Sealed(keys, [self._encrypt(secret, once.pubkey, part) for part in parts])
        return msgspec.json.encode(sealed).decode()

    def open(self, content: str, author: str) -> str:
        """What `author` (hex) has sealed for this key. Raises InvalidInput, InvalidIdentifier."""
        try:
            sealed = _decode.decode(content)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise InvalidInput(f"its content cannot be read: {error}") from error
        if self.pubkey not in sealed.keys:
            raise InvalidInput("it is encrypted, and not to this agent's key")
        if len(sealed.parts) > MOST_PARTS:
            raise InvalidInput("it has too many parts")
        once = KeySigner.from_nsec(self._decrypt(self._secret, author, sealed.keys[self.pubkey]))
        secret = self._sdk.SecretKey.parse(once.nsec())
        return "".join(self._decrypt(secret, once.pubkey, part) for part in sealed.parts)

    def _encrypt(self, secret: Any, pubkey: str, text: str) -> str:
        version = self._sdk.Nip44Version.V2
        try:
            key = self._sdk.PublicKey.parse(pubkey)
            return str(self._sdk.nip44_encrypt(secret, key, text, version))
        except self._sdk.NostrSdkError as error:
            raise InvalidInput(f"cannot encrypt to {pubkey}: {error}") from error

    def _decrypt(self, secret: Any, pubkey: str, payload: str) -> str:
        try:
            key = self._sdk.PublicKey.parse(pubkey)
            return str(self._sdk.nip44_decrypt(secret, key, payload))
        except self._sdk.NostrSdkError as error:
            raise InvalidInput(f"cannot decrypt what {pubkey} sent: {error}") from error


def _library() -> Any:
    with optional("a counter that is encrypted"):
        import nostr_sdk
    return nostr_sdk
