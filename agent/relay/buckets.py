"""Rates and places: token buckets, and what each address has of both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent.relay.options import RelayLimits


class TokenBucket:
    """`rate` tokens a second, at most `rate * burst_s` saved up; a clock that jumps back is 0 s."""

    __slots__ = ("_at", "_rate", "_size", "_tokens")

    def __init__(self, rate: float, burst_s: float, now: float) -> None:
        self._rate = rate
        self._size = max(1.0, rate * burst_s)
        self._tokens = self._size
        self._at = now

    def take(self, now: float) -> bool:
        """Take one token at `now` (seconds, monotonic); False if there is none."""
        earned = max(0.0, now - self._at) * self._rate
        self._tokens = min(self._size, self._tokens + earned)
        self._at = now
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True


@dataclass(slots=True)
class AddressShare:
    """What one address has: its open connections and the bucket that they share."""

    bucket: TokenBucket
    connections: int = 0


REMEMBERED = 1_024
"""Addresses without a connection whose bucket is kept: a reconnect must not refill it."""


class Addresses:
    """Connections in all and per address."""

    def __init__(self, limits: RelayLimits) -> None:
        self._limits = limits
        self._shares: dict[str, AddressShare] = {}
        self._left: dict[str, AddressShare] = {}
        self.connections = 0

    def refusal(self, address: str) -> str:
        """Why `address` may not open another connection, or ""."""
        if self.connections >= self._limits.connections:
            return f"rate-limited: {self._limits.connections} connections are open, try later"
        share = self._shares.get(address)
        if share is not None and share.connections >= self._limits.connections_per_address:
            return f"rate-limited: {share.connections} connections of your address are open"
        return ""

    def enter(self, address: str, now: float) -> AddressShare:
        """Count a new connection of `address`."""
        share = self._shares.get(address) or self._left.pop(address, None)
        if share is None:
            bucket = TokenBucket(self._limits.address_events_per_s, self._limits.burst_s, now)
            share = AddressShare(bucket)
        self._shares[address] = share
        share.connections += 1
        self.connections += 1
        return share

    def leave(self, address: str) -> None:
        """Take a connection of `address` off."""
        share = self._shares[address]
        share.connections -= 1
        self.connections -= 1
        if not share.connections:
            self._left[address] = self._shares.pop(address)
            if len(self._left) > REMEMBERED:
                del self._left[next(iter(self._left))]
