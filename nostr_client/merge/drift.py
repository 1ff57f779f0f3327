"""What was read some time ago, and how far it may be off by now. Pure.

Reading only what is new never shows what was removed. Reading again shows it, part by part, and so
tells how much goes between two readings; from that the rest is bounded, not known.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nostr_client.merge.values import Reading


def gone_at_most(readings: Sequence[Reading], part: Callable[[Reading], frozenset[bytes]]) -> int:
    """How many of the union of `part` over the readings may be gone, 97 times in 100.

    Whoever stands in several readings is gone as likely as in the best known of them: people leave
    all relays at once.
    """
    expected, known = 0.0, frozenset[bytes]()
    evidence = 1
    for reading in sorted(readings, key=lambda one: one.gone):
        expected += reading.gone * len(part(reading) - known)
        known |= part(reading)
        if reading.gone:
            evidence = max(evidence, reading.evidence)
    return _upper(expected, evidence)


def missed_at_most(readings: Sequence[Reading]) -> int:
    """How many may have come to the relays unseen, 97 times in 100, if no two saw the same."""
    evidence = max((reading.evidence for reading in readings if reading.missed), default=1)
    return _upper(sum(reading.missed for reading in readings), evidence)


def _upper(mean: float, evidence: int) -> int:
    """Two standard deviations above the mean of a Poisson number whose rate was learnt from few."""
    return math.ceil(mean + 2 * math.sqrt(mean + mean * mean / evidence)) if mean else 0
