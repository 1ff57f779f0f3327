"""How many people are new in a sketch: estimated from the registers that rose, and nothing else.

The difference of two estimates has the error of both, some 6 % of the whole. The rises have the
error of the newcomers alone. Of d new people, a register that was m shows at most k >= m with
P(new <= k) = exp(-d/256 * 2^-k). People who left lower no register of a union, so only newcomers
are counted.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

from nostr_client.errors import InvalidInput
from nostr_client.hll.registers import MAX_RANK, M

if TYPE_CHECKING:
    from collections.abc import Callable

_DROP: Final = 1.92
"""How far the log likelihood falls at the ends of a 95 % interval (half of chi-squared's 3.84)."""

_NONE: Final = 3.69
"""The same where no register rose: one chance in forty that so many stay unseen."""

_MOST: Final = 1e18
_STEPS: Final = 100


class Risen(NamedTuple):
    """How many people are new, and the ends of a 95 % interval; `registers` rose."""

    value: float
    low: float
    high: float
    registers: int


def risen(before: bytes, after: bytes) -> Risen:
    """Return how many people are new in `after`. Raises InvalidInput for other sizes than 256.

    A register that fell counts as one that stayed: a relay may lose people and gain others.
    """
    if len(before) != M or len(after) != M:
        raise InvalidInput(f"a sketch has {M} registers")
    pairs = [(min(m, MAX_RANK), min(k, MAX_RANK)) for m, k in zip(before, after, strict=True)]
    stays = sum(_rate(m) for m, k in pairs if k <= m)
    rises = [(_rate(k), _rate(k - 1)) for m, k in pairs if k > m]
    if not rises:
        return Risen(0.0, 0.0, _NONE / stays if stays else math.inf, 0)

    def slope(d: float) -> float:
        return sum(_slope(d, k, less) for k, less in rises) - stays

    def likelihood(d: float) -> float:
        return sum(_log(d, k, less) for k, less in rises) - d * stays

    value = _root(slope, 1e-9, _MOST)
    peak = likelihood(value)
    low = _root(lambda d: peak - likelihood(d) - _DROP, 1e-9, value)
    high = _root(lambda d: likelihood(d) - peak + _DROP, value, _MOST)
    return Risen(value, low, high, len(rises))


def _rate(rank: int) -> float:
    """How often one new person of d is above a rank in a given register."""
    return math.ldexp(1.0 / M, -rank) if rank < MAX_RANK else 0.0


def _slope(d: float, rate: float, less: float) -> float:
    """The derivative of `_log`."""
    gap = less - rate
    return gap / math.expm1(min(d * gap, 700.0)) - rate


def _log(d: float, rate: float, less: float) -> float:
    """The log of the chance that the highest new rank is exactly this one."""
    return -d * rate + math.log(-math.expm1(-d * (less - rate)))


def _root(falling: Callable[[float], float], low: float, high: float) -> float:
    """Return where a falling function crosses zero, by halving in the logarithm."""
    a, b = math.log(low), math.log(high)
    for _ in range(_STEPS):
        middle = (a + b) / 2
        a, b = (middle, b) if falling(math.exp(middle)) > 0 else (a, middle)
    return math.exp(a)
