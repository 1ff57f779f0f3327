"""How many pubkeys two sketches share: joint maximum likelihood (Ertl 2017, section 5).

Each pubkey is in A alone, in B alone or in both, at Poisson rates a, b and x a register; the pair
of registers then has a closed distribution whose likelihood is maximised over the three rates.
Inclusion-exclusion of three estimates discards what the pairs show: 5 to 8 % of the union of
two equal sets, against 4 to 6.5 %, and 2 % where nothing is shared.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import NamedTuple

from nostr_client.hll.estimate import estimate, interval
from nostr_client.hll.registers import EMPTY, WINDOW_BITS, M, clean, merge

NOISE_BELOW = 0.10
"""Shared part of the larger set below which the answer cannot be distinguished from nothing."""

_NOISE_ERROR = 0.022
"""Standard error of the Jaccard index of two equal sets that share next to nobody, measured; of
unequal sets it is smaller."""

_STEPS = 60
_CLOSE_ENOUGH = 1e-9
# A rate is at least a thousandth of one pubkey in all registers together, so logs stay finite.
_FLOOR = math.log(1e-3 / M)

_Range = tuple[float, float]
_Vector = tuple[float, float, float]
_Information = tuple[float, float, float, float, float, float]  # aa, bb, xx, ab, ax, bx
_Pairs = tuple[tuple[tuple[int, int], int], ...]


class Overlap(NamedTuple):
    """The overlap of two sketches, as numbers of distinct pubkeys.

    `jaccard` is from 0 to 1. If `noise` is true, the two sets share less than a tenth of the larger
    set. In this case, report "few or none", because the error of `intersection` and `jaccard` is as
    large as their values.
    """

    union: float
    intersection: float
    only_a: float
    only_b: float
    jaccard: float
    noise: bool


class OverlapIntervals(NamedTuple):
    """The range of each number of an `Overlap`, as its lowest and its highest value."""

    union: tuple[float, float]
    intersection: tuple[float, float]
    only_a: tuple[float, float]
    only_b: tuple[float, float]
    jaccard: tuple[float, float]


def overlap(a: bytes | bytearray, b: bytes | bytearray) -> Overlap:
    """Return the union, the intersection and the Jaccard index of two sketches.

    Both sketches need the same offset. The union is `estimate` of the merged sketches, and the
    three parts add up to it. For two sets of n pubkeys, the standard error is 4 to 6.5 % of n, or
    about 2 % of n if the sets share no pubkey. If a sketch is saturated, the union is infinite and
    `noise` is true. The call takes about 5 ms. Raises InvalidInput for a sketch that is not 256
    bytes.
    """
    a, b = clean(a), clean(b)
    sizes = estimate(a), estimate(b), estimate(merge(a, b))
    if math.isinf(sizes[2]) or 0.0 in sizes[:2]:
        return _result(sizes[0], sizes[1], 0.0)
    parts = _maximise(_pairs(a, b), _start(*sizes))
    # The likelihood decides how the union is parted, the estimate how large it is.
    scale = sizes[2] / sum(parts)
    only_a, only_b, both = (part * scale for part in parts)
    return _result(only_a, only_b, both)._replace(union=sizes[2])


def overlap_intervals(
    a: bytes | bytearray, b: bytes | bytearray, z: float = 1.96
) -> OverlapIntervals:
    """Return the range of each number that `overlap` returns for two sketches of one offset.

    z = 1.96 covers the truth about 95 times in 100. If a sketch is saturated, a part of the union
    is at most as large as the sets that hold it. Raises InvalidInput for a sketch that is not 256
    bytes.
    """
    a, b = clean(a), clean(b)
    size, nobody = estimate(merge(a, b)), (0.0, 0.0)
    union = interval(size, z)
    if EMPTY in (a, b):
        only_a, only_b = (union if one != EMPTY else nobody for one in (a, b))
        return OverlapIntervals(union, nobody, only_a, only_b, nobody)
    if math.isinf(union[1]):
        return _saturated(union, interval(estimate(a), z), interval(estimate(b), z))
    fit = _fit(a, b)
    only_a, only_b, both = _part_intervals(fit, a, b, z)
    return OverlapIntervals(union, both, only_a, only_b, _jaccard(fit, (only_a, only_b), size, z))


def _saturated(union: _Range, size_a: _Range, size_b: _Range) -> OverlapIntervals:
    """The ranges of a union without an upper end, from those of the two sets."""
    only_a, only_b = (
        (max(one[0] - other[1], 0.0), one[1]) for one, other in ((size_a, size_b), (size_b, size_a))
    )
    both = (0.0, min(size_a[1], size_b[1]))
    return OverlapIntervals(union, both, only_a, only_b, (0.0, 1.0))


def _part_intervals(fit: _Fit, a: bytes, b: bytes, z: float) -> tuple[_Range, _Range, _Range]:
    """The ranges of those in A alone, in B alone and in both."""
    union = estimate(merge(a, b))
    most = interval(union, z)[1]
    only_a, only_b, both = (_part_interval(fit, at, most, union, z) for at in range(3))
    if _is_noise(*fit.parts):
        # The fit shows less of the error the nearer the shared rate is to zero; the sketches do.
        shared = fit.parts[2] * union / sum(fit.parts)
        only_a = _around(only_a, interval(estimate(a), z), shared, both)
        only_b = _around(only_b, interval(estimate(b), z), shared, both)
    return only_a, only_b, both


def _around(own: _Range, size: _Range, shared: float, both: _Range) -> _Range:
    """`own`, widened to the size of a set without what it shares."""
    return min(own[0], max(size[0] - shared, 0.0)), max(own[1], size[1] - both[0])


def _part_interval(fit: _Fit, at: int, most: float, union: float, z: float) -> tuple[float, float]:
    """The range of one of `fit.parts`, of which the union is the sum."""
    share = fit.parts[at] / sum(fit.parts)
    a, b, both = (share if at == n else 0.0 for n in range(3))
    spread = max(_spread(fit, (a, b, both), z), z / (2 * M))
    if share <= NOISE_BELOW:
        spread = max(spread, z * _NOISE_ERROR)  # the slope at a rate near zero is too steep
    return max(share - spread, 0.0) * union, min((share + spread) * union, most)


def jaccard_interval(
    a: bytes | bytearray, b: bytes | bytearray, z: float = 1.96
) -> tuple[float, float]:
    """The range of the Jaccard index that two sketches of one offset leave, from 0 to 1.

    By the observed information at the maximum of the likelihood, on the logs of the rates; z = 1.96
    covers the truth about 95 times in 100. (0, 1) where a sketch is saturated, (0, 0) where one is
    empty. Raises InvalidInput for a sketch that is not 256 bytes.
    """
    a, b = clean(a), clean(b)
    if EMPTY in (a, b):
        return 0.0, 0.0
    size = estimate(merge(a, b))
    if math.isinf(size):
        return 0.0, 1.0
    fit = _fit(a, b)
    return _jaccard(fit, _part_intervals(fit, a, b, z)[:2], size, z)


def fitted_jaccard_interval(a: bytes | bytearray, b: bytes | bytearray, z: float) -> _Range:
    """The range of the index by the fit alone, for a caller with a bound of its own on small parts.

    For nearly equal sets it holds too seldom. Returns and raises as `jaccard_interval` otherwise.
    """
    a, b = clean(a), clean(b)
    if EMPTY in (a, b):
        return 0.0, 0.0
    return (0.0, 1.0) if math.isinf(estimate(merge(a, b))) else _fitted_jaccard(_fit(a, b), z)


def _jaccard(fit: _Fit, alone: tuple[_Range, _Range], size: float, z: float) -> _Range:
    """The range of the index: its own, and what the ends of small parts `alone` leave."""
    own = _fitted_jaccard(fit, z)
    low, high = (_index_at(fit, alone, end, size) for end in (1, 0))
    return max(min(own[0], low), 0.0), min(max(own[1], high), 1.0)


def _fitted_jaccard(fit: _Fit, z: float) -> _Range:
    only_a, only_b, both = fit.parts
    union = only_a + only_b + both
    slope = (
        -both * only_a / union**2,
        -both * only_b / union**2,
        both * (only_a + only_b) / union**2,
    )
    # An index of 0 or 1 has no slope: half a register decides.
    spread = max(_spread(fit, slope, z), z / (2 * M))
    if _is_noise(only_a, only_b, both):
        spread = max(spread, z * _NOISE_ERROR)  # the slope at a rate near zero is too steep
    index = both / union
    return max(index - spread, 0.0), min(index + spread, 1.0)


def _index_at(fit: _Fit, alone: tuple[_Range, _Range], end: int, size: float) -> float:
    """The index if each small part `alone` is as large as that end of its range."""
    shares = [part / sum(fit.parts) for part in fit.parts]
    apart = sum(
        between[end] / size if share <= NOISE_BELOW else share
        for share, between in zip(shares[:2], alone, strict=True)
    )
    return shares[2] / (shares[2] + apart) if shares[2] else 0.0


class _Fit(NamedTuple):
    """The likeliest sizes of the parts, and the information about their logs."""

    parts: _Vector
    information: _Information


def _fit(a: bytes, b: bytes) -> _Fit:
    """Fit the parts of two sketches, of which none is empty or saturated."""
    pairs = _pairs(a, b)
    parts = _maximise(pairs, _start(estimate(a), estimate(b), estimate(merge(a, b))))
    point = _logs(parts[0]), _logs(parts[1]), _logs(parts[2])
    return _Fit(parts, _free(point, _likelihood(pairs, point))[0])


def _spread(fit: _Fit, slope: _Vector, z: float) -> float:
    """z standard errors of a number, from its slope over the logs of the parts."""
    step = _solve(fit.information, slope, 0.0)
    return z * math.sqrt(max(sum(x * y for x, y in zip(slope, step, strict=True)), 0.0))


def _result(only_a: float, only_b: float, both: float) -> Overlap:
    union = only_a + only_b + both
    noise = math.isinf(union) or _is_noise(only_a, only_b, both)
    jaccard = both / union if union and not math.isinf(union) else 0.0
    return Overlap(union, both, only_a, only_b, jaccard, noise)


def _is_noise(only_a: float, only_b: float, both: float) -> bool:
    return both <= NOISE_BELOW * (both + max(only_a, only_b))


def _start(size_a: float, size_b: float, union: float) -> _Vector:
    """Inclusion-exclusion, kept inside what sets can do, as logs of rates a register."""
    smaller = min(size_a, size_b)
    both = min(max(size_a + size_b - union, 0.02 * smaller), 0.98 * smaller)
    return _logs(size_a - both), _logs(size_b - both), _logs(both)


def _logs(size: float) -> float:
    return max(math.log(max(size, 1e-3) / M), _FLOOR)


def _pairs(a: bytes, b: bytes) -> _Pairs:
    return tuple(Counter(zip(a, b, strict=True)).items())


def _maximise(pairs: _Pairs, point: _Vector) -> _Vector:
    """Damped scoring steps (Berndt-Hall-Hall-Hausman) on the logs of the rates; gives sizes."""
    damping = 1e-3
    here = _likelihood(pairs, point)
    for _ in range(_STEPS):
        there = _moved(point, _solve(*_free(point, here), damping))
        new = _likelihood(pairs, there)
        if new.value < here.value:
            damping *= 10
            continue
        gain, point, here = new.value - here.value, there, new
        damping = max(damping / 10, 1e-6)
        if gain < _CLOSE_ENOUGH:
            break
    a, b, both = (M * math.exp(log) if log > _FLOOR else 0.0 for log in point)
    return a, b, both


def _free(point: _Vector, here: _Likelihood) -> tuple[_Information, _Vector]:
    """The system without the rates that lie on the floor: they would drag the others along."""
    a, b, x = (
        0.0 if log <= _FLOOR and slope <= 0 else 1.0
        for log, slope in zip(point, here.slope, strict=True)
    )
    aa, bb, xx, ab, ax, bx = here.information
    sa, sb, sx = here.slope
    information = a * aa, b * bb, x * xx, a * b * ab, a * x * ax, b * x * bx
    return information, (a * sa, b * sb, x * sx)


def _moved(point: _Vector, step: _Vector) -> _Vector:
    a, b, x = (
        max(log + min(max(change, -2.0), 2.0), _FLOOR)
        for log, change in zip(point, step, strict=True)
    )
    return a, b, x


class _Likelihood(NamedTuple):
    value: float
    slope: _Vector
    information: _Information


def _likelihood(pairs: _Pairs, point: _Vector) -> _Likelihood:
    """Log-likelihood, its gradient, and the sum of outer products of the terms' gradients."""
    a, b, x = (math.exp(log) for log in point)
    value = sa = sb = sx = aa = bb = xx = ab = ax = bx = 0.0
    for (rank_a, rank_b), times in pairs:
        log, da, db, dx = _pair_term(rank_a, rank_b, a, b, x)
        da, db, dx = da * a, db * b, dx * x
        value += times * log
        sa, sb, sx = sa + times * da, sb + times * db, sx + times * dx
        aa, bb, xx = aa + times * da * da, bb + times * db * db, xx + times * dx * dx
        ab, ax, bx = ab + times * da * db, ax + times * da * dx, bx + times * db * dx
    return _Likelihood(value, (sa, sb, sx), (aa, bb, xx, ab, ax, bx))


def _pair_term(
    rank_a: int, rank_b: int, a: float, b: float, x: float
) -> tuple[float, float, float, float]:
    """Log-probability of one pair of registers and its derivatives by a, b and x."""
    if rank_a == rank_b:
        return _tie_term(rank_a, a, b, x)
    # The higher register got its value from a pubkey that the other sketch has not seen.
    if rank_a < rank_b:
        low, d_low = _single_term(rank_a, a + x)
        high, d_high = _single_term(rank_b, b)
        return low + high, d_low, d_high, d_low
    low, d_low = _single_term(rank_b, b + x)
    high, d_high = _single_term(rank_a, a)
    return low + high, d_high, d_low, d_low


def _single_term(rank: int, rate: float) -> tuple[float, float]:
    """log P(register = rank) at this rate, and its derivative."""
    y = math.ldexp(1.0, -min(rank, WINDOW_BITS))
    s = rate * y
    log = slope = 0.0
    if rank <= WINDOW_BITS:
        log, slope = -s, -y
    if rank:
        log += math.log(-math.expm1(-s))
        slope += y / math.expm1(min(s, 700.0))
    return log, slope


def _tie_term(rank: int, a: float, b: float, x: float) -> tuple[float, float, float, float]:
    y = math.ldexp(1.0, -min(rank, WINDOW_BITS))
    log = -(a + b + x) * y if rank <= WINDOW_BITS else 0.0
    base = -y if rank <= WINDOW_BITS else 0.0
    if not rank:
        return log, base, base, base
    # Either a shared pubkey gave both their value, or one on each side did.
    hit_a, hit_b, hit_x = -math.expm1(-a * y), -math.expm1(-b * y), -math.expm1(-x * y)
    miss_x = 1 - hit_x
    g = hit_x + miss_x * hit_a * hit_b
    scale = y * miss_x / g
    return (
        log + math.log(g),
        base + scale * (1 - hit_a) * hit_b,
        base + scale * (1 - hit_b) * hit_a,
        base + scale * (1 - hit_a * hit_b),
    )


def _solve(information: _Information, slope: _Vector, damping: float) -> _Vector:
    """(information + damping) step = slope, by Cramer's rule; the damped matrix is definite."""
    aa, bb, xx, ab, ax, bx = information
    aa, bb, xx = (d * (1 + damping) + 1e-9 for d in (aa, bb, xx))
    sa, sb, sx = slope
    ca, cb, cx = bb * xx - bx * bx, ab * xx - ax * bx, ab * bx - ax * bb
    det = aa * ca - ab * cb + ax * cx
    da = sa * ca - ab * (sb * xx - sx * bx) + ax * (sb * bx - sx * bb)
    db = aa * (sb * xx - sx * bx) - sa * cb + ax * (ab * sx - ax * sb)
    dx = aa * (bb * sx - bx * sb) - ab * (ab * sx - ax * sb) + sa * cx
    return da / det, db / det, dx / det
