"""NIP-45 as written: what of a COUNT gets registers, and its figures. Pure.

Policy beyond the text: registers go with filters of exactly one tag attribute of one value, of
any kinds, and nothing else but a limit, which is no condition of a count. authors, ids, since,
until or search make a filter ineligible: its registers would not merge with other relays'.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nostr_client import hll

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nostr_client.filters import Filter


@dataclass(frozen=True, slots=True)
class CountFigures:
    """The exact number of events of a union, and its registers where it is eligible."""

    count: int
    registers: bytes | None = None


def shared_offset(filters: Sequence[Filter]) -> int | None:
    """The HLL offset of a union: that of its filters when all are eligible and agree, else None."""
    offsets = {_offset(wanted) for wanted in filters}
    return offsets.pop() if len(offsets) == 1 else None


def _offset(wanted: Filter) -> int | None:
    narrowed = (wanted.ids, wanted.authors, wanted.since, wanted.until, wanted.search)
    if any(condition is not None for condition in narrowed):
        return None
    shape = wanted.to_dict()
    return hll.offset(shape) if hll.eligible(shape) else None
