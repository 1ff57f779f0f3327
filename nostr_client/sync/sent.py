"""Count how often each relay accepted an event in repairs.

An event lost twice is not sent again.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from nostr_client.store.file.migrate import Schema, run_script

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection

    from nostr_client.store.file.database import Database

_TABLE: Final = (
    "CREATE TABLE repair_sent (relay TEXT NOT NULL, id BLOB NOT NULL, times INTEGER NOT NULL,"
    " PRIMARY KEY (relay, id)) STRICT, WITHOUT ROWID"
)
REPAIRS: Final = Schema("nostr_tally.repairs", partial(run_script, script=_TABLE))

_TOOK: Final = (
    "INSERT INTO repair_sent VALUES (?, ?, 1)"
    " ON CONFLICT (relay, id) DO UPDATE SET times = times + 1"
)


class RepairAttempts(Protocol):
    """Counts by relay and id. `relay` is a normalised URL, and ids are hex."""

    async def times(self, relay: str) -> dict[str, int]:
        """Return how often the relay accepted each id."""
        ...

    async def took(self, relay: str, ids: Collection[str]) -> None:
        """Note that the relay accepted these ids once more."""
        ...


class LocalAttempts:
    """Keeps the counts until the process ends."""

    def __init__(self) -> None:
        self._times: dict[str, dict[str, int]] = {}

    async def times(self, relay: str) -> dict[str, int]:
        return dict(self._times.get(relay, {}))

    async def took(self, relay: str, ids: Collection[str]) -> None:
        known = self._times.setdefault(relay, {})
        known.update((key, known.get(key, 0) + 1) for key in ids)


class StoredAttempts:
    """Keeps the counts in the store's file, which has the tables of `REPAIRS`.

    Raises StoreError.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def times(self, relay: str) -> dict[str, int]:
        def read(conn: sqlite3.Connection) -> dict[str, int]:
            sql = "SELECT id, times FROM repair_sent WHERE relay = ?"
            return {bytes(key).hex(): times for key, times in conn.execute(sql, (relay,))}

        return await self._database.read(read)

    async def took(self, relay: str, ids: Collection[str]) -> None:
        rows = [(relay, bytes.fromhex(key)) for key in ids]
        await self._database.write(lambda conn: conn.executemany(_TOOK, rows).close())
