"""The tables of the stored claims, a schema of their own in `store.db`.

One row of `claim_event` for each event of each relay that is read by events, about 90 bytes, of a
zap receipt 180: the contents are not kept. `signer` has the key that signed a receipt, then the 16
bytes of the payment that it claims. That is what exact distinct authors over relays cost,
and what seeing removals costs. Claims of relays with registers are one row of about 400 bytes.
`claim_members`: ids that relays name, and what their events prove about those of others; 34 bytes
an id.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from nostr_client.store.migrate import Schema, run_script

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
    held INTEGER,
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
    label TEXT NOT NULL DEFAULT '',
    signer BLOB NOT NULL DEFAULT x'',
    receiver BLOB NOT NULL DEFAULT x'',
    PRIMARY KEY (q, r, created_at, id)
) STRICT, WITHOUT ROWID;
CREATE TABLE claim_members (
    q INTEGER NOT NULL, r INTEGER NOT NULL, members BLOB NOT NULL, PRIMARY KEY (q, r)
) STRICT, WITHOUT ROWID
"""


CLAIMS: Final = Schema("nostr_tally.claims", partial(run_script, script=_TABLES))
