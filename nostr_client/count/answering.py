"""Give a merged number as an answer to COUNT (NIP-45), for a relay that counts for everybody. Pure.

The answer says `merged`, so that a merge over relays does not take it for a relay's own claim.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nostr_client import hll
from nostr_client.codecs.messages import CountAnswer
from nostr_client.count.merge import sketches

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nostr_client.count.result import CountResult

_PEOPLE: Final = frozenset({"registers", "events"})
"""Uses of a claim by which its people are in the number."""


def answer_of(result: CountResult) -> CountAnswer | None:
    """Return the answer that a result gives, without a query id; None if it has no number.

    `approximate`: the number is not known exactly. `limited`: something is known to be missing.
    """
    found = result.merged.figure
    if found is None:
        return None
    return CountAnswer(
        query_id="",
        count=found.storable.value,
        approximate=not found.exact,
        limited=True if found.lower_bound else None,
        hll=merged_registers(result),
        merged=True,
    )


def merged_registers(result: CountResult) -> bytes | None:
    """Return the registers of all people in a number, 256 bytes; None if it has none to give.

    Registers that mined keys raised are not passed on: a program that merges them believes them.
    """
    if result.query.offset is None:
        return None
    found = list(_registers(result, result.query.offset))
    if not found or sketches.bent([*found, union := sketches.joined(*found)]):
        return None
    return union


def _registers(result: CountResult, offset: int) -> Iterator[bytes]:
    used = {part.relay for part in result.merged.parts if _PEOPLE.intersection(part.used)}
    for claim in result.merged.claims:
        if claim.relay not in used or claim.relay in result.merged.excluded:
            continue
        if claim.registers is not None:
            yield claim.registers
        elif claim.reading is not None:
            yield hll.from_pubkeys(claim.reading.authors, offset)
