"""The tables that a rebuild makes, the same from every engine, people by their keys.

`hot`: t, name, value, kind, events, authors, registers (256 bytes)
`hot_author`: t, pubkey, n
`daily`: day, kind, events, authors
`daily_author`: day, kind, pubkey, n
`zap`: name, value, receipts, msats
`kinds`: kind, events
`fingerprint`: day, events, sum of the ids as little-endian numbers mod 2^256 (32 bytes)
`status`: status, events: what a store would say to each event of the input

`t` is any number that joins `hot` and `hot_author`. No table has an order.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

COLUMNS: Final[dict[str, tuple[str, ...]]] = {
    "hot": ("t", "name", "value", "kind", "events", "authors", "registers"),
    "hot_author": ("t", "pubkey", "n"),
    "daily": ("day", "kind", "events", "authors"),
    "daily_author": ("day", "kind", "pubkey", "n"),
    "zap": ("name", "value", "receipts", "msats"),
    "kinds": ("kind", "events"),
    "fingerprint": ("day", "events", "sum"),
    "status": ("status", "events"),
}

CHUNK: Final = 50_000
"""Rows of a table that are read or written at once."""

LIMBS: Final = tuple(f"limb{n}" for n in range(8))
"""A sum of ids in eight numbers of 32 bits, the lowest first."""

MOST_MSATS: Final = 9 * 10**18
"""Where the sum of a target's zaps stops, as in the live index."""


def chunks(rows: Iterator[tuple[Any, ...]]) -> Iterator[list[tuple[Any, ...]]]:
    """Rows in lists of CHUNK."""
    while chunk := list(islice(rows, CHUNK)):
        yield chunk


class Tables(Protocol):
    """The tables of one rebuild."""

    def rows(self, table: str) -> Iterator[tuple[Any, ...]]:
        """The rows of a table of COLUMNS."""
        ...
