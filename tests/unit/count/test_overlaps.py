"""What two relays share: exact where people were read, with an interval from registers."""

from __future__ import annotations

import random

import pytest

from nostr_client import hll
from nostr_client.count.merge import Claim, ClaimStatus, Method, Reading
from nostr_client.count.overlaps import overlaps
from nostr_client.hll.overlap import jaccard_interval

OFFSET = 10


def people(seed: int, n: int) -> list[bytes]:
    rand = random.Random(seed)
    return [rand.randbytes(32) for _ in range(n)]


def claim(relay: str, who: list[bytes], *, read: bool, complete: bool = True) -> Claim:
    reading = Reading(authors=frozenset(who), events=frozenset(), complete=complete)
    return Claim(
        relay=relay,
        status=ClaimStatus.OK,
        method=Method.EVENTS if read else Method.HLL,
        asked_at=1.0,
        registers=None if read else hll.from_pubkeys(who, OFFSET),
        reading=reading if read else None,
    )


ALL = people(1, 1_000)


def test_people_who_were_read_are_compared_one_by_one() -> None:
    (one,) = overlaps([claim("a", ALL[:600], read=True), claim("b", ALL[400:], read=True)], None)
    assert (one.relays, one.people, one.exact) == (("a", "b"), 200, True)
    assert one.low == one.jaccard == one.high == 0.2


@pytest.mark.parametrize("read", [False, True], ids=["registers", "registers and people"])
def test_registers_give_an_interval_that_holds_the_truth(read: bool) -> None:
    claims = [claim("a", ALL[:700], read=read), claim("b", ALL[300:], read=False)]
    (one,) = overlaps(claims, OFFSET)
    assert not one.exact
    assert one.low <= 0.4 <= one.high
    assert one.high - one.low < 0.2
    assert one.people == pytest.approx(400, rel=0.3)


def test_what_cannot_be_compared_is_left_out() -> None:
    silent = Claim(relay="s", status=ClaimStatus.TIMEOUT, asked_at=1.0)
    number = Claim(relay="n", status=ClaimStatus.OK, count=7, asked_at=1.0)
    half = claim("h", ALL[:9], read=True, complete=False)
    whole = claim("w", ALL[:9], read=True)
    assert overlaps([silent, number, half, whole], OFFSET) == []
    assert overlaps([claim("r", ALL, read=False), whole], None) == []


@pytest.mark.parametrize("share", [0.0, 0.05, 0.3, 0.7, 0.95, 1.0])
@pytest.mark.parametrize("n", [100, 3_000])
def test_the_interval_covers_the_truth_as_often_as_it_says(n: int, share: float) -> None:
    covered, trials = 0, 120
    for seed in range(trials):
        keys = people(1_000 * n + seed, n)
        both = round(share * n)
        alone = (n - both) // 2
        one = hll.from_pubkeys(keys[: both + alone], OFFSET)
        other = hll.from_pubkeys([*keys[:both], *keys[both + alone :]], OFFSET)
        low, high = jaccard_interval(one, other)
        covered += low <= both / n <= high
    assert covered / trials >= 0.9


def test_the_ends_of_the_interval() -> None:
    some = hll.from_pubkeys(ALL, OFFSET)
    assert jaccard_interval(some, hll.EMPTY) == (0.0, 0.0)
    assert jaccard_interval(some, b"\x39" * 256) == (0.0, 1.0)
    low, high = jaccard_interval(some, some)
    assert low > 0.99
    assert high == 1.0
