"""Tests whether relays' claims about numbers of people can be true.

A claim's registers and count enter; a typed result leaves, whose `reasons` are empty if the test
passed. The tests decide nothing: the policy does. No test detects pubkeys that are mined for their
zero bits, so users name the relays that they trust. Pure functions; no numpy.
"""

from __future__ import annotations

from enum import StrEnum

from nostr_client.count.trust.consistency import Consistency, corroborated, count_consistency
from nostr_client.count.trust.mined import MinedEstimate, mined
from nostr_client.count.trust.shape import SketchShape, shape


class TrustPolicy(StrEnum):
    """What the client does with a claim that fails a test."""

    OFF = "off"
    """Count the claim without any test."""
    FLAG = "flag"
    """Count the claim and add a warning."""
    EXCLUDE = "exclude"
    """Add a warning and exclude the claim from the number."""


__all__ = [
    "Consistency",
    "MinedEstimate",
    "SketchShape",
    "TrustPolicy",
    "corroborated",
    "count_consistency",
    "mined",
    "shape",
]
