"""Cache what merging computes from sketches: most registers are the same as in the last round."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from nostr_client import hll
from nostr_client.count import trust

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nostr_client.count.trust import MinedEstimate, SketchShape

CACHED: Final = 16_384
"""Sketches whose figures are cached: about 500 bytes each, four relays of 4,000 watches. Of unions
half as many, and a quarter of those of two relays at least."""

_POWERS: Final = tuple(math.ldexp(1.0, -rank) for rank in range(256))


class Estimate(NamedTuple):
    """A number of people and its relative standard error."""

    people: float
    sigma: float


@lru_cache(CACHED)
def estimate(registers: bytes) -> float:
    """`hll.estimate`: 30 microseconds if not cached."""
    return hll.estimate(registers)


@lru_cache(CACHED)
def mined(registers: bytes) -> MinedEstimate:
    """`trust.mined`: a tenth of a millisecond if not cached."""
    return trust.mined(registers)


@lru_cache(CACHED)
def shape(registers: bytes) -> SketchShape:
    """`trust.shape`: a third of a millisecond if not cached."""
    return trust.shape(registers)


def bent(sketches: Iterable[bytes]) -> bool:
    """Whether mined keys raised registers of any of these sketches."""
    return any(mined(one).found for one in sketches)


def people(registers: bytes, *, robust: bool) -> Estimate:
    """Return the people in a sketch; `robust`: high registers count once each.

    Compare only estimates of one kind: two kinds have their own errors, which do not cancel.
    """
    if robust:
        found = mined(registers)
        return Estimate(found.people, found.sigma)
    number = estimate(registers)
    return Estimate(number, hll.sigma(number))


@lru_cache(CACHED)
def classical_estimate(registers: bytes) -> float:
    """Return linear counting for few, else the raw harmonic mean, switched as in go-nostr."""
    empty = registers.count(0)
    linear = hll.M * math.log(hll.M / empty) if empty else math.inf
    alpha = 0.7213 / (1 + 1.079 / hll.M)
    raw = alpha * hll.M**2 / math.fsum(map(_POWERS.__getitem__, registers))
    return linear if linear <= 220 or (empty and raw <= 3 * hll.M) else raw


@lru_cache(CACHED // 2)
def joined(*registers: bytes) -> bytes:
    """`hll.merge`: two microseconds a sketch if not cached."""
    return hll.merge(*registers)


@lru_cache(CACHED // 4)
def corroborated(*registers: bytes) -> bytes:
    """`trust.corroborated`: three microseconds a sketch if not cached."""
    return trust.corroborated(registers)
