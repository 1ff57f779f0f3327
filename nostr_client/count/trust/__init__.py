"""Test whether relays' claims about numbers of people can be true (design: trust).

Each test returns a typed result whose `reasons` are empty if it passed; none of them decides
anything: the policy does. The documents describe what no test can see: pubkeys mined for their zero
bits, against which users name the relays that they trust. Pure functions; no numpy.
"""

from __future__ import annotations

from enum import StrEnum

from nostr_client.count.trust.consistency import Consistency, corroborated, count_consistency
from nostr_client.count.trust.mined import Mined, mined
from nostr_client.count.trust.shape import Shape, shape


class TrustPolicy(StrEnum):
    """What happens to a relay that fails a test: nothing, a flag, or exclusion too."""

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
