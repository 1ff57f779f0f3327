"""Claims that stand alone against relays that agree: what one relay says, judged by the others.

A sketch that is consistent in itself can still be made up, e.g. all registers one higher. Only the
other relays can tell: where the lower majority holds nearly the same people twice over (it is
saturated), a relay that adds half as many again is not believed; where it is not, the relay may
simply hold more, and is flagged.
"""

from __future__ import annotations

import math
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from nostr_client import hll
from nostr_client.merge import sketches

if TYPE_CHECKING:
    from collections.abc import Sequence

MIN_RELAYS = 4
"""Relays with registers below which no majority can be spoken of."""

MAX_GAIN = 0.5
"""Growth of the union by one relay that is too much; honest relays stay below 0.29 (measured)."""

SATURATED = 0.8
"""Part of a union that lies on two relays at least, from which on the union counts as known."""

FEWEST = 50
"""Distinct authors below which sketches are too small to be compared."""

COUNT_FACTOR = 10.0
"""Events an author, against the median of the other relays, that are too many."""


class Core(NamedTuple):
    """The lower majority of relays: their union, and whether it is known well enough to judge."""

    registers: bytes
    estimate: float
    saturated: bool

    def gain(self, registers: bytes) -> float:
        """Relative growth of the union if these registers joined; 0 where too few to compare."""
        # Not remembered: one for each relay of each watch would drive all else out.
        grown = hll.estimate(hll.merge(self.registers, registers))
        if grown < FEWEST:
            return 0.0
        return grown / self.estimate - 1 if self.estimate else math.inf


def find_core(vouched: Sequence[bytes], claimed: Sequence[bytes]) -> Core | None:
    """The core of registers that are proven (`vouched`) or claimed; None without a majority.

    Proven registers always belong to it; of the claimed ones those of the smallest estimates, so
    that liars who add cannot vouch for each other.
    """
    total = len(vouched) + len(claimed)
    if total < MIN_RELAYS:
        return None
    wanted = max(total // 2 + 1 - len(vouched), 0)
    members = [*vouched, *sorted(claimed, key=lambda r: (sketches.estimate(r), r))[:wanted]]
    union = sketches.joined(*members)
    estimate = sketches.estimate(union)
    twice = sketches.estimate(sketches.corroborated(*members))
    return Core(union, estimate, not estimate or twice >= SATURATED * estimate)


def too_many_events(count: int, estimate: float, others: Sequence[float]) -> bool:
    """Whether a count is far more events an author than what at least three other relays show."""
    if len(others) < MIN_RELAYS - 1:
        return False
    usual = max(median(others), 1.0)
    return count > COUNT_FACTOR * usual * max(estimate, FEWEST)
