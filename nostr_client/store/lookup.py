"""Read rows by a list of values.

Statements have a few fixed lengths, so that SQLite's statement cache keeps them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Iterator, Sequence


SIZES = (4, 16, 64, 256)
"""Lengths of the list in a statement. There are few, so that all statements stay prepared."""

CHUNK = SIZES[-1]

WIDE_SIZES = (*SIZES, 512, 1024)
"""The same for a list that one statement must have as a whole, such as the authors of a filter."""

WIDEST = WIDE_SIZES[-1]

MARKS = {size: ",".join("?" * size) for size in WIDE_SIZES}
"""The parameters of a statement, by the length of its list."""


def filled_up(values: Sequence[Any], sizes: Sequence[int]) -> list[Any]:
    """Return the values, and the last one again up to the next size."""
    filled = list(values)
    size = next(size for size in sizes if size >= len(filled))
    filled.extend(filled[-1:] * (size - len(filled)))
    return filled


def chunks(values: Sequence[Any]) -> Iterator[list[Any]]:
    """Split values into lists whose lengths are in SIZES.

    A short list is filled up with its last value.
    """
    for start in range(0, len(values), CHUNK):
        yield filled_up(values[start : start + CHUNK], SIZES)


def rows_in(conn: sqlite3.Connection, select: str, values: Sequence[Any]) -> Iterator[Any]:
    """Yield the rows of `select ... IN (values)`, in no particular order.

    `select` ends before the bracket.
    """
    for chunk in chunks(values):
        yield from conn.execute(f"{select} ({MARKS[len(chunk)]})", chunk)


CACHE_SIZE = 50_000
"""Most remembered pubkeys, about 10 MB. Authors are never removed, so entries stay valid."""

_LAST = "SELECT ifnull(max(a), 0) FROM author"


class Authors:
    """Number of each pubkey (hex).

    All readers share one object. The writer has its own.
    """

    def __init__(self) -> None:
        self._known: dict[str, int] = {}
        self._last = 0

    def check(self, conn: sqlite3.Connection) -> None:
        """Forget all numbers if the transaction of an assigned number was undone."""
        (last,) = conn.execute(_LAST).fetchone()
        if last < self._last:
            self._known = {}
            self._last = last

    def find(self, conn: sqlite3.Connection, pubkeys: Collection[str]) -> dict[str, int]:
        """Return the numbers of the pubkeys that have one."""
        known = self._known
        found = {key: known[key] for key in pubkeys if key in known}
        if len(found) == len(pubkeys):
            return found
        missing = [bytes.fromhex(key) for key in {*pubkeys} - found.keys()]
        if missing:
            rows = rows_in(conn, "SELECT pubkey, a FROM author WHERE pubkey IN", missing)
            fresh = {pubkey.hex(): a for pubkey, a in rows}
            self._remember(fresh)
            found.update(fresh)
        return found

    def create(self, conn: sqlite3.Connection, pubkeys: Sequence[str]) -> dict[str, int]:
        """Assign numbers to pubkeys that have none."""
        (last,) = conn.execute(_LAST).fetchone()
        fresh = {key: last + 1 + index for index, key in enumerate(pubkeys)}
        rows = [(a, bytes.fromhex(key)) for key, a in fresh.items()]
        conn.executemany("INSERT INTO author VALUES (?, ?)", rows)
        self._remember(fresh)
        self._last = last + len(fresh)
        return fresh

    def _remember(self, fresh: dict[str, int]) -> None:
        if len(self._known) + len(fresh) > CACHE_SIZE:
            self._known = {}  # a new dict, because another thread may read the old one
        self._known.update(fresh)
