"""One relay's word: what a count that nothing bears out may do to a number, and what it may not."""

from __future__ import annotations

import hashlib

import msgspec
import numpy as np
import pytest

from nostr_client import hll
from nostr_client.codecs.display import said
from nostr_client.count import trust
from nostr_client.count.merge import (
    Claim,
    ClaimStatus,
    Figure,
    Merged,
    Method,
    Reading,
    merge_claims,
)
from tests.sketches import draw

PEOPLE = [hashlib.sha256(b"%d" % i).digest() for i in range(2000)]
MOST = 2**63 - 1


def holder(relay: str, first: int, last: int, **changes: object) -> Claim:
    """A relay that holds these people, counts them, and shows their registers."""
    sketch = hll.from_pubkeys(PEOPLE[first:last], 9)
    claim = Claim(
        relay=relay,
        status=ClaimStatus.OK,
        method=Method.HLL,
        count=last - first,
        registers=sketch,
    )
    return msgspec.structs.replace(claim, **changes)


def word(relay: str, count: int, **changes: object) -> Claim:
    """A relay that says a number and shows nothing."""
    claim = Claim(relay=relay, status=ClaimStatus.OK, method=Method.COUNT, count=count)
    return msgspec.structs.replace(claim, **changes)


def honest() -> list[Claim]:
    return [holder("wss://a", 0, 1960), holder("wss://b", 40, 2000)]


def authors(merged: Merged) -> Figure:
    assert merged.authors is not None
    return merged.authors


def warnings_of(merged: Merged, relay: str) -> tuple[str, ...]:
    return next(claim.warnings for claim in merged.claims if claim.relay == relay)


@pytest.mark.parametrize("lie", [MOST, 10**9, round(1.15 * 1960)])
def test_one_liar_of_three_beside_honest_registers_moves_nothing_and_is_named(lie: int) -> None:
    silent = holder("wss://liar", 20, 1980, approximate=True)
    without = authors(merge_claims([*honest(), silent], one_per_author=True))
    liar = holder("wss://liar", 20, 1980, count=lie)
    merged = merge_claims([*honest(), liar], one_per_author=True)
    assert authors(merged) == without
    assert warnings_of(merged, "wss://liar")
    assert not warnings_of(merged, "wss://a")
    assert not warnings_of(merged, "wss://b")


@pytest.mark.parametrize("lie", [MOST, 10**9, 2300])
def test_one_liar_of_three_that_shows_nothing_moves_nothing_and_is_named(lie: int) -> None:
    without = authors(merge_claims(honest(), one_per_author=True))
    merged = merge_claims([*honest(), word("wss://liar", lie)], one_per_author=True)
    assert authors(merged).value == without.value
    assert authors(merged).low == without.low
    assert warnings_of(merged, "wss://liar")
    assert merged.excluded == (() if lie == 2300 else ("wss://liar",))


@pytest.mark.parametrize("one", [True, False])
@pytest.mark.parametrize("lie", [MOST, 10**9])
def test_one_liar_of_three_counts_is_left_out(lie: int, one: bool) -> None:
    counts = [word("wss://a", 373), word("wss://b", 350)]
    without = merge_claims(counts, one_per_author=one)
    merged = merge_claims([*counts, word("wss://liar", lie)], one_per_author=one)
    assert merged.events == without.events == Figure.at_least(373, 0)
    assert merged.excluded == ("wss://liar",)


def test_a_bare_count_is_no_lower_end_beside_what_was_read() -> None:
    keys = frozenset(PEOPLE[:30])
    read = holder("wss://read", 0, 30, reading=Reading(authors=keys, events=keys, complete=True))
    merged = merge_claims([read, word("wss://b", 90)], one_per_author=True)
    assert authors(merged) == Figure.at_least(90, 30)
    assert warnings_of(merged, "wss://b")


def test_the_count_of_a_trusted_relay_is_a_lower_end() -> None:
    counts = [word("wss://a", 70), word("wss://b", 90)]
    merged = merge_claims(counts, one_per_author=True, trusted=["wss://a"])
    assert authors(merged) == Figure.at_least(90, 70)


def test_one_relay_alone_is_taken_at_its_word() -> None:
    told = Figure(value=70, low=0, high=None, as_said=True)
    assert authors(merge_claims([word("wss://a", 70)], one_per_author=True)) == told
    assert said(told) == "70, as the relay says"


def test_one_relay_that_counts_more_than_was_read_of_it_proves_what_was_read() -> None:
    keys = frozenset(PEOPLE[:30])
    read = Reading(authors=keys, events=keys, complete=False)
    for one_per_author in (True, False):
        claim = word("wss://a", MOST, reading=read)
        merged = merge_claims([claim], one_per_author=one_per_author)
        assert merged.events == Figure.at_least(MOST, 30)


def test_two_counts_that_disagree_beside_their_registers_correct_nothing() -> None:
    same = [holder("wss://a", 0, 2000), holder("wss://b", 0, 2000, count=2300)]
    merged = merge_claims(same, one_per_author=True)
    assert authors(merged).value == round(hll.estimate(same[0].registers or b""))
    assert all(claim.warnings for claim in merged.claims)


def test_the_interval_is_as_narrow_as_the_better_merge() -> None:
    figure = authors(merge_claims(honest(), one_per_author=True))
    assert figure.high is not None
    assert figure.low <= 2000 <= figure.high
    assert figure.high - figure.low < 0.05 * 2000


def test_a_count_whose_events_did_not_come_is_not_at_least_nothing() -> None:
    nothing = Reading(authors=frozenset(), events=frozenset(), complete=False)
    claim = word("wss://a", 90, approximate=True, reading=nothing)
    people = merge_claims([claim], one_per_author=False)
    assert people.authors is None
    assert people.events == Figure.at_least(90, 0)
    assert authors(merge_claims([claim], one_per_author=True)) == Figure.at_least(90, 0)


def mined(registers: bytes, keys: int, rank: int, rng: np.random.Generator) -> bytes:
    raised = bytearray(registers)
    for place in rng.choice(256, keys, replace=False):
        raised[place] = max(raised[place], rank)
    return bytes(raised)


@pytest.mark.parametrize("keys", [3, 30])
def test_mined_keys_leave_three_honest_relays_and_their_number_alone(keys: int) -> None:
    rng = np.random.default_rng(7)
    places = mined(hll.EMPTY, keys, 21, rng)
    claims = [
        msgspec.structs.replace(claim, registers=hll.merge(claim.registers or b"", places))
        for claim in [*honest(), holder("wss://c", 20, 1980)]
    ]
    claims = [msgspec.structs.replace(c, count=(c.count or 0) + keys) for c in claims]
    merged = merge_claims(claims, one_per_author=True)
    assert merged.excluded == ()
    assert abs(authors(merged).value - 2000 - keys) < 60
    assert all("mined" in " ".join(claim.warnings) for claim in merged.claims)


def test_the_relay_that_brought_mined_keys_is_named() -> None:
    odd = holder("wss://odd", 0, 1960)
    rng = np.random.default_rng(3)
    odd = msgspec.structs.replace(odd, registers=mined(odd.registers or b"", 3, 21, rng))
    merged = merge_claims([odd, holder("wss://b", 40, 2000)], one_per_author=True)
    assert "mined" in warnings_of(merged, "wss://odd")[0]
    assert not warnings_of(merged, "wss://b")
    assert merged.excluded == ()


@pytest.mark.parametrize("n", [60, 300, 2000, 20_000])
@pytest.mark.parametrize("keys", [0, 3, 30])
def test_registers_above_the_cut_count_once_each(n: int, keys: int) -> None:
    rng = np.random.default_rng((n, keys))
    rows = [mined(row.tobytes(), keys, 21, rng) for row in draw(rng, n, 400)]
    found = [trust.mined(row) for row in rows]
    truth = n + keys
    bias = np.mean([one.people for one in found]) / truth - 1
    inside = np.mean([abs(np.log(one.people / truth)) <= 1.96 * one.sigma for one in found])
    noise = 3 * float(np.mean([one.sigma for one in found])) / np.sqrt(len(found))
    assert abs(bias) <= 0.015 + noise
    assert inside >= 0.92
    assert np.mean([one.found for one in found]) <= 0.01 or keys
    assert all(one.found for one in found) or not keys


@pytest.mark.parametrize("n", [300, 2000, 20_000])
def test_keys_mined_just_at_the_cut_lower_it(n: int) -> None:
    rng = np.random.default_rng((n, 4))
    rows = draw(rng, n, 200)
    rank = int(np.median(rows)) + 4
    found = [trust.mined(mined(row.tobytes(), 30, rank, rng)) for row in rows]
    assert np.mean([one.cut < rank for one in found]) > 0.9
    assert abs(np.mean([one.people for one in found]) / (n + 30) - 1) < 0.03


def test_what_may_be_gone_from_readings_widens_the_interval_of_the_better_merge() -> None:
    keys = frozenset(PEOPLE[:1990])
    reading = Reading(authors=keys, events=keys, complete=True)
    fresh = holder("wss://read", 0, 1990, reading=reading)
    old = msgspec.structs.replace(fresh, reading=msgspec.structs.replace(reading, gone=0.02))
    other = holder("wss://b", 10, 2000, approximate=True)
    now, then = (authors(merge_claims([one, other], one_per_author=True)) for one in (fresh, old))
    assert then.value == now.value
    assert then.low <= now.low - 0.02 * 1990
