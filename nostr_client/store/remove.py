"""Take events out with every row that speaks of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nostr_client.store import search
from nostr_client.store.directory import log_gone
from nostr_client.store.lookup import rows_in
from nostr_client.store.rows import EVENT_COLUMNS, EVENT_TABLES, decode_tags, read_events

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable, Sequence

    from nostr_client.event import Event
    from nostr_client.store.taghash import TagHasher

    OnRemove = Callable[[sqlite3.Connection, Sequence[Event]], None]

_DELETE_TAG = "DELETE FROM tag WHERE h = ? AND kind = ? AND created_at = ? AND seq = ?"
_CONTENTS = "SELECT seq, kind, content FROM event WHERE seq IN"
_TAGS = "SELECT kind, created_at, seq, tags FROM event WHERE seq IN"


def settle(conn: sqlite3.Connection, ids: Iterable[bytes]) -> None:
    """Remember ids of verified events that a rule has done away with."""
    conn.executemany("INSERT OR IGNORE INTO settled VALUES (?)", [(id_,) for id_ in ids])


def remove(
    conn: sqlite3.Connection,
    seqs: Sequence[int],
    hasher: TagHasher,
    on_remove: Sequence[OnRemove] = (),
    *,
    searchable: bool = False,
) -> None:
    """Delete events by seq, each given once; the hooks see them before they are gone.

    Raises StoreCorrupt.
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
