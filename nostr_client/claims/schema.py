"""The tables of the stored claims, as named migrations of their own set in `store.db`.

One row of `claim_event` for each event of each relay that is read by events, about 90 bytes, of a
zap receipt 160: the contents are not kept. That is what exact distinct authors over relays cost,
and what seeing removals costs. Claims of relays with registers are one row of about 400 bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nostr_client.store.migrations import Migrations

if TYPE_CHECKING:
    import sqlite3

CLAIMS: Final = Migrations("nostr_tally.claims")

_TABLES: Final = """
CREATE TABLE claim_query (
    q INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    target TEXT,
    filters TEXT NOT NULL
) STRICT;
CREATE TABLE claim_relay (r INTEGER PRIMARY KEY, url TEXT NOT NULL UNIQUE) STRICT;
CREATE TABLE claim (
    q INTEGER NOT NULL,
    r INTEGER NOT NULL,
    answered INTEGER NOT NULL,
    name TEXT NOT NULL,
    status TEXT NOT NULL,
    method TEXT,
    count INTEGER,
    count_high INTEGER,
    approximate INTEGER,
    limited INTEGER,
    registers BLOB,
    events_read INTEGER NOT NULL,
    bytes_read INTEGER NOT NULL,
    last_read INTEGER,
    asked_at REAL,
    answered_at REAL,
    latency_ms REAL,
    warnings TEXT NOT NULL,
    PRIMARY KEY (q, r, answered)
) STRICT, WITHOUT ROWID;
CREATE TABLE claim_mark (
    q INTEGER NOT NULL,
    r INTEGER NOT NULL,
    last_read INTEGER,
    registers BLOB,
    mark TEXT NOT NULL,
    PRIMARY KEY (q, r)
) STRICT, WITHOUT ROWID;
CREATE TABLE claim_event (
    q INTEGER NOT NULL,
    r INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    id BLOB NOT NULL,
    author BLOB NOT NULL,
    amount INTEGER NOT NULL,
    seen_at INTEGER NOT NULL,
    PRIMARY KEY (q, r, created_at, id)
) STRICT, WITHOUT ROWID
"""


@CLAIMS()
def queries_relays_claims_and_what_is_held(conn: sqlite3.Connection) -> None:
    for statement in _TABLES.split(";"):
        conn.execute(statement)


@CLAIMS()
def how_many_events_are_held(conn: sqlite3.Connection) -> None:
    """A number beside the mark; null where an older version wrote it, until it is needed."""
    conn.execute("ALTER TABLE claim_mark ADD COLUMN held INTEGER")


@CLAIMS()
def single_events_that_claims_tell_of(conn: sqlite3.Connection) -> None:
    """Ids that relays name, and what their events prove about those of others; 34 bytes an id."""
    conn.execute(
        "CREATE TABLE claim_members (q INTEGER NOT NULL, r INTEGER NOT NULL,"
        " members BLOB NOT NULL, PRIMARY KEY (q, r)) STRICT, WITHOUT ROWID"
    )


@CLAIMS()
def who_signed_a_receipt_and_whom_it_pays(conn: sqlite3.Connection) -> None:
    """Zaps are read again, as what is held of them lacks all this."""
    for table in ("claim", "claim_mark", "claim_event"):
        conn.execute(
            f"DELETE FROM {table} WHERE q IN (SELECT q FROM claim_query WHERE name = 'zaps')"
        )
    conn.execute("ALTER TABLE claim_event ADD COLUMN label TEXT NOT NULL DEFAULT ''")
    for column in ("signer", "receiver"):
        conn.execute(f"ALTER TABLE claim_event ADD COLUMN {column} BLOB NOT NULL DEFAULT x''")
