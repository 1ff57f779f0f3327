"""Bound how much of an earlier reading may be gone by now. Pure.

Reading only new events never shows removals. Reading known parts again does, and so measures the
rate of removals; it bounds the rest, which stays unknown. Unseen additions are not bounded: a relay
can receive any number of old events at once.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from nostr_client.count.merge.values import Claim, Reading


UNSEEN_RATE: Final = 0.01 / 86_400
"""Share of events that vanish in a second, before a relay has shown it: one in a hundred a day."""


def share_since(at: float, claims: Iterable[Claim]) -> float:
    """Return the share of what was proven at a time that may be gone by the newest answer."""
    now = max((claim.asked_at or 0.0 for claim in claims), default=0.0)
    return min(max(now - at, 0.0) * UNSEEN_RATE, 1.0)


def at_most(expected: float) -> int:
    """Return how many of an expected number there may be, 97 times in 100."""
    return _upper(expected, 1)


def gone_at_most(readings: Sequence[Reading], part: Callable[[Reading], frozenset[bytes]]) -> int:
    """Return how many of the union of `part` over the readings may be gone, 97 times in 100.

    A person in several readings counts once, as people leave all relays at once. A person in a
    reading of now is not gone; but people who left are in none of those, so better knowledge
    elsewhere does not scale the expected number down.
    """
    old = [reading for reading in readings if reading.gone]
    if not old:
        return 0
    expected, known = 0.0, frozenset[bytes]()
    for reading in sorted(old, key=lambda one: -one.gone):
        expected += reading.gone * len(part(reading) - known)
        known |= part(reading)
    sure = frozenset[bytes]().union(*(part(one) for one in readings if not one.gone))
    evidence = max(one.evidence for one in old)
    return min(_upper(expected, evidence), len(known - sure))


def _upper(mean: float, evidence: int) -> int:
    """Return two standard deviations above the mean of a Poisson number whose rate was learnt from
    few."""
    if mean < 0.025:
        return 0  # one at all is less likely than the interval may be wrong
    return math.ceil(mean + 2 * math.sqrt(mean + mean * mean / evidence))
