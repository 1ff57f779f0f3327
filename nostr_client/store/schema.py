"""Define the tables of `store.db`.

`event.seq` follows the order of arrival and is never used twice. A number is therefore enough to
find later events. `tag.h` is a keyed hash of name and value (`rows`), with 8 bytes instead of 64.

`tag` includes kind and author, so that its key range alone answers counts, registers and limits. In
its key the kind comes before the time. Requests for a tag also name kinds, so a count of one kind
reads no rows of other kinds.

`settled` has the ids of verified events that a rule refused or removed. Without it, each sync would
download them again. `tomb_id` cannot replace it, because everybody may ask for the deletion of
another author's id.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from nostr_client.store import digest
from nostr_client.store.file.migrate import Schema, run_script

if TYPE_CHECKING:
    import sqlite3

HASH_KEY = "tag_hash_key"
NEXT_SEQ = "next_seq"
REMOVALS = "removals"
"""Number of events removed so far."""
INDEX_GENERATION = "index_generation"
SEARCH = "search"

_EVENTS = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value ANY NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE author (a INTEGER PRIMARY KEY, pubkey BLOB NOT NULL UNIQUE) STRICT;
CREATE TABLE event (
    seq INTEGER PRIMARY KEY,
    id BLOB NOT NULL,
    a INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    d TEXT,
    exp INTEGER,
    tags BLOB NOT NULL,
    content BLOB NOT NULL,
    sig BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX event_id ON event (id);
CREATE INDEX event_time ON event (created_at, id);
CREATE INDEX event_kind ON event (kind, created_at);
CREATE INDEX event_author_kind ON event (a, kind, created_at);
CREATE INDEX event_author ON event (a, created_at);
CREATE UNIQUE INDEX event_address ON event (a, kind, d) WHERE d IS NOT NULL;
CREATE INDEX event_exp ON event (exp) WHERE exp IS NOT NULL;
CREATE TABLE tag (
    h INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    a INTEGER NOT NULL,
    PRIMARY KEY (h, kind, created_at, seq)
) STRICT, WITHOUT ROWID;
CREATE TABLE tomb_id (
    id BLOB NOT NULL, a INTEGER NOT NULL, PRIMARY KEY (id, a)
) STRICT, WITHOUT ROWID;
CREATE TABLE tomb_addr (
    a INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    d TEXT NOT NULL,
    until INTEGER NOT NULL,
    PRIMARY KEY (a, kind, d)
) STRICT, WITHOUT ROWID;
CREATE TABLE vanished (a INTEGER PRIMARY KEY, until INTEGER NOT NULL) STRICT;
CREATE TABLE settled (id BLOB PRIMARY KEY) STRICT, WITHOUT ROWID;
"""

_COUNTERS = (NEXT_SEQ, REMOVALS, INDEX_GENERATION)


def _create(conn: sqlite3.Connection) -> None:
    run_script(conn, _EVENTS)
    conn.execute("INSERT INTO meta VALUES (?, ?)", (HASH_KEY, os.urandom(16)))
    conn.execute("INSERT INTO meta VALUES (?, 1), (?, 0), (?, 0)", _COUNTERS)
    conn.execute("INSERT INTO meta VALUES (?, ?)", (digest.KEY, digest.compute(conn)))


STORE: Final = Schema("nostr_tally.store", _create)
