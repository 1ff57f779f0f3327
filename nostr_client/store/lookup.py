"""Small reads by list: a statement of fixed length for each chunk, so that SQLite keeps it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Sequence

SIZES = (4, 16, 64, 256)
"""Lengths of the list in a statement: few enough that all stay prepared."""

CHUNK = SIZES[-1]


def chunks(values: Sequence[Any]) -> Iterator[list[Any]]:
    """The values in lists of a size of SIZES, each filled up with its own last value."""
    for start in range(0, len(values), CHUNK):
        chunk = list(values[start : start + CHUNK])
        size = next(size for size in SIZES if size >= len(chunk))
        chunk.extend(chunk[-1:] * (size - len(chunk)))
        yield chunk


def rows_in(conn: sqlite3.Connection, select: str, values: Sequence[Any]) -> Iterator[Any]:
    """Rows of `select ... IN (values)`; `select` ends before the bracket. No order is kept."""
    for chunk in chunks(values):
        yield from conn.execute(f"{select} ({_MARKS[len(chunk)]})", chunk)


_MARKS = {size: ",".join("?" * size) for size in SIZES}
