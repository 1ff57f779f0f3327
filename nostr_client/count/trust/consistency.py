"""Compare a relay's count with its own registers, and find what at least two relays agree on."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from nostr_client import hll
from nostr_client.codecs.display import roughly
from nostr_client.count.trust.mined import mined
from nostr_client.count.trust.shape import occupied
from nostr_client.errors import InvalidInput
from nostr_client.hll.registers import clean, maximum

if TYPE_CHECKING:
    from collections.abc import Sequence


MAX_Z = 4.0
"""Standard errors between count and estimate from which on a relay is flagged."""

FEWEST = 50
"""Authors below which registers are counted instead: errors there are steps, not a bell curve."""

MAX_FEW_P = 3e-5
"""Chance of so few registers in use, below `FEWEST`; what 4 standard errors are above it."""


class Consistency(NamedTuple):
    """`z`: ln(estimate / count) in standard errors, infinite where one of the two is 0."""

    estimate: float
    z: float
    reasons: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """True when the count may be the number behind these registers."""
        return not self.reasons


def count_consistency(
    count: int,
    registers: bytes | bytearray,
    *,
    one_per_author: bool,
    estimate: float | None = None,
) -> Consistency:
    """Test an exact count of events against the registers that came with it.

    More authors than events are impossible; with `one_per_author` (replaceable kinds: followers),
    so are fewer. Not for counts that are `approximate` or `limited`. False positives at most 5 in
    10,000; a count that is off by half is seen 99 times in 100. `estimate` is the number of people
    in the registers, if known: by default `hll.estimate`, or the result of `mined` if mined keys
    raised registers, as an honest relay counts such keys once. Raises InvalidInput for a negative
    count or a sketch that is not 256 bytes.
    """
    if count < 0:
        raise InvalidInput(f"a count is not negative: {count}")
    if estimate is None:
        found = mined(registers)
        estimate = found.people if found.found else hll.estimate(registers)
    z = _z(count, estimate)
    if _contradiction(count, clean(registers), z, one_per_author):
        what = "people" if one_per_author else "events"
        text = f"count: {count:,} {what}, but its registers estimate {roughly(estimate)}"
        return Consistency(estimate, z, (text,))
    return Consistency(estimate, z, ())


def _z(count: int, estimate: float) -> float:
    if not count or not estimate:
        return 0.0 if count == estimate else math.copysign(math.inf, estimate - count)
    return math.log(estimate / count) / hll.sigma(count)


def _contradiction(count: int, registers: bytes, z: float, one_per_author: bool) -> bool:
    if count >= FEWEST:
        return z > MAX_Z or (one_per_author and z < -MAX_Z)
    used = hll.M - registers.count(0)
    if used > count:
        return True
    return one_per_author and sum(occupied(count, hll.M)[: used + 1]) < MAX_FEW_P


def corroborated(registers: Sequence[bytes]) -> bytes:
    """Return the register-wise second highest over relays: a sketch that no single relay can raise.

    Its estimate is 0.59 to 0.99 of the union if all are honest (coverage 20 to 80 %); `EMPTY` for
    fewer than two relays. Raises InvalidInput for a sketch that is not 256 bytes.
    """
    highest = second = 0
    for value in (int.from_bytes(clean(sketch), "big") for sketch in registers):
        higher = maximum(highest, value)
        # The lower one of two is their sum without the higher one: no carries below 128.
        second = maximum(second, highest + value - higher)
        highest = higher
    return second.to_bytes(hll.M, "big")
