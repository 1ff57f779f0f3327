"""Rates and places per address."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.relay.limits import REMEMBERED, ConnectionLimiter, events_bucket
from agent.relay.options import RelayLimits

if TYPE_CHECKING:
    from nostr_client.network.pacing import TokenBucket


def taken(bucket: TokenBucket, now: float, tries: int = 100) -> int:
    return sum(bucket.allow(now) for _ in range(tries))


def test_connections_in_all_and_per_address() -> None:
    addresses = ConnectionLimiter(RelayLimits(connections=3, connections_per_address=2))
    for address in ("a", "a", "b"):
        assert addresses.refusal(address) == ""
        addresses.enter(address, 0)
    assert "open" in addresses.refusal("a")
    assert "open" in addresses.refusal("c")
    addresses.leave("b")
    assert addresses.refusal("c") == ""
    assert "of your address" in addresses.refusal("a")


def test_a_bucket_saves_seconds_worth_of_events() -> None:
    bucket = events_bucket(10, RelayLimits(burst_s=2), now=0)
    assert taken(bucket, 0) == 20
    assert taken(bucket, 0.5) == 5


def test_a_reconnect_does_not_refill_the_bucket() -> None:
    addresses = ConnectionLimiter(RelayLimits(address_events_per_s=1, burst_s=5))
    assert taken(addresses.enter("a", 0).bucket, 0) == 5
    addresses.leave("a")
    assert taken(addresses.enter("a", 0).bucket, 0) == 0


def test_addresses_that_left_are_forgotten_in_the_end() -> None:
    addresses = ConnectionLimiter(RelayLimits())
    for n in range(2 * REMEMBERED):
        addresses.enter(str(n), 0)
        addresses.leave(str(n))
    assert addresses.connections == 0
    assert len(addresses._left) == REMEMBERED
