"""Check the index of a store against a rebuild from its events.

An index that lacks events is no problem, because opening the index updates or rebuilds it. There
are two problems. The index may have the state of other events than the store's. Or the index has
the present state, but its rows do not match the events.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Final

from nostr_client.store import digest
from nostr_client.store.base import DifferenceLog
from nostr_client.store.derived import LIVE, compare
from nostr_client.store.file.connect import file_uri
from nostr_client.store.file.faults import store_error
from nostr_client.store.index import schema
from nostr_client.store.index.keeper import is_usable, stored_events
from nostr_client.store.index.read import file_of
from nostr_client.store.index.schema import IndexedState
from nostr_client.store.index.update import ALIAS, Updater
from nostr_client.store.rows import TagHasher
from nostr_client.store.schema import INDEX_GENERATION

if TYPE_CHECKING:
    from pathlib import Path

_TRIES: Final = 5
"""Most reads of index and store while the writer is between their two commits."""


def check_index(store: Path, hash_key: bytes) -> DifferenceLog:
    """Return the differences of the index beside a store.

    Returns no differences if there is no index. Rebuilds the tables in a temporary file, in about
    25 s for a million events. Raises StoreError.
    """
    try:
        with closing(
            sqlite3.connect(file_uri(store, "rw"), uri=True, isolation_level=None)
        ) as conn:
            sql = "SELECT value FROM meta WHERE key = ?"
            (generation,) = conn.execute(sql, (INDEX_GENERATION,)).fetchone()
            live = file_of(store, int(generation))
            if live is None or not live.exists():
                return DifferenceLog()
            conn.execute(f"ATTACH ? AS {LIVE}", (file_uri(live, "ro"),))
            conn.execute(f"ATTACH '' AS {ALIAS}")
            schema.create(conn, 0, schema=ALIAS)
            return _check(conn, TagHasher(hash_key))
    except sqlite3.Error as error:
        raise store_error(error) from error


def _check(conn: sqlite3.Connection, hasher: TagHasher) -> DifferenceLog:
    for _ in range(_TRIES):
        conn.execute("BEGIN")
        try:
            # Read the index first, so that its snapshot is not newer than the snapshot of the
            # events.
            about = schema.about(conn, schema=LIVE)
            read, now = IndexedState.of_index(about), IndexedState.of_store(conn)
            if read == now and is_usable(about):
                return _unequal(conn, hasher)
            if read is not None and (wrong := _impossible(conn, read, now)):
                found = DifferenceLog()
                found.add("index", "", f"it {wrong}; opening the store builds it again")
                return found
        finally:
            conn.execute("ROLLBACK")
    return DifferenceLog()


def _impossible(conn: sqlite3.Connection, read: IndexedState, now: IndexedState) -> str:
    """Return why an index cannot reach the store's state by catching up, or ""."""
    if read.next_seq > now.next_seq or read.removals > now.removals:
        return "is ahead of its events"
    later = digest.compute(conn, read.next_seq)
    if read.removals == now.removals and (read.digest + later) % digest.MODULUS != now.digest:
        return "is of other events"
    return ""


def _unequal(conn: sqlite3.Connection, hasher: TagHasher) -> DifferenceLog:
    Updater(hasher).apply(conn, stored_events(conn, 0), scan=True)
    found = DifferenceLog()
    compare(conn, found)
    return found
