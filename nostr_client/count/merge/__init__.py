"""Merges claims of single relays into one explained number; pure rules and their values.

Claims enter; a `Merged` leaves. Start with `values`, then `rules` and `combine`. `repeated` spares
merges of the same evidence.
"""

from __future__ import annotations

from nostr_client.count.merge.better import better_merge
from nostr_client.count.merge.combine import merge_claims
from nostr_client.count.merge.rules import is_own_estimate
from nostr_client.count.merge.values import (
    Claim,
    ClaimStatus,
    CountUnit,
    Figure,
    Listing,
    Merged,
    Method,
    Part,
    Proven,
    Reading,
    Receipt,
    Retracted,
)
from nostr_client.count.trust import TrustPolicy

__all__ = [
    "Claim",
    "ClaimStatus",
    "CountUnit",
    "Figure",
    "Listing",
    "Merged",
    "Method",
    "Part",
    "Proven",
    "Reading",
    "Receipt",
    "Retracted",
    "TrustPolicy",
    "better_merge",
    "is_own_estimate",
    "merge_claims",
]
