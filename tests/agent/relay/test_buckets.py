"""Rates and places per address."""

from __future__ import annotations

from agent.relay.buckets import REMEMBERED, Addresses, TokenBucket
from agent.relay.options import RelayLimits


def taken(bucket: TokenBucket, now: float, tries: int = 100) -> int:
    return sum(bucket.take(now) for _ in range(tries))


def test_a_bucket_gives_its_rate_and_saves_a_burst() -> None:
    bucket = TokenBucket(10, 2, now=0)
    assert taken(bucket, 0) == 20
    assert taken(bucket, 0.5) == 5
    assert taken(bucket, 1_000) == 20


def test_a_clock_that_jumps_back_gives_nothing_and_harms_nothing() -> None:
    bucket = TokenBucket(10, 1, now=100)
    assert taken(bucket, 100) == 10
    assert taken(bucket, 50) == 0
    assert taken(bucket, 50.5) == 5


def test_connections_in_all_and_per_address() -> None:
    addresses = Addresses(RelayLimits(connections=3, connections_per_address=2))
    for address in ("a", "a", "b"):
        assert addresses.refusal(address) == ""
        addresses.enter(address, 0)
    assert "open" in addresses.refusal("a")
    assert "open" in addresses.refusal("c")
    addresses.leave("b")
    assert addresses.refusal("c") == ""
    assert "of your address" in addresses.refusal("a")


def test_a_reconnect_does_not_refill_the_bucket() -> None:
    addresses = Addresses(RelayLimits(address_events_per_s=1, burst_s=5))
    assert taken(addresses.enter("a", 0).bucket, 0) == 5
    addresses.leave("a")
    assert taken(addresses.enter("a", 0).bucket, 0) == 0


def test_addresses_that_left_are_forgotten_in_the_end() -> None:
    addresses = Addresses(RelayLimits())
    for n in range(2 * REMEMBERED):
        addresses.enter(str(n), 0)
        addresses.leave(str(n))
    assert addresses.connections == 0
    assert len(addresses._left) == REMEMBERED
