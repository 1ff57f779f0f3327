"""Explain how each claim was used in a merged number. Pure."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from nostr_client.count.merge import sketches
from nostr_client.count.merge.values import Part

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nostr_client.count.merge.rules import TestedClaim


def parts_of(weighed: Sequence[TestedClaim]) -> tuple[Part, ...]:
    """Return one part for each claim, in order."""
    whole = sketches.estimate(
        sketches.joined(*(w.registers for w in weighed if w.registers is not None))
    )
    return tuple(_part(one, whole) for one in weighed)


def _part(weighed: TestedClaim, whole: float) -> Part:
    return Part(
        relay=weighed.claim.relay,
        used=tuple(_used(weighed)),
        share=_share(weighed, whole),
        reasons=weighed.claim.warnings or _silent_reason(weighed),
    )


def _used(weighed: TestedClaim) -> list[str]:
    claim = weighed.claim
    if not claim.answered:
        return []
    used = ["events"] if claim.reading is not None else []
    if weighed.listing is not None:
        used.append("ids")
    if claim.reading is None and weighed.registers is not None:
        used.append("registers")
    counted = claim.count is not None and weighed.count_counts and not claim.weak_zero
    if claim.reading is None and claim.listing is None and counted:
        used.append("count")
    return used


def _share(weighed: TestedClaim, whole: float) -> float | None:
    if weighed.registers is None or not whole or math.isinf(whole):
        return None
    return round(min(sketches.estimate(weighed.registers) / whole, 1.0), 3)


def _silent_reason(weighed: TestedClaim) -> tuple[str, ...]:
    """Return a reason if nothing was used and no warning gives one."""
    status = weighed.claim.status
    return () if weighed.claim.answered else (f"no answer: {status}",)
