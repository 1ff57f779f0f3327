"""Intervals of estimated figures: how often they hold the truth, and what their width costs.

Relays are simulated by their sketches: so many people, of whom each relay holds a random part. By
bins of people, method and number of relays, with keys mined for their zero bits on no relay, on
one, and on all of them.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
import pytest

from nostr_client import hll
from nostr_client.count.merge import Claim, ClaimStatus, Figure, Method, Reading, merge_claims

if TYPE_CHECKING:
    import numpy.typing as npt
    from _pytest.mark import ParameterSet

SEED = 2119
FULL = 500
PEOPLE = (60, 300, 2000, 20_000)
RELAYS = (1, 2, 3, 5, 8)
MINED_RANK = 21  # twenty zero bits: about a second of mining for each key

Way = Literal["registers", "counted", "mixed"]
Where = Literal["none", "one", "all"]
WAYS: tuple[Way, ...] = ("registers", "counted", "mixed")


class Bin(NamedTuple):
    """Worlds of one kind."""

    people: int
    way: Way
    relays: int
    mined: int = 0
    where: Where = "none"


class Score(NamedTuple):
    """Of estimated figures: number, share that holds the truth, mean score over the best score."""

    figures: int
    coverage: float
    cost: float
    bias: float
    error: float


def world(rng: np.random.Generator, kind: Bin) -> tuple[list[Claim], int]:
    """Claims of relays that hold a random part of the people each, and the size of the union."""
    n = kind.people + kind.mined
    index = rng.integers(0, hll.M, n)
    rank = np.minimum(rng.geometric(0.5, n), hll.MAX_RANK).astype(np.uint8)
    rank[kind.people :] = MINED_RANK
    coverage = rng.uniform(0.3, 0.95)
    seen = np.zeros(n, bool)
    claims = []
    for place in range(kind.relays):
        member = rng.random(n) < coverage
        member[kind.people :] = kind.where == "all" or (kind.where == "one" and place == 0)
        seen |= member
        registers = np.zeros(hll.M, np.uint8)
        np.maximum.at(registers, index[member], rank[member])
        claims.append(claim(kind.way, place, member, registers))
    return claims, int(seen.sum())


def claim(
    way: Way, place: int, member: npt.NDArray[np.bool_], registers: npt.NDArray[np.uint8]
) -> Claim:
    """What one relay says: an estimate as its count, an exact count, or its events."""
    number, sketch = int(member.sum()), registers.tobytes()
    reading = None
    if way == "mixed" and place == 0:
        keys = frozenset(int(i).to_bytes(32, "big") for i in np.flatnonzero(member))
        reading = Reading(authors=keys, events=keys, complete=True)
    exact = way == "counted" or reading is not None
    return Claim(
        relay=f"wss://r{place}",
        status=ClaimStatus.OK,
        method=Method.HLL if reading is None else Method.EVENTS,
        count=number if exact else round(hll.estimate(sketch)),
        approximate=None if exact else True,
        registers=sketch,
        reading=reading,
    )


def measure(kind: Bin, worlds: int) -> Score:
    """The intervals of so many worlds, against one that is as wide as the error that was seen."""
    rng = np.random.default_rng((SEED, *(ord(c) for c in str(kind))))
    found: list[tuple[Figure, int]] = []
    for _ in range(worlds):
        claims, truth = world(rng, kind)
        figure = merge_claims(claims, one_per_author=True).authors
        assert figure is not None
        assert not figure.exact or figure.value == truth
        if not figure.exact and figure.high is not None:
            found.append((figure, truth))
    if not found:
        return Score(0, 1.0, 1.0, 0.0, 0.0)
    truths = np.array([truth for _, truth in found], float)
    values = np.array([figure.value for figure, _ in found], float)
    low = np.array([figure.low for figure, _ in found], float)
    high = np.array([figure.high for figure, _ in found], float)
    error = float(np.sqrt(np.mean((values / truths - 1) ** 2)))
    wide = 1.96 * error * values
    best = penalised(values - wide, values + wide, truths)
    cost = penalised(low, high, truths) / best if best else 1.0
    inside = float(np.mean((low <= truths) & (truths <= high)))
    return Score(len(found), inside, cost, float(np.mean(values / truths - 1)), error)


def penalised(
    low: npt.NDArray[np.float64], high: npt.NDArray[np.float64], truth: npt.NDArray[np.float64]
) -> float:
    """The mean interval score at 95 % (Gneiting and Raftery 2007): width, and 40 times a miss."""
    miss = np.maximum(low - truth, 0) + np.maximum(truth - high, 0)
    return float(np.mean(((high - low) + 40 * miss) / truth))


def report(kind: Bin, score: Score) -> None:
    keys = f"{kind.mined} mined on {kind.where}" if kind.mined else "no lies"
    sys.stdout.write(
        f"{kind.people:>6} people {kind.way:<9} {kind.relays} relays, {keys:<15}"
        f" {score.figures:>4} figures: {score.coverage:6.1%} inside, {score.cost:5.2f} times the"
        f" best score, bias {score.bias:+6.1%}, error {score.error:5.1%}\n"
    )


HONEST = [
    Bin(n, way, relays)
    for way in WAYS
    for n in PEOPLE
    for relays in RELAYS
    if relays > 1 or way == "registers"  # the others are exact
]
MINED = [
    Bin(n, way, relays, keys, where)
    for way in WAYS
    for n in PEOPLE
    for relays in (1, 3, 5)
    if relays > 1 or way == "registers"
    for keys in (3, 30)
    for where in ("one", "all")
]


def spread(share: float, figures: int) -> float:
    """Four standard deviations of a share that is seen on so few figures; none on all of them."""
    return 0.0 if figures >= 0.8 * FULL else 4 * float(np.sqrt(share * (1 - share) / figures))


def check(kinds: list[Bin], worlds: int, least: float) -> None:
    scores = {kind: measure(kind, worlds) for kind in kinds}
    for kind, score in scores.items():
        report(kind, score)
    estimated = {kind: score for kind, score in scores.items() if score.figures}
    assert estimated
    for kind, score in estimated.items():
        assert score.coverage >= least - spread(least, score.figures), kind
    assert np.mean([score.coverage for score in estimated.values()]) >= least
    costs = {kind: score.cost for kind, score in estimated.items()}
    assert np.mean([*costs.values()]) <= 1.15
    if worlds == FULL:  # of fewer worlds one miss more or less decides
        assert max(costs.values()) <= 1.15, max(costs, key=lambda kind: costs[kind])


def each_alone() -> list[ParameterSet]:
    """Each way as a parameter, in a process of its own where there are several."""
    return [pytest.param(way, marks=pytest.mark.xdist_group(f"intervals {way}")) for way in WAYS]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("way", WAYS)
def test_a_tenth_of_the_intervals_without_lies(way: Way) -> None:
    check([kind for kind in HONEST if kind.way == way], FULL // 10, 0.92)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("way", WAYS)
def test_a_tenth_of_the_intervals_with_mined_keys(way: Way) -> None:
    kinds = [kind for kind in MINED if kind.way == way]
    check([kind for kind in kinds if kind.relays == 3], FULL // 10, 0.90)


@pytest.mark.long
@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("way", each_alone())
def test_intervals_without_lies(way: Way) -> None:
    check([kind for kind in HONEST if kind.way == way], FULL, 0.92)


@pytest.mark.long
@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("way", each_alone())
def test_intervals_with_mined_keys(way: Way) -> None:
    check([kind for kind in MINED if kind.way == way], FULL, 0.90)
