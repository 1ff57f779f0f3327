"""What a zap receipt says was paid: pure. A receipt is a claim of whoever signed it (NIP-57)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from nostr_client.event import Event

TARGET_TAGS: Final = ("e", "a", "p")
"""What a zap can be for: an event, an address, a person."""

MOST_MSATS: Final = 100 * 100_000_000 * 1_000
"""A hundred bitcoin: what claims more would hide every honest sum, and overflow it."""

_AMOUNT = re.compile(r"ln(?:bcrt|bc|tbs|tb)([1-9][0-9]{0,19})([munp]?)1")
_PER_UNIT: Final = {"": 100_000_000_000, "m": 100_000_000, "u": 100_000, "n": 100}


def msats(event: Event) -> int:
    """The amount of the receipt's invoice (BOLT 11) in millisatoshi; 0 where it names none.

    What is beyond MOST_MSATS is no amount.
    """
    invoice = (event.first_tag("bolt11") or "").lower()
    found = _AMOUNT.match(invoice)
    if found is None:
        return 0
    number, unit = int(found[1]), found[2]
    amount = number // 10 if unit == "p" else number * _PER_UNIT[unit]
    return amount if amount <= MOST_MSATS else 0


def targets(event: Event) -> set[tuple[str, str]]:
    """What the receipt is for, as (tag name, value); each once."""
    return {(name, value) for name in TARGET_TAGS for value in event.tag_values(name)}
