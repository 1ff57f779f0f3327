"""Find registers raised by keys mined for their zero bits: where they begin, and how many.

Mined keys are real and their signatures are good, so the relays that show them are honest. But they
distort the estimate: three keys with twenty zero bits look like a million people. The cut is the
rank above which the estimate loses registers (`hll.truncated`); it is four above the median, and
lower if the registers up to it have too many high ones themselves.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from nostr_client.codecs.display import plural
from nostr_client.count.trust.shape import binomial_upper
from nostr_client.hll import M
from nostr_client.hll.registers import MAX_RANK, clean
from nostr_client.hll.truncated import (
    estimate_below,
    expected_above,
    fit,
    histogram,
    sigma_below,
)

MAX_EXCESS_P = 1e-4
"""Chance of so many registers above a rank from which on an excess is not random."""

MAX_BAND_P = 1e-3
"""Chance of so many registers just below the cut from which on the cut is put below them."""

LOWEST_CUT = 2
"""The least cut, of small sets whose median is 0: one key in four is above it."""

_ABOVE_MEDIAN = 4
"""Ranks from the median to the cut: 11 of 256 registers are above by chance, 1.5 % of accuracy."""


class MinedEstimate(NamedTuple):
    """The result of a sketch if high registers count once each.

    `people`: distinct pubkeys; `sigma`: its relative standard error. `above`: registers above
    `rank`, of which `likely` are expected: the least likely excess of any rank, whose chance is
    `p`.
    """

    people: float
    sigma: float
    cut: int
    rank: int
    above: int
    likely: float
    p: float

    @property
    def found(self) -> bool:
        """Whether the excess is not random."""
        return self.p < MAX_EXCESS_P

    @property
    def excess(self) -> float:
        """Registers beyond the expected number."""
        return self.above - self.likely

    @property
    def reasons(self) -> tuple[str, ...]:
        """The warning about it; empty if nothing was found."""
        if not self.found:
            return ()
        likely = f"{self.likely:.0f}" if self.likely >= 1 else "none"
        text = f"hll: {plural(self.above, 'register')} above {self.rank}, {likely} expected"
        return (f"{text}: keys mined to raise the number, so each of them counts once",)


def mined(registers: bytes | bytearray) -> MinedEstimate:
    """Look for registers that mined keys raised. Raises InvalidInput as `hll.estimate` does.

    About 0.1 ms. An honest sketch is `found` less than once in a thousand.
    """
    counts = histogram(clean(registers))
    cut, chance, people = _cut(counts)
    if math.isinf(people):
        return MinedEstimate(math.inf, math.inf, cut, cut, M, 0.0, 0.0)
    rank, above, likely, p = _excess(counts, people, cut)
    whole = estimate_below(counts, cut, people)
    # Keys that were mined are counted, not estimated: only the others can be wrong.
    sigma = sigma_below(people, cut, sum(counts[cut + 1 :])) * min(people / max(whole, 1.0), 1.0)
    return MinedEstimate(whole, sigma, cut, rank, above, likely, min(p, chance))


class _Cut(NamedTuple):
    """A cut, the chance of the registers just below the highest one, and the `fit` of the cut."""

    cut: int
    chance: float
    people: float


def _cut(counts: list[int]) -> _Cut:
    """Return the highest cut below which the registers have no excess of high ranks."""
    middle = _median(counts)
    highest, lowest = middle + _ABOVE_MEDIAN, max(middle + 1, LOWEST_CUT)
    if highest >= MAX_RANK:
        return _Cut(MAX_RANK - 1, 1.0, fit(counts, MAX_RANK - 1))
    worst = whole = _Cut(highest, 1.0, fit(counts, highest))
    for low in range(highest - 1, lowest - 1, -1):
        if _band(counts, low, highest, whole.people) == 1.0:
            continue  # no excess beside all registers, so none beside the lower ones either
        people = fit(counts, low, whole.people)
        chance = _band(counts, low, highest, people)
        if chance <= worst.chance:
            worst = _Cut(low, chance, people)
    return worst if worst.chance < MAX_BAND_P else whole


def _median(counts: list[int]) -> int:
    seen = 0
    for rank, count in enumerate(counts):
        seen += count
        if seen > M // 2:
            return rank
    return MAX_RANK


def _band(counts: list[int], low: int, high: int, people: float) -> float:
    """Return the chance of this many registers from `low` to `high`, if lower ones fit `people`."""
    rate = (people + 1) / M
    inside = 1 - math.exp(math.ldexp(rate, -high) - math.ldexp(rate, -low))
    band = sum(counts[low + 1 : high + 1])
    return _upper(sum(counts[: high + 1]), inside, band)


def _excess(counts: list[int], people: float, cut: int) -> tuple[int, int, float, float]:
    """Return the least likely excess above any rank from the cut on: rank, number, expected,
    chance.

    If nobody is below the cut, one person may still be above it: one is always allowed for.
    """
    worst = (cut, sum(counts[cut + 1 :]), expected_above(people, cut), 1.0)
    above = 0
    for rank in range(MAX_RANK - 1, cut - 1, -1):
        above += counts[rank + 1]
        if counts[rank + 1]:
            likely = expected_above(people, rank)
            p = _upper(M, expected_above(people + 1, rank) / M, above)
            if p < worst[3]:
                worst = (rank, above, likely, p)
    return worst


def _upper(n: int, p: float, k: int) -> float:
    """Return the binomial tail, if it may be small at all."""
    return binomial_upper(n, p, k) if k > n * p + 2 * math.sqrt(n * p * (1 - p)) else 1.0
