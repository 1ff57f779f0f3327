"""Compute the totals of a store, remove events with all their rows, and maintain the file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nostr_client.store.base import StoreStats
from nostr_client.store.fingerprint_tables import log_gone
from nostr_client.store.lookup import rows_in
from nostr_client.store.query import search
from nostr_client.store.rows import EVENT_COLUMNS, EVENT_TABLES, decode_tags, read_events
from nostr_client.store.rules import SKEW
from nostr_client.store.schema import SEARCH

if TYPE_CHECKING:
    import sqlite3


if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable, Sequence

    from nostr_client.codecs.event import Event
    from nostr_client.store.rows import TagHasher

    OnRemove = Callable[[sqlite3.Connection, Sequence[Event]], None]

_DELETE_TAG = "DELETE FROM tag WHERE h = ? AND kind = ? AND created_at = ? AND seq = ?"
_CONTENTS = "SELECT seq, kind, content FROM event WHERE seq IN"
_TAGS = "SELECT kind, created_at, seq, tags FROM event WHERE seq IN"


def settle(conn: sqlite3.Connection, ids: Iterable[bytes]) -> None:
    """Remember ids of verified events that a rule refused or removed."""
    conn.executemany("INSERT OR IGNORE INTO settled VALUES (?)", [(id_,) for id_ in ids])


def remove(
    conn: sqlite3.Connection,
    seqs: Sequence[int],
    hasher: TagHasher,
    on_remove: Sequence[OnRemove] = (),
    *,
    searchable: bool = False,
) -> None:
    """Delete events by seq. Each seq occurs once.

    The hooks run before the events are deleted. Raises StoreCorrupt.
    """
    if on_remove:
        gone = read_events(
            rows_in(conn, f"SELECT {EVENT_COLUMNS} FROM {EVENT_TABLES} WHERE e.seq IN", seqs)
        )
        for hook in on_remove:
            hook(conn, gone)
    if searchable:
        search.remove(conn, rows_in(conn, _CONTENTS, seqs))
    log_gone(conn, seqs)
    tag_rows = [
        (h, kind, created_at, seq)
        for kind, created_at, seq, tags in rows_in(conn, _TAGS, seqs)
        for h in hasher.of_tags(decode_tags(tags))
    ]
    tag_rows.sort()
    conn.executemany(_DELETE_TAG, tag_rows)
    conn.executemany("DELETE FROM event WHERE seq = ?", [(seq,) for seq in seqs])


_TOTALS = """
SELECT (SELECT count(*) FROM event), (SELECT count(*) FROM author), (SELECT count(*) FROM tag),
       (SELECT count(*) FROM tomb_id), (SELECT count(*) FROM tomb_addr),
       (SELECT count(*) FROM vanished), (SELECT count(*) FROM event WHERE exp IS NOT NULL),
       (SELECT min(created_at) FROM event), (SELECT max(created_at) FROM event),
       (SELECT count(*) FROM event WHERE created_at > ?)
"""
_KINDS = "SELECT kind, count(*) FROM event GROUP BY kind ORDER BY 2 DESC, 1"


def stats(conn: sqlite3.Connection, now: int) -> StoreStats:
    """Return the totals of the store.

    `bytes` includes free pages.
    """
    totals = conn.execute(_TOTALS, (now + SKEW,)).fetchone()
    events, authors, tags, ids, addresses, vanished, expiring, oldest, newest, future = totals
    (pages,) = conn.execute("PRAGMA page_count").fetchone()
    (page_size,) = conn.execute("PRAGMA page_size").fetchone()
    return StoreStats(
        events=events,
        authors=authors,
        tags=tags,
        kinds=dict(conn.execute(_KINDS)),
        deleted_ids=ids,
        deleted_addresses=addresses,
        vanished=vanished,
        expiring=expiring,
        oldest=oldest,
        newest=newest,
        future=future,
        bytes=pages * page_size,
        search=has_search(conn),
    )


def has_search(conn: sqlite3.Connection) -> bool:
    """Return whether the store has a text index."""
    sql = "SELECT 1 FROM sqlite_schema WHERE name = ?"
    return conn.execute(sql, (SEARCH,)).fetchone() is not None


def expired(conn: sqlite3.Connection, now: int) -> dict[int, bytes]:
    """Return the id of each expired event by its seq."""
    return dict(conn.execute("SELECT seq, id FROM event WHERE exp <= ?", (now,)))


def fill_probe(conn: sqlite3.Connection) -> None:
    """Write pages of zeros, as a test for free space.

    A small write would prove nothing, because it may fit into free bytes of a full disk.
    """
    sql = (
        "INSERT INTO meta VALUES (?, zeroblob(?)) ON CONFLICT DO UPDATE SET value = excluded.value"
    )
    conn.execute(sql, (_PROBE, _PROBE_BYTES))


def drop_probe(conn: sqlite3.Connection) -> None:
    """Free the pages of `fill_probe` for other writes."""
    conn.execute("DELETE FROM meta WHERE key = ?", (_PROBE,))


_PROBE = "probe"
_PROBE_BYTES = 64 * 1024


def vacuum(conn: sqlite3.Connection) -> None:
    """Rewrite the file without its unused pages, then empty the log."""
    conn.execute("VACUUM")
    conn.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    conn.execute("PRAGMA optimize").fetchall()
