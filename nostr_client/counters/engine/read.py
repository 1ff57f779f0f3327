"""Read values, entries, messages and histories, now or as of a sequence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nostr_client.counters import rules
from nostr_client.counters.audit import AuditStep, recount
from nostr_client.counters.base import Entry, Message, NoStream
from nostr_client.counters.config import check_name
from nostr_client.counters.engine import sourcemap
from nostr_client.counters.engine.rows import (
    COLUMNS,
    FROM,
    MessageRow,
    SubjectMatch,
    page,
    render,
    under,
)
from nostr_client.counters.rules import is_integer, parse_integer
from nostr_client.counters.subjects import matches
from nostr_client.errors import CounterError

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from nostr_client.counters.rules import SourceMap
    from nostr_client.store.base import DifferenceLog

BY_SEQ = f"SELECT {COLUMNS} FROM {FROM} WHERE m.stream = ? AND m.seq = ?"
AS_OF = (
    f"SELECT {COLUMNS} FROM {FROM} WHERE m.stream = ? AND m.subject = ? AND m.seq <= ?"
    " ORDER BY m.seq DESC LIMIT 1"
)
HISTORY = (
    f"SELECT {COLUMNS} FROM {FROM} WHERE m.stream = ? AND m.subject = ? AND m.seq > ?"
    " ORDER BY m.seq LIMIT ?"
)
SINCE = f"SELECT {COLUMNS} FROM {FROM} WHERE m.stream = ? AND m.seq > ? ORDER BY m.seq LIMIT ?"
STREAM_ID = "SELECT id FROM counter_stream WHERE name = ?"
LOAD = "SELECT val, seq FROM counter_latest WHERE stream = ? AND subject = ?"


def stream_id(conn: sqlite3.Connection, name: str) -> int:
    row = conn.execute(STREAM_ID, (check_name(name),)).fetchone()
    if row is None:
        raise NoStream(name)
    return int(row[0])


def load(conn: sqlite3.Connection, stream: int, subject: str) -> str:
    """Return a counter's value in digits.

    Raises CounterError 10037 (no such counter) and 10172 (broken).
    """
    row = conn.execute(LOAD, (stream, subject)).fetchone()
    if row is None:
        raise rules.no_message(subject)
    value: str | None = row[0]
    return value if value is not None else row_at(conn, stream, row[1]).value()


def load_page(
    conn: sqlite3.Connection, stream: int, pattern: str, after: str
) -> tuple[list[tuple[str, str]], str | None]:
    """Return one page of subjects and values that match a pattern."""
    found, go_on = page(conn, stream, pattern, after)
    return [(f.subject, _found_value(conn, stream, f)) for f in found], go_on


def load_literals(
    conn: sqlite3.Connection, stream: int, subjects: Sequence[str]
) -> list[tuple[str, str]]:
    """Return the values of the subjects that exist."""
    found = (item for subject in subjects for item in under(conn, stream, subject))
    return [(item.subject, _found_value(conn, stream, item)) for item in found]


def _found_value(conn: sqlite3.Connection, stream: int, found: SubjectMatch) -> str:
    return found.val if found.val is not None else row_at(conn, stream, found.seq).value()


def row_at(conn: sqlite3.Connection, stream: int, seq: int) -> MessageRow:
    """Return the stored message of a sequence. Raises CounterError 10037."""
    row = conn.execute(BY_SEQ, (stream, seq)).fetchone()
    if row is None:
        raise rules.no_message(f"sequence {seq}")
    return MessageRow(*row)


def newest(
    conn: sqlite3.Connection, stream: int, subject: str, at_seq: int | None = None
) -> tuple[MessageRow, SourceMap]:
    """Return a subject's newest message and its source map, now or as of a sequence."""
    if at_seq is not None:
        row = conn.execute(AS_OF, (stream, subject, at_seq)).fetchone()
        if row is None:
            raise rules.no_message(subject)
        return MessageRow(*row), sourcemap.as_of(conn, stream, subject, row[0])
    found = conn.execute(LOAD, (stream, subject)).fetchone()
    if found is None:
        raise rules.no_message(subject)
    row = row_at(conn, stream, found[1])
    return row, sourcemap.current(conn, stream, subject) if row.counted else {}


def message_at(conn: sqlite3.Connection, stream: int, row: MessageRow) -> Message:
    """Return a stored message with its source map at that time."""
    return render(row, _map_at(conn, stream, row))


def newest_many(
    conn: sqlite3.Connection, stream: int, patterns: Iterable[str], at_seq: int | None = None
) -> list[Message]:
    """Return the newest message of every subject that matches a pattern, each once, by sequence."""
    messages: dict[str, Message] = {}
    for pattern in patterns:
        for subject, seq, _ in under(conn, stream, pattern):
            if subject in messages:
                continue
            if at_seq is None or seq <= at_seq:
                messages[subject] = render(*newest(conn, stream, subject))
                continue
            row = conn.execute(AS_OF, (stream, subject, at_seq)).fetchone()
            if row is not None:
                messages[subject] = message_at(conn, stream, MessageRow(*row))
    return sorted(messages.values(), key=lambda message: message.seq)


def entry_page(
    conn: sqlite3.Connection, stream: int, pattern: str, after: str, at_seq: int | None
) -> tuple[list[tuple[str, Entry]], str | None]:
    """Return one page of entries that match a pattern, now or as of a sequence."""
    found, go_on = page(conn, stream, pattern, after)
    return _entries(conn, stream, found, at_seq), go_on


def entry_literals(
    conn: sqlite3.Connection, stream: int, subjects: Sequence[str], at_seq: int | None
) -> list[tuple[str, Entry]]:
    """Return the entries of the subjects that exist, now or as of a sequence."""
    found = (item for subject in subjects for item in under(conn, stream, subject))
    return _entries(conn, stream, found, at_seq)


def _entries(
    conn: sqlite3.Connection, stream: int, found: Iterable[SubjectMatch], at_seq: int | None
) -> list[tuple[str, Entry]]:
    entries: list[tuple[str, Entry]] = []
    for item in found:
        upto = at_seq if at_seq is not None and item.seq > at_seq else None
        row = _newest_or_none(conn, stream, item, upto)
        if row is not None:
            entries.append((item.subject, entry(*row)))
    return entries


def _newest_or_none(
    conn: sqlite3.Connection, stream: int, item: SubjectMatch, upto: int | None
) -> tuple[MessageRow, SourceMap] | None:
    if upto is None:
        row = row_at(conn, stream, item.seq)
        return row, sourcemap.current(conn, stream, item.subject) if row.counted else {}
    found = conn.execute(AS_OF, (stream, item.subject, upto)).fetchone()
    if found is None:
        return None
    return MessageRow(*found), sourcemap.as_of(conn, stream, item.subject, found[0])


def history_page(
    conn: sqlite3.Connection, stream: int, subject: str, after: int, limit: int
) -> list[tuple[MessageRow, SourceMap]]:
    """Return stored messages of a subject, each with its source map at that time, oldest first."""
    rows = [MessageRow(*row) for row in conn.execute(HISTORY, (stream, subject, after, limit))]
    if not rows:
        return []
    if not sourcemap.exists(conn, stream, subject):
        return [(row, {}) for row in rows]
    found = sourcemap.as_of(conn, stream, subject, rows[0].seq)
    changes = sourcemap.changes(conn, stream, subject, rows[0].seq, rows[-1].seq)
    return _with_maps(rows, found, changes)


def _with_maps(
    rows: Sequence[MessageRow], found: SourceMap, changes: Sequence[tuple[int, str, str, str]]
) -> list[tuple[MessageRow, SourceMap]]:
    result: list[tuple[MessageRow, SourceMap]] = []
    at = 0
    for row in rows:
        while at < len(changes) and changes[at][0] <= row.seq:
            _, name, subject, value = changes[at]
            found = found | {name: found.get(name, {}) | {subject: value}}
            at += 1
        result.append((row, found if row.counted else {}))
    return result


def since_page(conn: sqlite3.Connection, stream: int, after: int, limit: int) -> list[Message]:
    """Return stored messages of a stream, oldest first."""
    rows = [MessageRow(*row) for row in conn.execute(SINCE, (stream, after, limit))]
    return [message_at(conn, stream, row) for row in rows]


def entry(row: MessageRow, sources: Mapping[str, Mapping[str, str]]) -> Entry:
    """Return a counter as of a stored message.

    Raises CounterError 10172 if the body is broken.
    """
    message = render(row, sources)
    return Entry(
        subject=row.subject,
        value=parse_integer(row.value()),
        incr=increment_of(row),
        seq=row.seq,
        sources={n: {s: parse_integer(v) for s, v in m.items()} for n, m in sources.items()},
        headers=message.headers,
        ts=row.ts,
    )


def increment_of(row: MessageRow) -> int | None:
    text = (row.incr or "").lstrip(" ")
    return parse_integer(text) if is_integer(text) else None


def step(row: MessageRow) -> AuditStep:
    return AuditStep(row.seq, increment_of(row), parse_integer(row.value()))


def steps(conn: sqlite3.Connection, stream: int, subject: str) -> Iterator[AuditStep]:
    """Yield the stored messages of a counter for a recount, oldest first.

    Raises CounterError 10172.
    """
    for row in conn.execute(HISTORY, (stream, subject, 0, -1)):
        yield step(MessageRow(*row))


def check_sums(conn: sqlite3.Connection, found: DifferenceLog) -> None:
    """Find counters whose stored messages do not add up to their value."""
    present = "SELECT 1 FROM sqlite_schema WHERE name = 'counter_latest'"
    if conn.execute(present).fetchone() is None:
        return
    subjects = conn.execute("SELECT stream, subject FROM counter_latest").fetchall()
    found.compared["counter"] = len(subjects)
    for stream, subject in subjects:
        try:
            holds = recount(steps(conn, stream, subject)).holds
        except (CounterError, TypeError, ValueError) as error:  # a damaged value may not be text
            found.add("counter", subject, f"its messages cannot be read: {error}")
            continue
        if not holds:
            found.add("counter", subject, "its kept messages do not add up to its value")


def changes_since(
    conn: sqlite3.Connection, stream: int, patterns: Sequence[str], after: int, limit: int
) -> tuple[int, list[Entry]]:
    """Return the next messages that match a pattern, as entries, and the last sequence read."""
    rows = [MessageRow(*row) for row in conn.execute(SINCE, (stream, after, limit))]
    entries = [
        entry(row, _map_at(conn, stream, row))
        for row in rows
        if any(matches(pattern, row.subject) for pattern in patterns)
    ]
    return (rows[-1].seq if rows else after), entries


def _map_at(conn: sqlite3.Connection, stream: int, row: MessageRow) -> SourceMap:
    if not row.counted or not sourcemap.exists(conn, stream, row.subject):
        return {}
    return sourcemap.as_of(conn, stream, row.subject, row.seq)
