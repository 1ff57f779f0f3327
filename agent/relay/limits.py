"""Limits what one request and one address may ask for. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nostr_client import hll
from nostr_client.network.pacing import TokenBucket

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent.relay.options import RelayLimits
    from nostr_client.codecs.filters import Filter


def check_filters(filters: Sequence[Filter], limits: RelayLimits, *, search: bool) -> str:
    """Why `filters` ask for too much, or for what is not here; "" when they may be asked."""
    if len(filters) > limits.filters:
        return f"invalid: too many filters, {limits.filters} are the most"
    for wanted in filters:
        values = _values(wanted)
        if values > limits.filter_values:
            return f"invalid: {values} values in a filter, {limits.filter_values} are the most"
        if wanted.search is not None and not search:
            return "unsupported: this store keeps no search index"
    return ""


def clamp(wanted: Filter, limits: RelayLimits) -> Filter:
    """`wanted` with the limit that it gets: its own up to the largest, else the default.

    A filter that names ids gets them all.
    """
    if wanted.limit is not None:
        most = min(wanted.limit, limits.max_limit)
    else:
        most = limits.max_limit if wanted.ids is not None else limits.default_limit
    return wanted if wanted.limit == most else wanted.replace(limit=most)


def _values(wanted: Filter) -> int:
    values = len(wanted.ids or ()) + len(wanted.authors or ()) + len(wanted.kinds or ())
    return values + sum([len(listed) for _, listed in wanted.tags]) if wanted.tags else values


@dataclass(frozen=True, slots=True)
class CountFigures:
    """The exact number of events of a union, and its registers where it is eligible."""

    count: int
    registers: bytes | None = None


def shared_offset(filters: Sequence[Filter]) -> int | None:
    """The HLL offset of a union: that of its filters when all are eligible and agree, else None."""
    offsets = {_offset(wanted) for wanted in filters}
    return offsets.pop() if len(offsets) == 1 else None


def _offset(wanted: Filter) -> int | None:
    narrowed = (wanted.ids, wanted.authors, wanted.since, wanted.until, wanted.search)
    if any(condition is not None for condition in narrowed):
        return None
    shape = wanted.to_dict()
    return hll.offset(shape) if hll.eligible(shape) else None


def events_bucket(rate: float, limits: RelayLimits, now: float) -> TokenBucket:
    """A full bucket of `rate` EVENTs a second, which saves up `burst_s` seconds of them."""
    return TokenBucket(rate, rate * limits.burst_s, now=now)


@dataclass(slots=True)
class AddressShare:
    """What one address has: its open connections and the bucket that they share."""

    bucket: TokenBucket
    connections: int = 0


REMEMBERED = 1_024
"""Addresses without a connection whose bucket stays: a reconnect must not refill it."""


class ConnectionLimiter:
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
