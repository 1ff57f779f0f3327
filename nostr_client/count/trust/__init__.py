"""Can this be true? Tests of what relays claim about numbers of people (design: trust).

Each test gives a typed result whose `reasons` are empty where it passed; none of them decides
anything: the policy does. What no test can see is in the docs: pubkeys mined for their zero bits,
for which the answer is to name the relays that you trust. Pure functions; no numpy.
"""

from __future__ import annotations

from enum import StrEnum

from nostr_client.count.trust.consistency import Consistency, corroborated, count_consistency
from nostr_client.count.trust.mined import Mined, mined
from nostr_client.count.trust.shape import Shape, shape


class TrustPolicy(StrEnum):
    """Says what to do about a relay that fails a test: nothing, show it, or exclude it too."""

    OFF = "off"
    FLAG = "flag"
    EXCLUDE = "exclude"


__all__ = [
    "Consistency",
    "Mined",
    "Shape",
    "TrustPolicy",
    "corroborated",
    "count_consistency",
    "mined",
    "shape",
]
