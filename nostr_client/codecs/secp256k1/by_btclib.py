"""libsecp256k1 through btclib-libsecp256k1. A module of its own: only one binding is imported."""

from __future__ import annotations

from btclib_libsecp256k1 import mult, ssa, xonly


class BtclibPublic:
    """A PublicKey of btclib: it reads the point again for each signature, and refuses it there."""

    __slots__ = ("_x",)

    def __init__(self, x: bytes) -> None:
        self._x = x

    def verify(self, signature: bytes, message: bytes, /) -> bool:
        return ssa.verify(message, self._x, signature)


class BtclibSecret:
    """A SecretKey of btclib."""

    __slots__ = ("pubkey", "secret")

    def __init__(self, secret: bytes) -> None:
        self.secret = secret
        self.pubkey, _ = xonly.from_pubkey(mult.mult_(secret))

    def sign(self, message: bytes, aux: bytes, /) -> bytes:
        return ssa.sign(message, self.secret, aux)


class Btclib:
    """The Binding of btclib-libsecp256k1."""

    name = "btclib_libsecp256k1"

    def public_key(self, x: bytes, /) -> BtclibPublic:
        return BtclibPublic(x)

    def secret_key(self, secret: bytes, /) -> BtclibSecret:
        return BtclibSecret(secret)
