"""The tables of watches and their history, as named migrations of their own set in `store.db`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nostr_client.store.migrations import Migrations

if TYPE_CHECKING:
    import sqlite3

WATCHES: Final = Migrations("nostr_tally.watches")

_TABLES: Final = """
CREATE TABLE watch (
    w INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    definition TEXT NOT NULL,
    asked_at INTEGER
) STRICT;
CREATE TABLE watch_point (
    w INTEGER NOT NULL,
    step INTEGER NOT NULL,
    slot INTEGER NOT NULL,
    at INTEGER NOT NULL,
    value INTEGER NOT NULL,
    low INTEGER NOT NULL,
    high INTEGER,
    exact INTEGER NOT NULL,
    unit TEXT NOT NULL,
    least INTEGER NOT NULL,
    most INTEGER NOT NULL,
    samples INTEGER NOT NULL,
    PRIMARY KEY (w, step, slot)
) STRICT, WITHOUT ROWID
"""


@WATCHES()
def watches_and_their_points(conn: sqlite3.Connection) -> None:
    for statement in _TABLES.split(";"):
        conn.execute(statement)


@WATCHES()
def relays_that_were_asked(conn: sqlite3.Connection) -> None:
    conn.execute("ALTER TABLE watch ADD COLUMN relays TEXT")
