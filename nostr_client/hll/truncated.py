"""How many pubkeys a sketch has seen, from its registers up to a rank alone.

A key that was mined for its leading zeros puts a register where a million keys would. Registers
above a cut are therefore treated as lost: the likelihood is that of the others given that they do
not lie above it (a register is at most k with probability exp(-n / 256 / 2^k), so the condition
takes away one factor). A register above the cut then says one thing only: that some key is there.
So one key is added for each such register beyond the number that the others lead to expect.
Treating a high register as "at least the cut" would let each mined key count as thousands.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from nostr_client.hll.registers import WINDOW_BITS, M

if TYPE_CHECKING:
    from collections.abc import Sequence

_STEPS = 40
_CLOSE_ENOUGH = 1e-7
# A miner who chooses registers puts k keys on k of them; one who does not, on k^2 / 512 fewer.
# The middle of the two is taken, which is off by 1 % of 90 people where 30 of them were mined.
_COLLISIONS = 1 / (4 * M)


def fit(counts: Sequence[int], cut: int, near: float = 0.0) -> float:
    """Estimate the pubkeys behind the registers up to `cut`, given that they are not above it.

    `counts` holds the number of registers of each rank. 0.0 where all of them are 0, infinite
    where no register says anything. Newton's steps on the logarithm, each at most a factor of e,
    from `near` where a number close by is known.
    """
    left = sum(counts[: cut + 1])
    if counts[0] == left:
        return 0.0 if left else math.inf
    ranks = [(count, math.ldexp(1.0, -r)) for r, count in enumerate(counts[: cut + 1]) if count]
    if counts[0]:
        del ranks[0]
    outside = left * math.ldexp(1.0, -cut) - counts[0]
    rate = near / M if 0 < near < math.inf else _start(counts, left)
    for _ in range(_STEPS):
        step = _step(ranks, outside, rate)
        rate *= math.exp(step)
        if abs(step) < _CLOSE_ENOUGH:
            break
    return M * rate


def _start(counts: Sequence[int], left: int) -> float:
    if counts[0]:
        return -math.log(counts[0] / left)
    seen = 0
    for rank, count in enumerate(counts):
        seen += count
        if 2 * seen >= left:
            return math.ldexp(math.log(2), rank)
    raise AssertionError("the counts add up to those left")  # pragma: no cover


def _step(ranks: Sequence[tuple[int, float]], outside: float, rate: float) -> float:
    """Newton's step on log(rate): the slope of the log-likelihood over its curvature."""
    slope, curve = outside, 0.0
    for count, weight in ranks:
        x = rate * weight
        odds = 1 / math.expm1(x) if x < 700 else 0.0
        slope += count * weight * (odds - 1)
        curve -= count * weight * weight * odds * (1 + odds)
    slope, curve = slope * rate, curve * rate * rate
    bend = slope + curve
    return max(-1.0, min(1.0, -slope / (bend if bend < 0 else curve or -1.0)))


def expected_above(people: float, rank: int) -> float:
    """Registers above a rank that so many pubkeys lead to expect."""
    return -M * math.expm1(-math.ldexp(people / M, -rank))


def estimate_below(counts: Sequence[int], cut: int, people: float) -> float:
    """Pubkeys in a sketch, where those above the cut count once each; infinite where all are.

    `people` is the `fit` of the same cut.
    """
    if math.isinf(people):
        return people
    likely = expected_above(people, cut)
    more = (sum(counts[cut + 1 :]) - likely) / (1 - likely / M)
    return max(people + more + max(more, 0.0) ** 2 * _COLLISIONS, 0.0)


def sigma_below(people: float, cut: int, lost: int) -> float:
    """Relative standard error of `estimate_below` with so many registers above the cut.

    The Cramér-Rao value of the registers that are left, and the spread of the number above the
    cut; as in `hll.sigma`, the spread of the Poisson model itself is taken back.
    """
    if people < 1 or lost >= M:
        return math.sqrt(1 / (2 * M))
    rate, last = people / M, math.ldexp(1.0, -cut)
    inside = math.exp(-rate * last)
    drift = rate * last
    information = math.exp(drift - rate) * (drift - rate) ** 2
    for rank in range(1, cut + 1):
        x = math.ldexp(rate, -rank)
        if 0 < x < 700:
            miss = math.exp(-x)
            slope = x * (miss / -math.expm1(-x) - 1) + drift
            information += miss * -math.expm1(-x) / inside * slope * slope
    below = (1 - last * inside) ** 2 / ((M - lost) * information)
    above = M * inside * (1 - inside) / people**2
    return math.sqrt(max(below + above - 1 / people, 0.0))


def histogram(registers: bytes) -> list[int]:
    """How many registers hold each rank from 0 to 57."""
    highest = max(registers)
    counts = [registers.count(rank) for rank in range(highest + 1)]
    return counts + [0] * (WINDOW_BITS + 1 - highest)
