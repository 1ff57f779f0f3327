"""Store the answers of wallets as rows of `store.db`, in a schema of their own.

A module of its own: who opens a store needs the schema, but not `asking`, which loads the network.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from nostr_client.count.wallets.keys import Wallet
from nostr_client.store.file.migrate import Schema, run_script

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable

_TABLE: Final = "CREATE TABLE wallet (recipient TEXT PRIMARY KEY, wallet TEXT NOT NULL) STRICT"
WALLETS: Final = Schema("nostr_tally.wallets", partial(run_script, script=_TABLE))

_decode: Final = msgspec.json.Decoder(Wallet).decode
_encode: Final = msgspec.json.Encoder().encode


def load(conn: sqlite3.Connection, recipients: Iterable[str]) -> list[Wallet]:
    """Return the stored wallets of these people (64 hex characters)."""
    sql = "SELECT wallet FROM wallet WHERE recipient = ?"
    rows = (conn.execute(sql, (one,)).fetchone() for one in recipients)
    return [_decode(row[0]) for row in rows if row is not None]


def all_kept(conn: sqlite3.Connection) -> list[Wallet]:
    """Return every stored wallet."""
    return [_decode(text) for (text,) in conn.execute("SELECT wallet FROM wallet")]


def save(conn: sqlite3.Connection, wallets: Iterable[Wallet]) -> None:
    """Store wallets; each replaces the stored one of its recipient."""
    rows = [(one.recipient, _encode(one).decode()) for one in wallets]
    conn.executemany("INSERT OR REPLACE INTO wallet VALUES (?, ?)", rows)
