"""libsecp256k1 through coincurve. A module of its own: only one binding is imported."""

from __future__ import annotations

import coincurve


class CoincurveSecret:
    """A SecretKey of coincurve."""

    __slots__ = ("_key", "pubkey")

    def __init__(self, secret: bytes) -> None:
        self._key = coincurve.PrivateKey(secret)
        self.pubkey = self._key.public_key_xonly.format()

    @property
    def secret(self) -> bytes:
        return self._key.secret

    def sign(self, message: bytes, aux: bytes, /) -> bytes:
        return self._key.sign_schnorr(message, aux)


class Coincurve:
    """The Binding of coincurve; its own class of public keys is a PublicKey as it stands."""

    name = "coincurve"

    def public_key(self, x: bytes, /) -> coincurve.PublicKeyXOnly:
        return coincurve.PublicKeyXOnly(x)

    def secret_key(self, secret: bytes, /) -> CoincurveSecret:
        return CoincurveSecret(secret)
