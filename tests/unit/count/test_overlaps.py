"""What two relays share: exact where people were read, with an interval from registers."""

from __future__ import annotations

import random

import pytest

from nostr_client import hll
from nostr_client.count import overlaps
from nostr_client.count.merge import (
    Claim,
    ClaimStatus,
    Listing,
    Method,
    Proven,
    Reading,
    TrustPolicy,
    merge_claims,
)
from nostr_client.count.overlaps import overlaps_of
from nostr_client.count.queries import followers
from nostr_client.count.result import CountResult
from nostr_client.hll.overlap import jaccard_interval

QUESTION = followers("82341f882b6eabcd2ba7f1ef90aad961cf074af15b9ef44a09f9d2a8fbfbe6a2")
OFFSET = QUESTION.offset
assert OFFSET is not None


def people(seed: int, n: int) -> list[bytes]:
    rand = random.Random(seed)
    return [rand.randbytes(32) for _ in range(n)]


def read(relay: str, who: list[bytes], **how: object) -> Claim:
    """A claim as the engine makes it: registers of what was read come with the reading."""
    reading = Reading(**{"authors": frozenset(who), "events": frozenset(), "complete": True, **how})
    return Claim(
        relay=relay,
        status=ClaimStatus.OK,
        method=Method.EVENTS,
        asked_at=1.0,
        registers=hll.from_pubkeys(who, OFFSET),
        reading=reading,
    )


def registers(relay: str, sketch: bytes) -> Claim:
    return Claim(
        relay=relay, status=ClaimStatus.OK, method=Method.HLL, asked_at=1.0, registers=sketch
    )


def sketch(relay: str, who: list[bytes]) -> Claim:
    return registers(relay, hll.from_pubkeys(who, OFFSET))


def result(*claims: Claim, out: tuple[str, ...] = (), **how: object) -> CountResult:
    """What a count makes of the claims; `out` are those that the user left out."""
    merged = merge_claims(
        [one for one in claims if one.relay not in out], one_per_author=True, **how
    )
    return CountResult(query=QUESTION, merged=merged, relays=claims)


ALL = people(1, 1_000)


def test_people_who_were_read_are_compared_one_by_one() -> None:
    (one,) = overlaps_of(result(read("a", ALL[:600]), read("b", ALL[400:]))).overlaps
    assert (one.relays, one.people, one.exact) == (("a", "b"), 200, True)
    assert one.low == one.jaccard == one.high == 0.2


@pytest.mark.parametrize("first", [read, sketch], ids=["people and registers", "registers"])
def test_registers_give_an_interval_that_holds_the_truth(first: object) -> None:
    (one,) = overlaps_of(result(first("a", ALL[:700]), sketch("b", ALL[300:]))).overlaps
    assert not one.exact
    assert one.low <= 0.4 <= one.high
    assert one.high - one.low < 0.2
    assert one.people == pytest.approx(400, rel=0.3)


def test_an_earlier_reading_is_not_exact_and_its_interval_has_those_who_may_be_gone() -> None:
    now, earlier = read("a", ALL[:600]), read("b", ALL[400:], gone=0.05, proven=Proven.NOTHING)
    (one,) = overlaps_of(result(now, earlier)).overlaps
    assert one.jaccard == 0.2
    assert not one.exact
    assert 0.1 < one.low < 0.2 < one.high < 0.3
    (same,) = overlaps_of(result(now, read("b", ALL[400:], proven=Proven.NUMBER))).overlaps
    assert not same.exact


LACKING = {
    "silent": Claim(relay="x", status=ClaimStatus.TIMEOUT, asked_at=1.0, warnings=("too slow",)),
    "number": Claim(relay="x", status=ClaimStatus.OK, count=7, asked_at=1.0),
    "ids": Claim(
        relay="x",
        status=ClaimStatus.OK,
        method=Method.NEGENTROPY,
        asked_at=1.0,
        count=1,
        listing=Listing(ids=frozenset([b"i" * 32]), judged=True),
    ),
    "half": read("x", ALL[:9], complete=False),
    "nobody": read("x", []),
    "no one": registers("x", hll.EMPTY),
    "full": registers("x", b"\x39" * 256),
}
WHYS = {
    "silent": "no answer: timeout; too slow",
    "number": overlaps.ONLY_NUMBER,
    "ids": overlaps.ONLY_IDS,
    "half": overlaps.NOT_ALL_READ,
    "nobody": overlaps.NOBODY,
    "no one": overlaps.NOBODY,
    "full": overlaps.FULL,
}


@pytest.mark.parametrize("name", LACKING)
def test_what_cannot_be_compared_has_its_reason_and_is_no_zero(name: str) -> None:
    claims = [read("w", ALL[:900]), LACKING[name], sketch("r", ALL[100:])]
    found = overlaps_of(result(*claims, policy=TrustPolicy.OFF))
    assert [one.relays for one in found.overlaps] == [("w", "r")]
    assert [(one.relay, one.why) for one in found.uncompared] == [("x", WHYS[name])]


def test_what_is_left_out_of_the_number_is_not_compared() -> None:
    liar = registers("liar", b"\x05" * 256)
    honest = [sketch("a", ALL[:900]), sketch("b", ALL[100:])]
    found = overlaps_of(result(*honest, liar, out=("b",)))
    assert found.overlaps == ()
    (mine, tested, single) = found.uncompared
    assert (mine.relay, mine.why) == ("b", overlaps.BY_USER)
    assert tested.relay == "liar"
    assert tested.why.startswith("hll: ")
    assert (single.relay, single.why) == ("a", overlaps.NO_OTHER)


@pytest.mark.parametrize("seed", range(20))
def test_every_relay_is_in_a_pair_or_has_a_reason(seed: int) -> None:
    rand = random.Random(seed)
    made = [*LACKING.values(), read("x", ALL[:50]), sketch("x", ALL), sketch("x", ALL[500:])]
    claims = [
        Claim(**{**{f: getattr(one, f) for f in Claim.__struct_fields__}, "relay": f"r{n}"})
        for n, one in enumerate(rand.choices(made, k=rand.randint(0, 6)))
    ]
    found = overlaps_of(result(*claims))
    paired = {relay for one in found.overlaps for relay in one.relays}
    lacking = [one.relay for one in found.uncompared]
    assert sorted([*paired, *lacking]) == sorted(one.relay for one in claims)
    assert len(found.overlaps) == len(paired) * (len(paired) - 1) // 2
    for one in found.overlaps:
        assert 0 <= one.low <= one.jaccard <= one.high <= 1


@pytest.mark.parametrize("share", [0.0, 0.05, 0.3, 0.7, 0.95, 1.0])
@pytest.mark.parametrize("n", [100, 3_000])
def test_the_interval_covers_the_truth_as_often_as_it_says(n: int, share: float) -> None:
    covered, trials = 0, 100
    for seed in range(trials):
        keys = people(1_000 * n + seed, n)
        both = round(share * n)
        alone = (n - both) // 2
        one = hll.from_pubkeys(keys[: both + alone], OFFSET)
        other = hll.from_pubkeys([*keys[:both], *keys[both + alone :]], OFFSET)
        low, high = jaccard_interval(one, other)
        covered += low <= both / n <= high
    assert covered / trials >= 0.9


FEW = [(2_000, 20, 0), (2_000, 20, 10), (2_000, 160, 80), (3_000, 3_000, 100), (300, 300, 15)]


@pytest.mark.parametrize(("n", "m", "both"), FEW)
def test_the_interval_of_few_shared_people_covers_the_truth(n: int, m: int, both: int) -> None:
    """Of sets of different sizes too, where the likelihood is far from a parabola."""
    covered, seen, trials = 0, 0, 50
    for seed in range(trials):
        keys = people(100_000 * n + 1_000 * m + seed, n + m - both)
        one, other = hll.from_pubkeys(keys[:n], OFFSET), hll.from_pubkeys(keys[n - both :], OFFSET)
        low, high = jaccard_interval(one, other)
        covered += low <= both / (n + m - both) <= high
        seen += low > 0
    assert covered / trials >= 0.92
    assert both or seen / trials <= 0.05


def test_the_ends_of_the_interval() -> None:
    some = hll.from_pubkeys(ALL, OFFSET)
    assert jaccard_interval(some, hll.EMPTY) == (0.0, 0.0)
    assert jaccard_interval(some, b"\x39" * 256) == (0.0, 1.0)
    low, high = jaccard_interval(some, some)
    assert 0.9 < low < 0.98  # a few registers that differ would be no surprise
    assert high == 1.0
