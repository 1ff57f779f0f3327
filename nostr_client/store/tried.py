"""What a sync remembers in the store: relays that refuse NIP-77, ids that were tried in vain.

Rows carry when they end, in Unix seconds; those that ended are removed when new ones come.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nostr_client.store.lookup import chunks
from nostr_client.store.migrations import Migrations
from nostr_client.store.schema import run_script

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from nostr_client.store.database import Database

SYNC = Migrations("nostr_tally.sync")

_TABLES = """
CREATE TABLE sync_tried (
    relay TEXT NOT NULL,
    side INTEGER NOT NULL,
    id BLOB NOT NULL,
    until INTEGER NOT NULL,
    PRIMARY KEY (relay, side, id)
) STRICT, WITHOUT ROWID;
CREATE TABLE sync_refusal (
    relay TEXT PRIMARY KEY, until INTEGER NOT NULL, reason TEXT NOT NULL
) STRICT, WITHOUT ROWID;
"""
_ANY = "SELECT 1 FROM sync_tried WHERE relay = ? LIMIT 1"
_INSERT = "INSERT OR REPLACE INTO sync_tried VALUES (?, ?, ?, ?)"
_REFUSE = "INSERT OR REPLACE INTO sync_refusal VALUES (?, ?, ?)"
_REFUSAL = "SELECT reason FROM sync_refusal WHERE relay = ? AND until > ?"


@SYNC()
def tried_ids_and_refusals(conn: sqlite3.Connection) -> None:
    run_script(conn, _TABLES)


class TriedTable:
    """The tables `sync_tried` and `sync_refusal` of one database. Raises StoreError."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def refusal(self, relay: str, now: int) -> str | None:
        """Why the relay refuses, None when it does not or when that ended before `now`."""
        found = await self._database.read(
            lambda conn: conn.execute(_REFUSAL, (relay, now)).fetchone()
        )
        return None if found is None else str(found[0])

    async def refuse(self, relay: str, reason: str, until: int) -> None:
        """Remember a refusal until a time."""
        await self._database.write(
            lambda conn: conn.execute(_REFUSE, (relay, until, reason)).close()
        )

    async def tried(
        self, relays: Sequence[str], side: int, ids: Sequence[bytes], now: int
    ) -> set[bytes]:
        """those ids that were tried under any of the relays' names."""

        def read(conn: sqlite3.Connection) -> set[bytes]:
            known = [one for one in relays if conn.execute(_ANY, (one,)).fetchone()]
            return {
                key
                for relay in known
                for chunk in chunks(ids)
                for (key,) in conn.execute(_within(len(chunk)), (relay, int(side), *chunk, now))
            }

        return await self._database.read(read)

    async def remember(self, relay: str, side: int, ids: Sequence[bytes], until: int) -> None:
        """Remember ids under a relay's name until a time."""
        rows = [(relay, int(side), key, until) for key in ids]
        await self._database.write(lambda conn: conn.executemany(_INSERT, rows).close())

    async def forget_ended(self, now: int) -> None:
        """Remove what ended."""

        def write(conn: sqlite3.Connection) -> None:
            conn.execute("DELETE FROM sync_tried WHERE until <= ?", (now,))
            conn.execute("DELETE FROM sync_refusal WHERE until <= ?", (now,))

        await self._database.write(write)


def _within(count: int) -> str:
    marks = ",".join("?" * count)
    where = f"relay = ? AND side = ? AND id IN ({marks}) AND until > ?"
    return f"SELECT id FROM sync_tried WHERE {where}"
