"""The three tail probabilities that the trust tests need, each up to rounding.

Written out because a statistics library would weigh more than the rest of the SDK together.
"""

from __future__ import annotations

import math
from functools import cache


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
