"""Read and write the tables of stored fingerprints: chunks of each scope, and a log of changes.

A scope is all events, or the events of a registered filter. The transaction that stores or removes
events also writes the log, with one statement for a batch. Triggers would be slower, because SQLite
would first copy every page of each insert. `fold` applies the log to the chunks of a scope. Chunks
and log together therefore always match the events.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from nostr_client.codecs.filters import Filter
from nostr_client.errors import StoreCorrupt
from nostr_client.negentropy.chunks import (
    RECORD_SIZE,
    ChunkHeader,
    chunks_of,
    edit,
    head_of,
    record,
)
from nostr_client.store.file.migrate import Schema, run_script
from nostr_client.store.lookup import rows_in
from nostr_client.store.rows import EVENT_COLUMNS, EVENT_TABLES, read_events

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence

    from nostr_client.negentropy.chunks import Edit

FOLD = 50_000
"""Most log entries of one transaction. It takes a fraction of a second, and other writers wait."""

LONG = 100_000
"""Length of the log, about 7 MB, from which a store folds it even without a sync."""

_TABLES = """
CREATE TABLE neg_scope (
    scope INTEGER PRIMARY KEY, filter TEXT NOT NULL UNIQUE, folded INTEGER NOT NULL
) STRICT;
CREATE TABLE neg_chunk (
    chunk INTEGER PRIMARY KEY,
    scope INTEGER NOT NULL,
    lo_ts INTEGER NOT NULL,
    lo_id BLOB NOT NULL,
    n INTEGER NOT NULL,
    sum BLOB NOT NULL,
    ids BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX neg_head ON neg_chunk (scope, lo_ts, lo_id, n, sum);
CREATE TABLE neg_log (
    n INTEGER PRIMARY KEY AUTOINCREMENT,
    ts INTEGER NOT NULL,
    id BLOB NOT NULL,
    gone INTEGER NOT NULL
) STRICT
"""
_HEADS = """
SELECT chunk, lo_ts, lo_id, n, sum FROM neg_chunk INDEXED BY neg_head
WHERE scope = ? ORDER BY lo_ts, lo_id
"""
_EVENTS = f"SELECT {EVENT_COLUMNS} FROM {EVENT_TABLES} WHERE e.id IN"
_LOG = "SELECT n, ts, id, gone FROM neg_log WHERE n > ? ORDER BY n LIMIT ?"
_CAME = """
INSERT INTO neg_log (ts, id, gone)
SELECT created_at, id, 0 FROM event WHERE seq >= ? AND EXISTS (SELECT 1 FROM neg_scope)
ORDER BY seq
"""
_GONE = "SELECT created_at, id FROM event WHERE seq IN"
_LOG_GONE = "INSERT INTO neg_log (ts, id, gone) VALUES (?, ?, 1)"
_LENGTH = "SELECT ifnull((SELECT max(n) FROM neg_log) - (SELECT min(n) FROM neg_log) + 1, 0)"
_LAST = "SELECT ifnull(max(seq), 0) FROM sqlite_sequence WHERE name = 'neg_log'"


FINGERPRINTS: Final = Schema("nostr_tally.fingerprints", partial(run_script, script=_TABLES))


def log_came(conn: sqlite3.Connection, first: int) -> None:
    """Log the events from seq `first` on as stored.

    Call it in the transaction that stores them.
    """
    conn.execute(_CAME, (first,))


def log_gone(conn: sqlite3.Connection, seqs: Sequence[int]) -> None:
    """Log events that are about to be removed.

    Call it in the transaction that removes them.
    """
    if conn.execute("SELECT EXISTS (SELECT 1 FROM neg_scope)").fetchone()[0]:
        conn.executemany(_LOG_GONE, list(rows_in(conn, _GONE, seqs)))


class FingerprintScope(NamedTuple):
    """Set of events whose fingerprints are stored.

    `folded` is the number of the last log entry that its chunks contain.
    """

    number: int
    filter: Filter
    folded: int


class Heads(NamedTuple):
    """The chunk headers of a scope in order, and the table row of each chunk."""

    heads: list[ChunkHeader]
    rows: list[int]


def find(conn: sqlite3.Connection, filter: Filter) -> FingerprintScope | None:
    """Return the scope of a filter, or None if the filter has none."""
    sql = "SELECT scope, folded FROM neg_scope WHERE filter = ?"
    row = conn.execute(sql, (filter.cache_key(),)).fetchone()
    return None if row is None else FingerprintScope(row[0], filter, row[1])


def furthest_behind(conn: sqlite3.Connection) -> FingerprintScope | None:
    """Return the scope whose chunks lack most of the log, or None if there is no scope."""
    sql = "SELECT scope, filter, folded FROM neg_scope ORDER BY folded, scope LIMIT 1"
    row = conn.execute(sql).fetchone()
    return None if row is None else FingerprintScope(row[0], Filter.from_json(row[1]), row[2])


def log_length(conn: sqlite3.Connection) -> int:
    """Return the number of log entries that some scope still lacks."""
    (length,) = conn.execute(_LENGTH).fetchone()
    return int(length)


def create(conn: sqlite3.Connection, filter: Filter, stamps: Any, ids: bytes) -> None:
    """Create the scope of a filter from the events that match now.

    The events come as columns in ascending order: `stamps` as uint64, `ids` as n * 32 bytes.
    """
    (last,) = conn.execute(_LAST).fetchone()
    cursor = conn.execute(
        "INSERT INTO neg_scope (filter, folded) VALUES (?, ?)", (filter.cache_key(), last)
    )
    _put(conn, cursor.lastrowid or 0, chunks_of(stamps, ids))


def read_heads(conn: sqlite3.Connection, scope: FingerprintScope) -> Heads:
    """Return the chunk headers as last folded."""
    found = conn.execute(_HEADS, (scope.number,)).fetchall()
    heads = [
        ChunkHeader(ts, id_, n, int.from_bytes(total, "little")) for _, ts, id_, n, total in found
    ]
    return Heads(heads, [row[0] for row in found])


def read_chunk(conn: sqlite3.Connection, row: int) -> bytes:
    """Return the records of one chunk. Raises StoreCorrupt."""
    found = conn.execute("SELECT ids FROM neg_chunk WHERE chunk = ?", (row,)).fetchone()
    if found is None or not found[0] or len(found[0]) % RECORD_SIZE:
        raise StoreCorrupt("a chunk of kept fingerprints is damaged or gone")
    return bytes(found[0])


def fold(conn: sqlite3.Connection, scope: FingerprintScope) -> bool:
    """Apply up to FOLD log entries to the chunks.

    Returns False if there were no entries.
    """
    log = conn.execute(_LOG, (scope.folded, FOLD)).fetchall()
    if not log:
        return False
    final = {(ts, id_): gone for _, ts, id_, gone in log}
    gone = [record(*item) for item, is_gone in final.items() if is_gone]
    came = _matching(conn, scope.filter, [item for item, is_gone in final.items() if not is_gone])
    heads, rows = read_heads(conn, scope)
    edits = edit(heads, lambda at: read_chunk(conn, rows[at]), came, gone)
    _apply(conn, scope, rows, edits)
    conn.execute("UPDATE neg_scope SET folded = ? WHERE scope = ?", (log[-1][0], scope.number))
    conn.execute("DELETE FROM neg_log WHERE n <= (SELECT min(folded) FROM neg_scope)")
    return True


def _matching(
    conn: sqlite3.Connection, filter: Filter, items: list[tuple[int, bytes]]
) -> list[bytes]:
    if filter == Filter():
        return [record(*item) for item in items]
    found = read_events(rows_in(conn, _EVENTS, [id_ for _, id_ in items]))
    return [
        record(event.created_at, bytes.fromhex(event.id))
        for event in found
        if filter.matches(event)
    ]


def _apply(
    conn: sqlite3.Connection, scope: FingerprintScope, rows: Sequence[int], edits: Iterable[Edit]
) -> None:
    done = list(edits)
    dropped = [(rows[at],) for one in done for at in one.drop]
    conn.executemany("DELETE FROM neg_chunk WHERE chunk = ?", dropped)
    _put(conn, scope.number, (packed for one in done for packed in one.put))


def _put(conn: sqlite3.Connection, scope: int, chunks: Iterable[bytes]) -> None:
    rows = []
    for packed in chunks:
        head = head_of(packed)
        total = head.total.to_bytes(32, "little")
        rows.append((scope, head.stamp, head.id, head.count, total, packed))
    conn.executemany(
        "INSERT INTO neg_chunk (scope, lo_ts, lo_id, n, sum, ids) VALUES (?, ?, ?, ?, ?, ?)", rows
    )
