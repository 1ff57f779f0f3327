"""Convert stored messages between rows and the form of JetStream."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from nostr_client.counters import rules
from nostr_client.counters.base import Message
from nostr_client.counters.subjects import literal_prefix, matches
from nostr_client.errors import CounterError

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Mapping

    from nostr_client.counters.rules import Headers


PAGE = 1_000
"""Subjects that are read at once."""


class SubjectMatch(NamedTuple):
    """A subject and the sequence of its newest message.

    `val` is None if the value must be read from the message.
    """

    subject: str
    seq: int
    val: str | None


class SubjectPage(NamedTuple):
    """Matching subjects of one page. `after` is where the next page begins, or None at the end."""

    found: list[SubjectMatch]
    after: str | None


def page(
    conn: sqlite3.Connection, stream: int, pattern: str, after: str = "", limit: int = PAGE
) -> SubjectPage:
    """Return subjects after `after` that match a pattern, in order.

    Reads at most `limit` subjects.
    """
    prefix = literal_prefix(pattern)
    if prefix == pattern:
        rows = conn.execute(EXACT, (stream, pattern)).fetchall() if after < pattern else []
        return SubjectPage([SubjectMatch(*row) for row in rows], None)
    lower = max(prefix, after)
    upper = prefix[:-1] + "/" if prefix else None  # the character after the dot
    query = WITHIN if upper is not None else ABOVE
    bounds = (stream, lower, upper, limit) if upper is not None else (stream, lower, limit)
    rows = conn.execute(query, bounds).fetchall()
    found = [SubjectMatch(*row) for row in rows if matches(pattern, row[0])]
    return SubjectPage(found, rows[-1][0] if len(rows) == limit else None)


EXACT = "SELECT subject, seq, val FROM counter_latest WHERE stream = ? AND subject = ?"
WITHIN = (
    "SELECT subject, seq, val FROM counter_latest"
    " WHERE stream = ? AND subject > ? AND subject < ? ORDER BY subject LIMIT ?"
)
ABOVE = (
    "SELECT subject, seq, val FROM counter_latest"
    " WHERE stream = ? AND subject > ? ORDER BY subject LIMIT ?"
)


def under(conn: sqlite3.Connection, stream: int, pattern: str) -> Iterator[SubjectMatch]:
    """Yield every subject that matches a pattern, in order."""
    after: str | None = ""
    while after is not None:
        found, after = page(conn, stream, pattern, after)
        yield from found


COLUMNS = (
    "m.seq, m.subject, m.ts, m.counted, m.incr, m.val, m.headers, m.body,"
    " c.name, c.filters, c.destinations, m.src_seq, m.src_subject, m.src_val"
)
FROM = "counter_message m LEFT JOIN counter_source_cursor c ON c.id = m.source"


class MessageRow(NamedTuple):
    """A stored message, in the order of COLUMNS."""

    seq: int
    subject: str
    ts: int
    counted: int
    incr: str | None
    val: str | None
    headers: str | None
    body: bytes | None
    source: str | None
    filters: str | None
    destinations: str | None
    src_seq: int | None
    src_subject: str | None
    src_val: str | None

    @property
    def own_headers(self) -> Headers:
        """Headers with which the message came: the increment as written, then the others."""
        others: Headers = unpack_headers(self.headers)
        return others if self.incr is None else ((rules.INCR, self.incr), *others)

    @property
    def content(self) -> bytes:
        if self.body is not None or self.val is None:
            return self.body or b""
        return rules.render_body(self.val).encode()

    def value(self) -> str:
        """Return the counter's value in the message, in digits. Raises CounterError 10172."""
        return self.val if self.val is not None else rules.read_body(self.body or b"")


def render(row: MessageRow, sources: Mapping[str, Mapping[str, str]]) -> Message:
    """Return the message in the form of JetStream. `sources` is the source map at that time."""
    headers = row.own_headers
    if row.source is not None:
        where = rules.source_header(
            row.source,
            row.src_seq or 0,
            row.filters or "",
            row.destinations or "",
            row.src_subject or "",
        )
        headers = (*headers, (rules.STREAM_SOURCE, where))
    if row.counted and sources:
        headers = (*headers, (rules.SOURCES, rules.render_sources(sources)))
    return Message(row.seq, row.subject, headers, row.content, row.ts)


def pack_headers(headers: Headers) -> tuple[str | None, str | None]:
    """Convert headers to (text of the increment, JSON of the others).

    A part without headers is None.
    """
    if len(headers) == 1 and headers[0][0] == rules.INCR:
        return headers[0][1], None
    incr = next((value for name, value in headers if name == rules.INCR), None)
    others = list(headers)
    if incr is not None:
        others.remove((rules.INCR, incr))
    return incr, json.dumps(others, separators=(",", ":")) if others else None


def unpack_headers(text: str | None) -> Headers:
    return tuple((name, value) for name, value in json.loads(text)) if text else ()


def pack_body(body: bytes) -> tuple[str | None, bytes | None]:
    """Convert a body to (value, None) if it is exactly a counter's body, else to (None, body)."""
    try:
        value = rules.read_body(body)
    except CounterError:
        return None, body
    return (value, None) if rules.render_body(value).encode() == body else (None, body)
