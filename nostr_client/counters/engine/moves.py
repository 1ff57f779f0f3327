"""Read which counters changed since a time, with the value at that time and the value now.

The digest uses these functions over a connection. Sequences and times of messages rise together.
All messages before a time are therefore at or below one sequence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nostr_client.counters.engine.read import AS_OF, row_at
from nostr_client.counters.engine.rows import MessageRow, SubjectMatch
from nostr_client.counters.engine.session import read_config
from nostr_client.counters.shown import CounterMove, StreamMoves
from nostr_client.errors import CounterError

if TYPE_CHECKING:
    import sqlite3

MOST_NAMED: Final = 10
"""Most counters of one stream that a digest names."""

MOST_COMPARED: Final = 10_000
"""Most counters of one stream whose values are compared. These are the ones that changed last."""

_NS: Final = 1_000_000_000
_TABLE: Final = "SELECT 1 FROM sqlite_schema WHERE name = 'counter_stream'"
_STREAMS: Final = (
    "SELECT id, name, config, last_seq, messages, subjects FROM counter_stream"
    " WHERE subjects > 0 ORDER BY name"
)
_NEWEST_UP_TO: Final = (
    "SELECT ts FROM counter_message WHERE stream = ? AND seq <= ? ORDER BY seq DESC LIMIT 1"
)
_CHANGED: Final = "FROM counter_latest WHERE stream = ? AND seq > ?"


def read(conn: sqlite3.Connection, since: int) -> tuple[StreamMoves, ...]:
    """Return the changes of each stream that has counters, by name.

    `since` is in Unix seconds.
    """
    if conn.execute(_TABLE).fetchone() is None:
        return ()
    return tuple(
        _moves(conn, id, name, since * _NS, last_seq, subjects, is_whole=messages == last_seq)
        for id, name, config, last_seq, messages, subjects in conn.execute(_STREAMS).fetchall()
        if read_config(config).allow_msg_counter
    )


def _moves(
    conn: sqlite3.Connection,
    stream: int,
    name: str,
    ts: int,
    last_seq: int,
    subjects: int,
    *,
    is_whole: bool,
) -> StreamMoves:
    """Return the changes of one stream.

    `is_whole`: no message of the stream was ever removed.
    """
    end = _end(conn, stream, ts, last_seq)
    (changed,) = conn.execute(f"SELECT count(*) {_CHANGED}", (stream, end)).fetchone()
    rows = conn.execute(
        f"SELECT subject, seq, val {_CHANGED} ORDER BY seq DESC LIMIT ?",
        (stream, end, MOST_COMPARED),
    ).fetchall()
    found = [_move(conn, stream, SubjectMatch(*row), end, is_whole=is_whole) for row in rows]
    found.sort(key=lambda one: (-_size(one), one.subject))
    return StreamMoves(
        stream=name, counters=subjects, changed=changed, moves=tuple(found[:MOST_NAMED])
    )


def _end(conn: sqlite3.Connection, stream: int, ts: int, last_seq: int) -> int:
    """Return the highest sequence whose messages are not newer than `ts` (nanoseconds)."""
    low, high = 0, last_seq
    while low < high:
        middle = (low + high + 1) // 2
        row = conn.execute(_NEWEST_UP_TO, (stream, middle)).fetchone()
        if row is None or row[0] <= ts:
            low = middle
        else:
            high = middle - 1
    return low


def _move(
    conn: sqlite3.Connection, stream: int, one: SubjectMatch, end: int, *, is_whole: bool
) -> CounterMove:
    row = conn.execute(AS_OF, (stream, one.subject, end)).fetchone()
    now = one.val if one.val is not None else _value(row_at(conn, stream, one.seq))
    then = _value(MessageRow(*row)) if row is not None else None
    return CounterMove(subject=one.subject, now=now, then=then, is_new=row is None and is_whole)


def _value(row: MessageRow) -> str | None:
    try:
        return row.value()
    except CounterError:  # the value of an invalid stored body is unknown
        return None


def _size(one: CounterMove) -> float:
    """Return the size of a counter's change as a sort key, for which a float is exact enough."""
    if one.now is None or (one.then is None and not one.is_new):
        return 0.0
    return abs(_rough(one.now) - _rough(one.then or "0"))


def _rough(value: str) -> float:
    """Return a value of any length as a float, limited to the largest float."""
    return float(value) if len(value) < 300 else float(f"{value[:1].strip('0123456789')}1e308")
