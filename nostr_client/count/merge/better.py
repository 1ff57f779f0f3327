"""The better merge: an estimate of a union, corrected by what is known exactly about its parts.

Sketches that share members err the same way. With e the error of an estimate (of its logarithm)
and A a part of the union U, whose share of it is s,

    cov(e_A, e_U) = s sigma_A^2        cov(e_A, e_B) = x^2 / (a b) sigma_X^2

where X of size x is what A and B of sizes a and b have in common. The first follows from the score
of a part being the expectation of its score given the union's registers; the second takes that
expectation to be linear. Both were measured: docs/concepts/merging.md.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from nostr_client import hll
from nostr_client.count.merge.sketches import CACHED, Estimate, joined, people

if TYPE_CHECKING:
    from collections.abc import Sequence

SPREAD: Final = 1.2
"""Factor on the interval's width over the formula's error. Estimators only nearly reach the bound
(2 to 8 %), and the overlap in the formula is an estimate too: an overestimate makes the interval
too narrow."""

UNSEEN: Final = 0.03
"""Share of the standard error that stays even if none is visible: a few people more or less change
no register."""

MAX_DISAGREEMENT_P: Final = 0.02
"""Chance that the counts of honest relays are this far apart beside their registers, in a merge."""

MOST_PAIRED: Final = 12
"""Sketches up to which each pair is compared; beyond, overlaps are assumed to be random."""


class Term(NamedTuple):
    """An exact number of people and the registers of these people; `proven`: not a relay's word."""

    number: int
    registers: bytes
    proven: bool = False


def better_merge(terms: Sequence[tuple[int, bytes]], union: bytes) -> float:
    """Return distinct people in `union`, corrected by `terms`: exact numbers and registers of
    parts.

    If the parts cover the union: sum(count) * est(union) / sum(est(registers)), as the errors of
    sketches that share members point the same way. If they cover a part, its share weakens the
    correction (as a power), because a small part says little about the error of the whole: for one
    part this minimises the error.
    """
    return _corrected(tuple(Term(*term) for term in terms), union, robust=False).people


def corrected(terms: Sequence[Term], union: bytes, *, robust: bool) -> Estimate:
    """Return `better_merge` with the remaining standard error; `robust`: see `sketches.people`."""
    return _corrected(tuple(terms), union, robust=robust)


@lru_cache(CACHED // 4)
def _corrected(terms: tuple[Term, ...], union: bytes, *, robust: bool) -> Estimate:
    whole = people(union, robust=robust)
    known = [term for term in terms if term.number > 0 and term.registers != hll.EMPTY]
    parts = [people(term.registers, robust=robust) for term in known]
    total = sum(part.people for part in parts)
    if not total or math.isinf(whole.people) or math.isinf(total):
        return whole
    covered = people(joined(*(term.registers for term in known)), robust=robust).people
    power = min(covered / whole.people, 1.0)
    number = whole.people * (sum(term.number for term in known) / total) ** power
    weights = [part.people / total for part in parts]
    shares = [min(part.people / whole.people, 1.0) for part in parts]
    with_whole = sum(
        weight * share * hll.sigma(part.people) ** 2 * min(_loss(part), _loss(whole))
        for weight, share, part in zip(weights, shares, parts, strict=True)
    )
    matrix = _covariances(tuple(term.registers for term in known), robust=robust)
    variance = whole.sigma**2 - 2 * power * with_whole + power**2 * _mean(matrix, weights)
    return Estimate(number, _spread(variance, whole.sigma))


def _spread(variance: float, sigma: float) -> float:
    """Return the standard error of a calculated variance."""
    left = SPREAD**2 * max(variance, 0.0) + (UNSEEN * sigma) ** 2
    return math.sqrt(left)


def _mean(matrix: Sequence[Sequence[float]], weights: Sequence[float]) -> float:
    """Return the variance of a weighted mean."""
    return sum(
        left * right * value
        for left, row in zip(weights, matrix, strict=True)
        for right, value in zip(weights, row, strict=True)
    )


@lru_cache(CACHED // 4)
def _covariances(sketches: tuple[bytes, ...], *, robust: bool) -> tuple[tuple[float, ...], ...]:
    """Return covariances of the errors of sketches, from the numbers of people that pairs share."""
    parts = [people(one, robust=robust) for one in sketches]
    rows = [[0.0] * len(parts) for _ in parts]
    for i, part in enumerate(parts):
        rows[i][i] = part.sigma**2
        for j in range(i):
            common = _common(sketches, parts, i, j, robust=robust)
            value = common**2 / (part.people * parts[j].people) if common > 0 else 0.0
            lost = min(_loss(part), _loss(parts[j]))
            rows[i][j] = rows[j][i] = value * hll.sigma(common) ** 2 * lost
    return tuple(map(tuple, rows))


def _loss(part: Estimate) -> float:
    """Return the factor on a sketch's variance for registers lost to mined keys."""
    return (part.sigma / hll.sigma(part.people)) ** 2


def _common(
    sketches: Sequence[bytes], parts: Sequence[Estimate], i: int, j: int, *, robust: bool
) -> float:
    one, other = parts[i].people, parts[j].people
    if len(parts) > MOST_PAIRED:
        whole = people(joined(*sketches), robust=robust).people
        return one * other / max(whole, one, other)
    both = people(joined(sketches[j], sketches[i]), robust=robust).people
    return min(max(one + other - both, 0.0), one, other)


def disagreeing(terms: Sequence[Term], *, robust: bool) -> dict[int, float]:
    """Return terms whose counts disagree with the others within their joint error.

    Each ratio of estimate and count errs with the sketch, and the others' err with it as far as
    they share members. A ratio that stands out against the mean of the others is dropped, the worst
    first, until the rest agree. Two that disagree are both dropped, unless one is proven. The
    result has by index how far a count is above (or below) the others' estimate for its registers.
    """
    return dict(_disagreeing(tuple(terms), robust=robust))


@lru_cache(CACHED // 4)
def _disagreeing(terms: tuple[Term, ...], *, robust: bool) -> tuple[tuple[int, float], ...]:
    parts = [people(term.registers, robust=robust).people for term in terms]
    matrix = _covariances(tuple(term.registers for term in terms), robust=robust)
    ratios = [math.log(term.number / part) for term, part in zip(terms, parts, strict=True)]
    kept, found = list(range(len(terms))), list[tuple[int, float]]()
    while len(kept) > 1 and (doubted := [one for one in kept if not terms[one].proven]):
        chance, gap, worst = min(_standing_out(terms, matrix, ratios, kept, one) for one in doubted)
        if chance * len(kept) >= MAX_DISAGREEMENT_P:
            break
        found.append((worst, math.expm1(gap)))
        kept.remove(worst)
        if len(kept) == 1 and not terms[kept[0]].proven:
            found.append((kept[0], math.expm1(-gap)))
    return tuple(found)


def _standing_out(
    terms: Sequence[Term],
    matrix: Sequence[Sequence[float]],
    ratios: Sequence[float],
    kept: Sequence[int],
    one: int,
) -> tuple[float, float, int]:
    """Return the chance of a ratio this far from the mean of the others, how far, and whose."""
    weights = [0.0] * len(terms)
    for other in kept:
        weights[other] = 1.0 if other == one else -1 / (len(kept) - 1)
    gap = sum(weight * ratio for weight, ratio in zip(weights, ratios, strict=True))
    step = 1 / terms[one].number  # a person is the least difference of counts
    error = math.hypot(_spread(_mean(matrix, weights), math.sqrt(matrix[one][one])), step)
    return math.erfc(abs(gap) / error / math.sqrt(2)), gap, one
