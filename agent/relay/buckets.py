"""Connections and rates: what each address has of both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nostr_client.rate import TokenBucket

if TYPE_CHECKING:
    from agent.relay.options import RelayLimits


def events_bucket(rate: float, limits: RelayLimits, now: float) -> TokenBucket:
    """A full bucket of `rate` EVENTs a second, which saves up `burst_s` seconds of them."""
    return TokenBucket(rate, rate * limits.burst_s, now=now)


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
            bucket = events_bucket(self._limits.address_events_per_s, self._limits, now)
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
