"""The keys of one person's wallet, and which receipts they may have signed. Pure.

Wallets change, and a key that signs today did not sign three years ago. So each key has the times
at which the wallet named it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final

import msgspec

KEEP: Final = 86_400
"""Seconds that a wallet's answer is stored: the host learns once a day at most who counts."""


class WalletStatus(StrEnum):
    """The outcome of asking one wallet; only OK and NO_ZAPS are the wallet's own answer."""

    OK = "ok"
    NO_ZAPS = "no_zaps"
    """The wallet answers, and signs no zap receipts."""

    NO_PROFILE = "no_profile"
    """No relay gave the person's profile (kind 0)."""

    NO_ADDRESS = "no_address"
    """The profile names no wallet, or an invalid one."""

    REFUSED = "refused"
    """The wallet's host is an address of this network."""

    UNREACHABLE = "unreachable"
    TIMEOUT = "timeout"
    INVALID = "invalid"
    """The wallet's response is not a valid answer."""

    NOT_ASKED = "not_asked"
    """The count has more people than it may ask about."""


SETTLED: Final = frozenset({WalletStatus.OK, WalletStatus.NO_ZAPS})
"""Statuses that are stored for a day; any other may be different a minute later."""


class Sighting(msgspec.Struct, frozen=True, kw_only=True):
    """A key (64 hex characters), and when a wallet was first and last seen to name it.

    Unix seconds. A key that comes back after another one has its own sighting.
    """

    key: str
    first_seen: int
    last_seen: int


class Wallet(msgspec.Struct, frozen=True, kw_only=True):
    """The known state of the wallet of one person, `recipient` (64 hex characters).

    `host` is where it was asked, `reason` why it is unknown, a text for people. `keys`: oldest
    first. Earlier keys stay if asking fails now.
    """

    recipient: str
    status: WalletStatus
    host: str = ""
    reason: str = ""
    asked_at: int | None = None
    keys: tuple[Sighting, ...] = ()

    @property
    def is_known(self) -> bool:
        """Whether the receipts that the wallet signed are known: it named a key, or has none."""
        return bool(self.keys) or self.status is WalletStatus.NO_ZAPS

    def is_fresh(self, now: float) -> bool:
        """Whether the answer need not be requested again."""
        at = self.asked_at
        return self.status in SETTLED and at is not None and at <= now < at + KEEP

    def signed(self, key: str, at: int) -> bool:
        """Whether a receipt of this time and key is one of the wallet's.

        A key is valid from the last sighting of its predecessor to the first sighting of its
        successor, as the wallet changed somewhere between; the first key for all the time before,
        the last one as long as an answer is stored.
        """
        for n, sighting in enumerate(self.keys):
            start = self.keys[n - 1].last_seen if n else 0
            after = self.keys[n + 1 :]
            end = after[0].first_seen if after else sighting.last_seen + KEEP
            if sighting.key == key and start <= at <= end:
                return True
        return False

    def answered(self, key: str | None, at: int, host: str) -> Wallet:
        """Return the wallet after its own answer; None: it signs no receipts."""
        status = WalletStatus.NO_ZAPS if key is None else WalletStatus.OK
        keys = self.keys if key is None else _with(self.keys, key, at)
        return Wallet(recipient=self.recipient, status=status, host=host, asked_at=at, keys=keys)

    def failed(self, status: WalletStatus, reason: str, at: int, host: str = "") -> Wallet:
        """Return the wallet after a failed request; earlier keys stay."""
        return msgspec.structs.replace(
            self, status=status, reason=reason, asked_at=at, host=host or self.host
        )

    def to_dict(self) -> dict[str, Any]:
        """The wallet as JSON values."""
        made: dict[str, Any] = msgspec.to_builtins(self)
        return made


def unknown(recipient: str) -> Wallet:
    """Return the wallet of a person of whom nothing is known."""
    return Wallet(recipient=recipient, status=WalletStatus.NOT_ASKED)


def _with(keys: tuple[Sighting, ...], key: str, at: int) -> tuple[Sighting, ...]:
    if keys and keys[-1].key == key:
        seen = max(at, keys[-1].last_seen)
        return (*keys[:-1], msgspec.structs.replace(keys[-1], last_seen=seen))
    return (*keys, Sighting(key=key, first_seen=at, last_seen=at))
