"""BIP-340 by libsecp256k1: one small interface, two bindings of the same C library.

coincurve comes first. btclib-libsecp256k1 serves on the versions of Python that coincurve has no
wheels for (3.14 and later; see `pyproject.toml`). Both run without the GIL while they verify.
Start reading at `BINDING`; only `codecs.keys` imports this package.

Source: BIP-340.
"""

from __future__ import annotations

from typing import Final, Protocol


class SchnorrPublicKey(Protocol):
    """A point of the curve with an even y."""

    def verify(self, signature: bytes, message: bytes, /) -> bool:
        """Whether 64 bytes sign a message of 32 bytes.

        Raises ValueError for other lengths, and for a key that is no point of the curve.
        """
        ...


class SchnorrSecretKey(Protocol):
    """A secret key and what it signs."""

    @property
    def secret(self) -> bytes:
        """The 32 secret bytes."""
        ...

    @property
    def pubkey(self) -> bytes:
        """The x coordinate of its public key, 32 bytes."""
        ...

    def sign(self, message: bytes, aux: bytes, /) -> bytes:
        """A signature of 32 bytes in 64, with 32 bytes of auxiliary randomness."""
        ...


class Binding(Protocol):
    """A binding of libsecp256k1."""

    @property
    def name(self) -> str:
        """What is imported."""
        ...

    def public_key(self, x: bytes, /) -> SchnorrPublicKey:
        """The point of 32 bytes; where x is no coordinate, this raises ValueError, or `verify`."""
        ...

    def secret_key(self, secret: bytes, /) -> SchnorrSecretKey:
        """The key of 32 bytes, which are above 0 and below the order of the curve."""
        ...


def _installed() -> Binding:
    """The first binding that is installed."""
    try:
        from nostr_client.codecs.secp256k1.by_coincurve import Coincurve
    except ModuleNotFoundError as error:
        if error.name != "coincurve":
            raise
    else:
        return Coincurve()
    from nostr_client.codecs.secp256k1.by_btclib import Btclib

    return Btclib()


BINDING: Final[Binding] = _installed()
"""The binding that this process verifies and signs with."""
