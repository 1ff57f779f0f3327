"""`--check`: what was rebuilt beside what is live, and the store beside its own events."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

from agent.reindex.inputs import hash_key, open_store
from agent.reindex.protocol import Checked
from nostr_client.counters.engine.read import check_sums
from nostr_client.errors import StoreError
from nostr_client.store.base import DifferenceLog
from nostr_client.store.derived import LIVE, DerivedCheck, compare
from nostr_client.store.file.connect import file_uri
from nostr_client.store.file.faults import store_error
from nostr_client.store.index import schema as index_schema
from nostr_client.store.index.keeper import catch_up_missed
from nostr_client.store.index.schema import IndexedState
from nostr_client.store.index.update import ALIAS
from nostr_client.store.rows import TagHasher
from nostr_client.store.schema import INDEX_GENERATION

if TYPE_CHECKING:
    from pathlib import Path

    from agent.reindex.inputs import Settings


def check(store: Path, built: Path, settings: Settings) -> Checked:
    """Compare in one snapshot; events that came after `built` was read are added to it first.

    Raises StoreError if the live index is behind, or events were removed meanwhile: run it again
    then.
    """
    found = DifferenceLog()
    hasher = TagHasher(hash_key(store))
    try:
        with closing(open_store(store)) as conn:
            conn.execute("PRAGMA query_only = 0")  # the store is open for reading, `built` is not
            _attach(conn, store, built)
            conn.execute("BEGIN")
            mark = _pinned(conn)
            catch_up_missed(conn, hasher, mark)
            compare(conn, found)
            repairs = DerivedCheck(conn, hasher, found, urls=settings.urls).run()
            check_sums(conn, found)
            conn.execute("COMMIT")
    except sqlite3.Error as error:
        raise store_error(error) from error
    return Checked(found.number, found.compared, tuple(found.kept), repairs)


def live_path(conn: sqlite3.Connection, store: Path) -> Path:
    """The file of the live index."""
    sql = "SELECT value FROM meta WHERE key = ?"
    (generation,) = conn.execute(sql, (INDEX_GENERATION,)).fetchone()
    return store.with_name(f"{store.stem}.index-{generation}.db")


def _attach(conn: sqlite3.Connection, store: Path, built: Path) -> None:
    live = live_path(conn, store)
    if not live.exists():
        raise StoreError(f"there is no live index to compare with ({live.name}): rebuild it")
    conn.execute(f"ATTACH ? AS {LIVE}", (file_uri(live, "ro"),))
    conn.execute(f"ATTACH ? AS {ALIAS}", (file_uri(built, "rw"),))


def _pinned(conn: sqlite3.Connection) -> IndexedState:
    """The mark of the snapshot in which everything is read from here on."""
    mark = IndexedState.of_store(conn)
    live = index_schema.about(conn, schema=LIVE)
    built = index_schema.about(conn, schema=ALIAS)
    if IndexedState.of_index(live) != mark:
        raise StoreError("the live index is behind its store: rebuild it, or let the agent run")
    if built["removals"] != mark.removals:
        raise StoreError("events were removed while the store was read: check again")
    return mark
