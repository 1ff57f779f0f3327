"""The tables of watches and their history, a schema of their own in `store.db`."""

from __future__ import annotations

from functools import partial
from typing import Final

from nostr_client.store.migrate import Schema, run_script

_TABLES: Final = """
CREATE TABLE watch (
    w INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    definition TEXT NOT NULL,
    asked_at INTEGER,
    relays TEXT
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


WATCHES: Final = Schema("nostr_tally.watches", partial(run_script, script=_TABLES))
