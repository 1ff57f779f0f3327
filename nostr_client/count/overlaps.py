"""Count the people that each pair of relays shares, from the claims of one count. Pure.

Only people behind the number are compared. People who were read are compared one by one; registers
give an interval. A claim with only a number does not show its people.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import combinations
from typing import TYPE_CHECKING, Final, NamedTuple

from nostr_client import hll
from nostr_client.count.figures import RelayOverlaps, SharedPeople, UncomparedRelay
from nostr_client.count.merge.drift import gone_at_most
from nostr_client.count.merge.values import Proven
from nostr_client.hll.overlap import jaccard_interval

if TYPE_CHECKING:
    from nostr_client.count.merge import Claim, Part, Reading
    from nostr_client.count.result import CountResult

BY_USER: Final = "left out by the watch"
NOT_ALL_READ: Final = "its events were not read to the end"
NOBODY: Final = "it counts nobody"
FULL: Final = "its registers are full"
ONLY_IDS: Final = "it names ids of events, without their authors"
ONLY_NUMBER: Final = "it returns only a number"
NOT_USED: Final = "its registers are left out of the number"
NO_OTHER: Final = "no other relay shows its people"

_MOST_PAIRS: Final = 4096
"""Pairs of registers whose comparison is remembered: each takes 1 to 5 ms, and most pairs do not
change between two rounds of a watch. A pair takes about 0.7 kB."""


class _RelayPeople(NamedTuple):
    """The people of one relay: read to the end, as registers, or both."""

    relay: str
    registers: bytes | None
    reading: Reading | None
    is_of_now: bool


def overlaps_of(result: CountResult) -> RelayOverlaps:
    """Return every pair of relays whose people can be compared, and why the others cannot.

    Each new pair of registers takes 1 to 5 ms.
    """
    parts = {one.relay: one for one in result.merged.parts}
    claims = {one.relay: one for one in result.merged.claims}
    people: list[_RelayPeople] = []
    lacking: list[UncomparedRelay] = []
    for shown in result.relays:
        claim, part = claims.get(shown.relay), parts.get(shown.relay)
        found = BY_USER if claim is None or part is None else _people(claim, part, result)
        if isinstance(found, str):
            lacking.append(UncomparedRelay(relay=shown.relay, why=found))
        else:
            people.append(found)
    if len(people) == 1:
        lacking.append(UncomparedRelay(relay=people[0].relay, why=NO_OTHER))
    return RelayOverlaps(
        overlaps=tuple(_pair(a, b) for a, b in combinations(people, 2)), uncompared=tuple(lacking)
    )


def sketch_of(claim: Claim, offset: int | None) -> bytes | None:
    """Return the registers of a claim, or those of the people that were read; None: neither."""
    if claim.registers is not None or claim.reading is None or offset is None:
        return claim.registers
    return hll.from_pubkeys(claim.reading.authors, offset)


def _people(claim: Claim, part: Part, result: CountResult) -> _RelayPeople | str:
    """Return the people of a claim, or the reason why they cannot be compared."""
    if not claim.answered:
        return "; ".join(dict.fromkeys((f"no answer: {claim.status}", *claim.warnings)))
    reading, registers = claim.reading, sketch_of(claim, result.query.offset)
    if reading is not None and not reading.complete:
        return NOT_ALL_READ  # what the reading lacks would look like a difference
    if reading is None and registers is None:
        return ONLY_NUMBER if claim.listing is None else ONLY_IDS
    if reading is None and "registers" not in part.used:
        return "; ".join(part.reasons) or NOT_USED
    if registers == hll.EMPTY or (reading is not None and not reading.authors):
        return NOBODY
    if reading is None and registers is not None and math.isinf(hll.estimate(registers)):
        return FULL
    return _RelayPeople(claim.relay, registers, reading, is_of_now=not claim.stands_in)


def _pair(a: _RelayPeople, b: _RelayPeople) -> SharedPeople:
    if a.reading is not None and b.reading is not None:
        return _by_people(a, b, a.reading, b.reading)
    assert a.registers is not None
    assert b.registers is not None
    shared, index, low, high, noise = _by_registers(a.registers, b.registers)
    return SharedPeople(
        relays=(a.relay, b.relay),
        people=shared,
        jaccard=index,
        low=low,
        high=high,
        exact=False,
        noise=noise,
    )


@lru_cache(_MOST_PAIRS)
def _by_registers(a: bytes, b: bytes) -> tuple[int, float, float, float, bool]:
    """Return people on both, the Jaccard index, its interval, and whether that may be nobody."""
    both, (low, high) = hll.overlap(a, b), jaccard_interval(a, b)
    return round(both.intersection), both.jaccard, low, high, not low


def _by_people(a: _RelayPeople, b: _RelayPeople, one: Reading, other: Reading) -> SharedPeople:
    shared, union = len(one.authors & other.authors), len(one.authors | other.authors)
    gone = min(gone_at_most([one, other], lambda reading: reading.authors), union - 1)
    is_now = all(each.is_of_now and _is_proven(each.reading) for each in (a, b))
    exact, low = is_now and not gone, max(shared - gone, 0) / union
    return SharedPeople(
        relays=(a.relay, b.relay),
        people=shared,
        jaccard=shared / union,
        low=low,
        high=min(shared / (union - gone), 1.0),
        exact=exact,
        noise=not exact and not low,
    )


def _is_proven(reading: Reading | None) -> bool:
    """Whether a round proved that the relay has exactly these events."""
    return reading is not None and reading.proven is Proven.MEMBERS and not reading.doubted
