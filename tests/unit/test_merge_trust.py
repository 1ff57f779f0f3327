"""A relay whose own answer does not hold together is caught even where no majority can judge it."""

from __future__ import annotations

import hashlib

import pytest

from nostr_client import hll
from nostr_client.count.merge import Claim, ClaimStatus, Merged, Method, merge_claims
from nostr_client.count.trust import TrustPolicy

PEOPLE = 2000
SKETCH = hll.from_pubkeys((hashlib.sha256(b"%d" % i).digest() for i in range(PEOPLE)), 12)


def claim(relay: str, count: int | None, registers: bytes) -> Claim:
    return Claim(
        relay=relay, status=ClaimStatus.OK, method=Method.HLL, count=count, registers=registers
    )


def merged_with(odd: Claim, *, policy: TrustPolicy = TrustPolicy.EXCLUDE) -> Merged:
    return merge_claims(
        [claim("wss://honest", PEOPLE, SKETCH), odd], one_per_author=True, policy=policy
    )


def people(merged: Merged) -> int:
    assert merged.authors is not None
    return merged.authors.value


def warnings_of(merged: Merged, relay: str) -> tuple[str, ...]:
    return next(c.warnings for c in merged.claims if c.relay == relay)


ONE_FULL = bytes([57]) + SKETCH[1:]
SOME_RAISED = bytes(r + 4 if i % 4 == 0 else r for i, r in enumerate(SKETCH))
ALL_DOUBLED = bytes(r + 1 for r in SKETCH)


@pytest.mark.parametrize("registers", [ONE_FULL, SOME_RAISED, ALL_DOUBLED])
def test_registers_that_cannot_be_are_left_out(registers: bytes) -> None:
    merged = merged_with(claim("wss://odd", PEOPLE, registers))
    assert merged.excluded == ("wss://odd",)
    assert people(merged) == PEOPLE
    assert warnings_of(merged, "wss://odd")
    assert not warnings_of(merged, "wss://honest")


def test_they_are_shown_and_kept_where_the_policy_is_to_flag() -> None:
    merged = merged_with(claim("wss://odd", PEOPLE, ALL_DOUBLED), policy=TrustPolicy.FLAG)
    assert merged.excluded == ()
    assert people(merged) > 1.5 * PEOPLE
    assert warnings_of(merged, "wss://odd")


def test_a_count_that_its_registers_do_not_bear_out_is_not_believed() -> None:
    merged = merged_with(claim("wss://odd", 50 * PEOPLE, SKETCH))
    assert people(merged) == PEOPLE
    assert "100,000 people" in warnings_of(merged, "wss://odd")[0]


def test_a_count_of_zero_beside_registers_takes_nothing_from_the_registers() -> None:
    """One relay family says 0 when it refuses; the sketch beside it is as good as any."""
    merged = merge_claims([claim("wss://odd", 0, SKETCH)], one_per_author=True)
    assert merged.excluded == ()
    assert people(merged) == pytest.approx(PEOPLE, rel=0.2)
    assert warnings_of(merged, "wss://odd")


def test_an_estimate_given_as_the_count_is_no_contradiction() -> None:
    merged = merged_with(claim("wss://odd", round(hll.estimate(ALL_DOUBLED)), ALL_DOUBLED))
    assert not warnings_of(merged, "wss://odd")


def test_empty_registers_beside_a_count_are_not_an_exact_zero() -> None:
    """Filled in by a relay that keeps no sketch: what it counted is all that it said."""
    merged = merge_claims([claim("wss://blank", 5, hll.EMPTY)], one_per_author=True)
    assert merged.authors is not None
    assert (merged.authors.value, merged.authors.exact) == (5, False)
    assert merged.authors.lower_bound
    assert warnings_of(merged, "wss://blank")


def test_registers_that_tell_of_fewer_than_the_count_are_a_lower_bound() -> None:
    few = hll.from_pubkeys([hashlib.sha256(b"%d" % i).digest() for i in range(5)], 12)
    merged = merge_claims([claim("wss://thin", 5000, few)], one_per_author=True)
    assert merged.authors is not None
    assert (merged.authors.value, merged.authors.lower_bound) == (5, True)
    assert merged.authors.high is None
