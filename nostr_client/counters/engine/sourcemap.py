"""Read and write the source map of a counter, for its newest or any stored message."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable

    from nostr_client.counters.rules import SourceMap


def fold(entries: Iterable[tuple[str, str, str]]) -> SourceMap:
    """Convert triples (stream, subject, value) to a map. A later triple replaces an earlier one."""
    found: SourceMap = {}
    for name, subject, value in entries:
        found.setdefault(name, {})[subject] = value
    return found


def current(conn: sqlite3.Connection, stream: int, subject: str) -> SourceMap:
    """Return the source map of the newest message."""
    return fold(
        conn.execute(
            "SELECT name, src_subject, val FROM counter_source_map"
            " WHERE stream = ? AND subject = ?",
            (stream, subject),
        )
    )


def exists(conn: sqlite3.Connection, stream: int, subject: str) -> bool:
    """Return whether a counter has a source map. Most counters have none."""
    row = conn.execute(
        "SELECT 1 FROM counter_source_map WHERE stream = ? AND subject = ? LIMIT 1",
        (stream, subject),
    ).fetchone()
    return row is not None


def seen(
    conn: sqlite3.Connection, stream: int, subject: str, name: str, src_subject: str
) -> str | None:
    """Return the value last seen of one source, or None."""
    row = conn.execute(
        "SELECT val FROM counter_source_map"
        " WHERE stream = ? AND subject = ? AND name = ? AND src_subject = ?",
        (stream, subject, name, src_subject),
    ).fetchone()
    return row[0] if row else None


def note(
    conn: sqlite3.Connection, stream: int, subject: str, name: str, src_subject: str, value: str
) -> None:
    conn.execute(
        "INSERT OR REPLACE INTO counter_source_map VALUES (?, ?, ?, ?, ?)",
        (stream, subject, name, src_subject, value),
    )


_CHANGES = """
    SELECT c.name AS name, m.src_subject AS src_subject, m.seq AS seq, m.src_val AS val
    FROM counter_message m JOIN counter_source_cursor c ON c.id = m.source
    WHERE m.stream = :stream AND m.subject = :subject AND m.seq > :after AND m.seq <= :upto
      AND m.counted = 1 AND m.src_val IS NOT NULL
    UNION ALL
    SELECT name, src_subject, seq, val FROM counter_source_past
    WHERE stream = :stream AND subject = :subject AND seq > :after AND seq <= :upto
"""


def changes(
    conn: sqlite3.Connection, stream: int, subject: str, after: int, upto: int
) -> list[tuple[int, str, str, str]]:
    """Return changes of the map as (sequence, stream, subject, value), oldest first."""
    bounds = {"stream": stream, "subject": subject, "after": after, "upto": upto}
    rows = conn.execute(
        f"SELECT seq, name, src_subject, val FROM ({_CHANGES}) ORDER BY seq", bounds
    )
    return rows.fetchall()


def as_of(conn: sqlite3.Connection, stream: int, subject: str, seq: int) -> SourceMap:
    """Return the source map of the newest message at or below `seq`."""
    bounds = {"stream": stream, "subject": subject, "after": -1, "upto": seq}
    rows = conn.execute(
        f"SELECT name, src_subject, val, max(seq) FROM ({_CHANGES}) GROUP BY name, src_subject",
        bounds,
    )
    return fold((name, src_subject, value) for name, src_subject, value, _ in rows)


def keep_past(conn: sqlite3.Connection, stream: int, subject: str, below: int) -> None:
    """Keep the newest change of each entry below `below`.

    Call it before those messages are removed.
    """
    bounds = {"stream": stream, "subject": subject, "after": -1, "upto": below - 1}
    rows = conn.execute(
        f"SELECT name, src_subject, val, max(seq) FROM ({_CHANGES}) GROUP BY name, src_subject",
        bounds,
    ).fetchall()
    conn.execute(
        "DELETE FROM counter_source_past WHERE stream = ? AND subject = ? AND seq < ?",
        (stream, subject, below),
    )
    conn.executemany(
        "INSERT INTO counter_source_past VALUES (?, ?, ?, ?, ?, ?)",
        [(stream, subject, name, source, seq, value) for name, source, value, seq in rows],
    )


def keep_one(conn: sqlite3.Connection, stream: int, seq: int) -> None:
    """Keep the map change of one message.

    Call it before that message is removed from the middle of the history.
    """
    conn.execute(
        "INSERT OR REPLACE INTO counter_source_past"
        " SELECT m.stream, m.subject, c.name, m.src_subject, m.seq, m.src_val"
        " FROM counter_message m JOIN counter_source_cursor c ON c.id = m.source"
        " WHERE m.stream = ? AND m.seq = ? AND m.counted = 1 AND m.src_val IS NOT NULL",
        (stream, seq),
    )


def rewind(conn: sqlite3.Connection, stream: int, subject: str, seq: int) -> None:
    """Replace the current map with the map as of `seq`, after the removal of later messages."""
    found = as_of(conn, stream, subject, seq)
    forget(conn, stream, subject)
    entries = [
        (name, s, value) for name, subjects in found.items() for s, value in subjects.items()
    ]
    conn.executemany(
        "INSERT INTO counter_source_map VALUES (?, ?, ?, ?, ?)",
        [(stream, subject, *entry) for entry in entries],
    )
    conn.execute(
        "DELETE FROM counter_source_past WHERE stream = ? AND subject = ? AND seq > ?",
        (stream, subject, seq),
    )


def set_current(conn: sqlite3.Connection, stream: int, subject: str, sources: SourceMap) -> None:
    """Write a whole map for a subject that has none."""
    for name, subjects in sources.items():
        for src_subject, value in subjects.items():
            note(conn, stream, subject, name, src_subject, value)


def forget(conn: sqlite3.Connection, stream: int, subject: str) -> None:
    conn.execute(
        "DELETE FROM counter_source_map WHERE stream = ? AND subject = ?", (stream, subject)
    )
