"""Encryption between two keys by NIP-44 version 2.

The cryptography is nostr-sdk's (extra `[fleet]`): the rust-nostr project keeps it, many clients
stand on it, and it is one wheel of 4 MB without dependencies. nostr-sdk chooses the nonces. It is
a module of its own, as no other codec needs a package that may be missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nostr_client.errors import InvalidInput, optional

if TYPE_CHECKING:
    from nostr_client.codecs.keys import KeySigner


class Nip44:
    """Encrypts and decrypts with the key of a signer; `what` needs it. Raises MissingExtra."""

    def __init__(self, signer: KeySigner, what: str) -> None:
        with optional(what):
            import nostr_sdk
        self._sdk: Any = nostr_sdk
        self.pubkey = signer.pubkey
        self._secret = self._sdk.SecretKey.parse(signer.nsec())

    def encrypt(self, text: str, pubkey: str) -> str:
        """Return a text of 1 to 65,535 bytes as a payload for a key (hex). Raises InvalidInput."""
        version = self._sdk.Nip44Version.V2
        try:
            key = self._sdk.PublicKey.parse(pubkey)
            return str(self._sdk.nip44_encrypt(self._secret, key, text, version))
        except self._sdk.NostrSdkError as error:
            raise InvalidInput(f"cannot encrypt to {pubkey}: {error}") from error

    def decrypt(self, payload: str, pubkey: str) -> str:
        """Return the text of a payload that a key (hex) encrypted to ours. Raises InvalidInput."""
        try:
            key = self._sdk.PublicKey.parse(pubkey)
            return str(self._sdk.nip44_decrypt(self._secret, key, payload))
        except self._sdk.NostrSdkError as error:
            raise InvalidInput(f"cannot decrypt what {pubkey} sent: {error}") from error
