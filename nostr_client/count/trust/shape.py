"""Test whether random pubkeys can make a sketch: registers against the Poisson model.

Under the model a register is at most k with probability exp(-n / 256 / 2^k), each on its own. A
sketch with registers raised by hand has too many high ones for the n of its lower three quarters,
or a histogram of another form. A clean doubling of all (one more in every register), and pubkeys
mined for their leading zeros at every rank, have the right form and are invisible here.
"""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

from nostr_client.hll import MAX_RANK, M
from nostr_client.hll.estimate import ertl_sigma, ertl_tau
from nostr_client.hll.registers import WINDOW_BITS, clean


def binomial_upper(n: int, p: float, k: int) -> float:
    """P(X >= k) for X ~ Binomial(n, p): the terms from k on, for as long as they matter."""
    if k <= 0 or p >= 1:
        return 1.0 if k <= n else 0.0
    if k > n or p <= 0:
        return 0.0
    log = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
    term = math.exp(log + k * math.log(p) + (n - k) * math.log1p(-p))
    odds, total = p / (1 - p), 0.0
    for i in range(k, n + 1):
        total += term
        growth = odds * (n - i) / (i + 1)
        term *= growth
        if growth < 1 and term < 1e-15 * total:
            break
    return min(total, 1.0)


def chi_square_upper(x: float, freedom: int) -> float:
    """P(X >= x) for X ~ chi-square with a whole number of degrees of freedom."""
    if x <= 0 or freedom <= 0:
        return 1.0
    half, odd = x / 2, freedom % 2
    total = math.erfc(math.sqrt(half)) if odd else 0.0
    for i in range(freedom // 2):
        power = i + odd / 2
        total += math.exp(power * math.log(half) - half - math.lgamma(power + 1))
    return min(total, 1.0)


@cache
def occupied(balls: int, boxes: int) -> tuple[float, ...]:
    """P(exactly v of `boxes` boxes hold a ball) for v = 0..balls, each ball thrown at random."""
    if balls == 0:
        return (1.0,)
    before = (*occupied(balls - 1, boxes), 0.0)
    return tuple(
        before[v] * v / boxes + (before[v - 1] * (boxes - v + 1) / boxes if v else 0.0)
        for v in range(balls + 1)
    )


MAX_TAIL_P = 1e-4
"""Chance of so many high registers below which a sketch is flagged (minimum over thresholds)."""

MAX_HISTOGRAM_P = 1e-5
"""Chance of a histogram this far off below which a sketch is flagged."""

_FULL = "hll: nearly all registers are full, as no real people fill them"
_UNCENSORED = 3 * M // 4 - 1
_FEWEST_EXPECTED = 5.0  # below, the chi-square approximation of a bin is no good


class SketchShape(NamedTuple):
    """The result of the shape test; `reasons` is empty if the sketch passed.

    `robust_n`: distinct pubkeys by the lower three quarters of the registers. `tail_p`: the
    smallest chance over all ranks of as many registers above a rank; `tail_rank` is that rank.
    `histogram_p`: the chance of a chi-square as large.
    """

    robust_n: float
    tail_p: float
    tail_rank: int
    histogram_p: float
    reasons: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """True when nothing speaks against the sketch."""
        return not self.reasons


def shape(registers: bytes | bytearray) -> SketchShape:
    """Test one sketch. Raises InvalidInput for a sketch that is not 256 bytes. About 0.1 ms.

    False positives: at most 7 in 10,000 for honest sketches of 1 to a million pubkeys. From 200
    pubkeys on it sees any register at 57 and 64 registers raised by 4 always, 32 raised by 4 two
    times in three, the lowest 64 raised to the median nearly always.
    """
    counts = [0] * (MAX_RANK + 1)
    for rank in clean(registers):
        counts[rank] += 1
    n = _robust_estimate(counts)
    if math.isinf(n):
        return SketchShape(n, 0.0, MAX_RANK, 0.0, (_FULL,))
    tail_p, tail_rank = _tail(counts, n / M)
    histogram_p = _histogram(counts, n / M)
    return SketchShape(
        n, tail_p, tail_rank, histogram_p, tuple(_reasons(tail_p, tail_rank, histogram_p))
    )


def likely_below(registers: bytes | bytearray, people: float, cut: int) -> float:
    """Return the chance of a histogram as odd as that of the registers up to `cut`, all others
    lost.

    `people` are the distinct pubkeys of these registers (`hll.truncated.fit`). Raises InvalidInput
    for a sketch that is not 256 bytes.
    """
    counts = [0] * (cut + 1)
    for rank in clean(registers):
        if rank <= cut:
            counts[rank] += 1
    return _histogram(counts, people / M, _at_most(cut, people / M))


def _reasons(tail_p: float, tail_rank: int, histogram_p: float) -> list[str]:
    reasons = []
    if tail_p < MAX_TAIL_P:
        chance = f"chance {tail_p:.1g}"
        reasons.append(f"hll: too many registers above {tail_rank} for real people ({chance})")
    if histogram_p < MAX_HISTOGRAM_P:
        chance = f"chance {histogram_p:.1g}"
        reasons.append(f"hll: its registers are not those of real people ({chance})")
    return reasons


def _robust_estimate(counts: list[int]) -> float:
    """Ertl's estimator on registers cut off one above their 75th percentile.

    A register above the cut counts as "at least that", so that a made-up high register says no more
    than one just above it.
    """
    cut, seen = 0, counts[0]
    while seen <= _UNCENSORED and cut < WINDOW_BITS:
        cut += 1
        seen += counts[cut]
    total = M * ertl_tau(1 - sum(counts[cut + 1 :]) / M)
    for count in reversed(counts[1 : cut + 1]):
        total = 0.5 * (total + count)
    total += M * ertl_sigma(counts[0] / M)
    return M * M / (2 * math.log(2)) / total if total else math.inf


def _at_most(rank: int, rate: float) -> float:
    return math.exp(-math.ldexp(rate, -rank)) if rank < MAX_RANK else 1.0


def _tail(counts: list[int], rate: float) -> tuple[float, int]:
    """The least likely excess of registers above any rank: its probability and the rank."""
    worst, worst_rank, above = 1.0, 0, 0
    for rank in range(MAX_RANK - 1, -1, -1):
        above += counts[rank + 1]
        if above:
            p = -math.expm1(-math.ldexp(rate, -rank))
            chance = binomial_upper(M, p, above) if _is_excess(above, p) else 1.0
            if chance < worst:
                worst, worst_rank = chance, rank
    return worst, worst_rank


def _is_excess(above: int, p: float) -> bool:
    """Two standard deviations: an excess below that is never one in ten thousand."""
    return above > M * p + 2 * math.sqrt(M * p * (1 - p))


def _histogram(counts: list[int], rate: float, inside: float = 1.0) -> float:
    """Return the chi-square of the histogram, bins pooled until each expects enough registers.

    `inside`: the chance that a register is one of these at all.
    """
    bins: list[list[float]] = []
    lower, total = 0.0, sum(counts)
    for rank, count in enumerate(counts):
        upper = _at_most(rank, rate)
        if not bins or bins[-1][1] >= _FEWEST_EXPECTED:
            bins.append([0, 0.0])
        bins[-1][0] += count
        bins[-1][1] += total * (upper - lower) / inside
        lower = upper
    if len(bins) > 1 and bins[-1][1] < _FEWEST_EXPECTED:
        last = bins.pop()
        bins[-1] = [bins[-1][0] + last[0], bins[-1][1] + last[1]]
    score = sum((seen - expected) ** 2 / expected for seen, expected in bins if expected)
    # One degree for the total, one for n.
    return chi_square_upper(score, len(bins) - 2)
