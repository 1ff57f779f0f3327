"""How many distinct pubkeys a sketch has seen, and how sure that is.

Estimator: O. Ertl, "New cardinality estimation algorithms for HyperLogLog sketches" (2017),
section 4, the improved raw estimator: no thresholds, no tables, within a few hundredths of the
Cramér-Rao bound over the whole range.
"""

from __future__ import annotations

import math

from nostr_client.hll.registers import WINDOW_BITS, M, clean

_SCALE = M * M / (2 * math.log(2))
_SATURATED = float(M * 2**WINDOW_BITS)
# Limit of `sigma` for few keys: sigma^2 -> 1 / (2 M).
_SIGMA_FEW = math.sqrt(1 / (2 * M))


def estimate(registers: bytes | bytearray) -> float:
    """Distinct pubkeys in a sketch: 0.0 for an empty one, `inf` for one with all registers at 57.

    Registers above 57 count as 57. Raises InvalidInput for a sketch that is not 256 bytes.
    """
    registers = clean(registers)
    count = registers.count
    full = count(WINDOW_BITS + 1)
    total = M * _tau(1 - full / M) if full else 0.0
    for rank in range(min(max(registers), WINDOW_BITS), 0, -1):
        total = 0.5 * (total + count(rank))
    empty = count(0)
    if empty == M:
        return 0.0
    if empty:
        total += M * _sigma(empty / M)
    return _SCALE / total if total else math.inf


def interval(est: float, z: float = 1.96) -> tuple[float, float]:
    """The range est * exp(±z * sigma(est)); z = 1.96 covers the truth 95 times in 100.

    (0, 0) for 0; for `inf` (a saturated sketch) the lower end is the most that can be told.
    """
    if est <= 0:
        return 0.0, 0.0
    if math.isinf(est):
        return _SATURATED, math.inf
    spread = z * sigma(est)
    return est * math.exp(-spread), est * math.exp(spread)


def sigma(n: float) -> float:
    """Relative standard error of an estimate of n, as a fraction: 0.044 for few, 0.065 for many.

    The Cramér-Rao value sqrt(1 / (256 I(n)) - 1 / n) with I the Fisher information that one
    register holds about log n in the Poisson model; the second term takes back the spread of the
    Poisson model itself, n being a fixed number. Summed term by term, about 10 µs.
    """
    if n < 1:
        return _SIGMA_FEW
    rate = min(n, _SATURATED * M) / M
    return math.sqrt(max(1 / (M * _fisher(rate)) - 1 / n, 0.0))


def _fisher(rate: float) -> float:
    """Information about log(rate) in one register that sees Poisson(rate) pubkeys."""
    information = rate * rate * math.exp(-rate)
    for rank in range(1, WINDOW_BITS + 1):
        x = math.ldexp(rate, -rank)
        if x < 700:  # beyond, the probability is no longer a double
            miss = math.exp(-x)
            information += x * x * miss * (2 * miss - 1) ** 2 / -math.expm1(-x)
    x = math.ldexp(rate, -WINDOW_BITS)
    return information + x * x * math.exp(-2 * x) / -math.expm1(-x)


def _sigma(x: float) -> float:
    """Ertl's sigma: x + sum of x^(2^k) 2^(k-1), for the part of registers that are still 0."""
    total, weight = x, 1.0
    while True:
        x *= x
        previous, total = total, total + x * weight
        weight += weight
        if total == previous:
            return total


def _tau(x: float) -> float:
    """Ertl's tau: (1 - x - sum of (1 - x^(2^-k))^2 2^-k) / 3, for registers that are full."""
    if x in (0.0, 1.0):
        return 0.0
    total, weight = 1 - x, 1.0
    while True:
        x = math.sqrt(x)
        weight *= 0.5
        previous, total = total, total - (1 - x) ** 2 * weight
        if total == previous:
            return total / 3
