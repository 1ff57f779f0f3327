"""Count the people that each pair of relays shares, from the claims of one count. Pure.

People who were read are compared one by one; registers give an interval. A claim with only a number
says nothing about its people.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any

import msgspec

from nostr_client import hll
from nostr_client.hll.overlap import jaccard_interval

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nostr_client.count.merge import Claim


class Shared(msgspec.Struct, frozen=True, kw_only=True):
    """Two relays: `people` are on both, `jaccard` is their share of all on either, from 0 to 1.

    `low` and `high` are the 95 % interval of `jaccard`, the same number if the people were read
    (`exact`). `noise`: registers cannot distinguish so few from nobody.
    """

    relays: tuple[str, str]
    people: int
    jaccard: float
    low: float
    high: float
    exact: bool
    noise: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return the pair in the form of its JSON."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found


def overlaps(claims: Sequence[Claim], offset: int | None) -> list[Shared]:
    """Return every pair of relays with comparable people; `offset`: of the registers.

    A reading without its end is left out: what it lacks would look like a difference.
    """
    pairs = combinations((one for one in claims if one.answered), 2)
    found = (_pair(a, b, offset) for a, b in pairs)
    return [one for one in found if one is not None]


def _pair(a: Claim, b: Claim, offset: int | None) -> Shared | None:
    read_a, read_b = _read(a), _read(b)
    relays = a.relay, b.relay
    if read_a is not None and read_b is not None:
        return _exact(relays, read_a, read_b)
    if _is_half(a) or _is_half(b):
        return None
    one, other = sketch_of(a, offset), sketch_of(b, offset)
    if one is None or other is None:
        return None
    both = hll.overlap(one, other)
    low, high = jaccard_interval(one, other)
    return Shared(
        relays=relays,
        people=round(both.intersection),
        jaccard=both.jaccard,
        low=low,
        high=high,
        exact=False,
        noise=both.noise,
    )


def _exact(relays: tuple[str, str], a: frozenset[bytes], b: frozenset[bytes]) -> Shared:
    shared, union = len(a & b), len(a | b)
    jaccard = shared / union if union else 0.0
    return Shared(
        relays=relays, people=shared, jaccard=jaccard, low=jaccard, high=jaccard, exact=True
    )


def _read(claim: Claim) -> frozenset[bytes] | None:
    """Return the people of a claim that was read to its end."""
    reading = claim.reading
    return reading.authors if reading is not None and reading.complete else None


def _is_half(claim: Claim) -> bool:
    """Whether the claim shows its people only by a reading that did not come to its end."""
    return claim.registers is None and _read(claim) is None


def sketch_of(claim: Claim, offset: int | None) -> bytes | None:
    """Return the registers of a claim, or those of the people that were read; None: neither."""
    if claim.registers is not None or claim.reading is None or offset is None:
        return claim.registers
    return hll.from_pubkeys(claim.reading.authors, offset)
