"""Which subjects of a stream a pattern names, by the table of newest messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from nostr_client.counters.subjects import literal_prefix, matches

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator

PAGE = 1_000
"""Subjects looked at in one go."""


class Found(NamedTuple):
    """A subject, the sequence of its newest message, and its value where it needs no reading."""

    subject: str
    seq: int
    val: str | None


class Page(NamedTuple):
    """What matched among the subjects looked at; `after` continues, None: there is no more."""

    found: list[Found]
    after: str | None


def page(
    conn: sqlite3.Connection, stream: int, pattern: str, after: str = "", limit: int = PAGE
) -> Page:
    """The subjects after `after` that a pattern names, in order, looking at `limit` at most."""
    prefix = literal_prefix(pattern)
    if prefix == pattern:
        rows = conn.execute(EXACT, (stream, pattern)).fetchall() if after < pattern else []
        return Page([Found(*row) for row in rows], None)
    lower = max(prefix, after)
    upper = prefix[:-1] + "/" if prefix else None  # the character after the dot
    query = WITHIN if upper is not None else ABOVE
    bounds = (stream, lower, upper, limit) if upper is not None else (stream, lower, limit)
    rows = conn.execute(query, bounds).fetchall()
    found = [Found(*row) for row in rows if matches(pattern, row[0])]
    return Page(found, rows[-1][0] if len(rows) == limit else None)


EXACT = "SELECT subject, seq, val FROM counter_latest WHERE stream = ? AND subject = ?"
WITHIN = (
    "SELECT subject, seq, val FROM counter_latest"
    " WHERE stream = ? AND subject > ? AND subject < ? ORDER BY subject LIMIT ?"
)
ABOVE = (
    "SELECT subject, seq, val FROM counter_latest"
    " WHERE stream = ? AND subject > ? ORDER BY subject LIMIT ?"
)


def under(conn: sqlite3.Connection, stream: int, pattern: str) -> Iterator[Found]:
    """Every subject that a pattern names, in order."""
    after: str | None = ""
    while after is not None:
        found, after = page(conn, stream, pattern, after)
        yield from found
