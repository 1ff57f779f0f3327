"""Find claims that stand alone against relays that agree: one relay, judged by the others.

A consistent sketch can still be made up, e.g. with all registers one higher. Only the other relays
can show that: if the lower majority has nearly the same people twice over (it is saturated), a
relay that adds half as many again is not believed; if not, the relay may simply have more, and is
flagged.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from nostr_client import hll
from nostr_client.count.merge import sketches
from nostr_client.count.trust.shape import MAX_HISTOGRAM_P, likely_below
from nostr_client.hll import truncated

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nostr_client.count.trust import MinedEstimate

MIN_RELAYS = 4
"""Relays with registers below which there is no majority."""

MAX_GAIN = 0.5
"""Growth of the union by one relay that is too much; honest relays stay below 0.29 (measured)."""

SATURATED = 0.8
"""Share of a union on at least two relays from which on the union counts as known."""

FEWEST = 50
"""Distinct authors below which sketches are too small to be compared."""

COUNT_FACTOR = 10.0
"""Events per author, against the median of the other relays, that are too many."""

MIN_OTHERS = 2
"""Other relays below which nothing can be said about a count: of two, either may be wrong."""

OUTLANDISH = 100
"""A count above this multiple of the most that other relays show is too much."""

LEAST_OUTLANDISH = 100_000
"""A count up to which one relay may have events that hardly any other has."""

MOST_ALONE = 36
"""High registers that no other relay shows which are too many to have been mined.

Thirty keys mined for one relay raise up to 34; a quarter of all registers raised by 4, 38.
"""

MOST_MINED = 52
"""Zero bits that nobody mines: more than 2^52 key pairs, months of a graphics card for each."""


class LowerMajority(NamedTuple):
    """The lower majority of relays: their union, and whether it is known well enough to judge."""

    registers: bytes
    estimate: float
    saturated: bool

    def gain(self, registers: bytes) -> float:
        """Return the relative growth of the union if these registers joined; 0 if too few to
        compare."""
        # Not cached: one entry for each relay of each watch would evict everything else.
        mined = sketches.mined(registers)
        if mined.found:  # keys that were mined for this relay are no suspicious growth
            pairs = zip(self.registers, registers, strict=True)
            registers = bytes(core if own > mined.rank else own for core, own in pairs)
        union, before = hll.merge(self.registers, registers), self.estimate
        grown = hll.estimate(union)
        if grown < FEWEST:
            return 0.0
        return grown / before - 1 if before else math.inf


def find_core(vouched: Sequence[bytes], claimed: Sequence[bytes]) -> LowerMajority | None:
    """Return the core of proven (`vouched`) or claimed registers; None without a majority.

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
    return LowerMajority(union, estimate, not estimate or twice >= SATURATED * estimate)


def too_many_events(count: int, estimate: float, others: Sequence[float]) -> bool:
    """Whether a count has far more events per author than at least two other relays show."""
    if len(others) < MIN_OTHERS:
        return False
    from statistics import median

    usual = max(median(others), 1.0)
    return count > COUNT_FACTOR * usual * max(estimate, FEWEST)


def is_outlandish(count: int, others: Sequence[int]) -> bool:
    """Whether a count is far more than at least two other relays show."""
    return (
        len(others) >= MIN_OTHERS and count > LEAST_OUTLANDISH and count > OUTLANDISH * max(others)
    )


def made_up(registers: bytes, mined: MinedEstimate, others: Sequence[bytes]) -> bool:
    """Whether registers with an excess of high ones were made up, not raised by real keys.

    Nobody can mine keys for the highest ranks; mined keys leave the lower registers unchanged; and
    many of them reach more than one relay.
    """
    if max(registers) > MOST_MINED:
        return True
    below = truncated.fit(truncated.histogram(registers), mined.cut)
    if likely_below(registers, below, mined.cut) < MAX_HISTOGRAM_P:
        return True
    if not others:
        return False
    elsewhere = sketches.joined(*others)
    alone = sum(one > mined.rank >= other for one, other in zip(registers, elsewhere, strict=True))
    return alone > MOST_ALONE
