"""Encrypt published values to several keys, by NIP-44 version 2 (`codecs.nip44`).

NIP-44 encrypts between two keys. A message to many readers therefore has its own one-time key,
which is encrypted to each reader. The text is encrypted with this key, in parts, because NIP-44
allows 65,535 bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from nostr_client.codecs.keys import KeySigner
from nostr_client.codecs.nip44 import Nip44
from nostr_client.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_READERS: Final = 100
"""Most readers of one message, at about 250 bytes each."""

MOST_PARTS: Final = 64

PART: Final = 16_000
"""Characters of a part: below 65,535 bytes however they are encoded."""


class Sealed(msgspec.Struct, frozen=True):
    """Content of an encrypted event: its one-time key for each reader, and its parts."""

    keys: dict[str, str]
    parts: list[str]
    v: int = 1


_decode: Final = msgspec.json.Decoder(Sealed)


class _Kind(msgspec.Struct):
    keys: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


def is_sealed(content: str) -> bool:
    """Return whether a content is encrypted."""
    try:
        return msgspec.json.decode(content, type=_Kind).keys is not msgspec.UNSET
    except (msgspec.MsgspecError, RecursionError):
        return False


class Sealer:
    """Encrypts and decrypts with the key of a signer. Raises MissingExtra."""

    def __init__(self, signer: KeySigner) -> None:
        self._own = _pair(signer)
        self.pubkey = signer.pubkey

    def seal(self, text: str, readers: Sequence[str]) -> str:
        """Encrypt `text` to these public keys (hex) only. Raises InvalidInput and InvalidKey."""
        if len(readers) > MOST_READERS:
            raise InvalidInput(f"more than {MOST_READERS} readers")
        once = KeySigner.generate()
        one_time = _pair(once)
        keys = {key: self._own.encrypt(once.nsec(), key) for key in readers}
        parts = [text[n : n + PART] for n in range(0, len(text), PART)] or [""]
        sealed = Sealed(keys, [one_time.encrypt(part, once.pubkey) for part in parts])
        return msgspec.json.encode(sealed).decode()

    def open(self, content: str, author: str) -> str:
        """Decrypt a content of `author` (hex) for this key.

        Raises InvalidInput and InvalidIdentifier.
        """
        try:
            sealed = _decode.decode(content)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise InvalidInput(f"its content cannot be read: {error}") from error
        if self.pubkey not in sealed.keys:
            raise InvalidInput("it is encrypted, and not to this agent's key")
        if len(sealed.parts) > MOST_PARTS:
            raise InvalidInput("it has too many parts")
        once = KeySigner.from_nsec(self._own.decrypt(sealed.keys[self.pubkey], author))
        one_time = _pair(once)
        return "".join(one_time.decrypt(part, once.pubkey) for part in sealed.parts)


def _pair(signer: KeySigner) -> Nip44:
    return Nip44(signer, "a counter that is encrypted")
