"""Store failed attempts of a sync: events that did not move, and filters refused by NIP-77.

A row belongs to a relay and to the public key with which the sync signed AUTH ("" for none). The
row says when the next try is due, in Unix seconds. It stays for a while after this time, so that
the waits can double.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from nostr_client.store.file.migrate import Schema, run_script
from nostr_client.store.lookup import chunks

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Mapping, Sequence

    from nostr_client.store.file.database import Database

KEPT_AFTER: Final = 2 * 86_400
"""Seconds for which a row stays after its next try is due: twice the longest doubled wait."""

_TABLES = """
CREATE TABLE sync_event (
    relay TEXT NOT NULL,
    key TEXT NOT NULL,
    side INTEGER NOT NULL,
    id BLOB NOT NULL,
    verdict TEXT NOT NULL,
    reason TEXT NOT NULL,
    tries INTEGER NOT NULL,
    until INTEGER NOT NULL,
    PRIMARY KEY (relay, key, side, id)
) STRICT, WITHOUT ROWID;
CREATE TABLE sync_filter (
    relay TEXT NOT NULL,
    key TEXT NOT NULL,
    scope TEXT NOT NULL,
    reason TEXT NOT NULL,
    tries INTEGER NOT NULL,
    until INTEGER NOT NULL,
    PRIMARY KEY (relay, key, scope)
) STRICT, WITHOUT ROWID;
"""
_ANY = "SELECT 1 FROM sync_event WHERE relay = ? LIMIT 1"
_NOTE = (
    "INSERT INTO sync_event VALUES (?1, ?2, ?3, ?4, ?5, ?6, 1, ?7 + min(?8, ?9))"
    " ON CONFLICT DO UPDATE SET verdict = ?5, reason = ?6, tries = tries + 1,"
    " until = ?7 + min(?9, ?8 * (1 << min(tries, 40)))"
)
_REFUSE = (
    "INSERT INTO sync_filter VALUES (?1, ?2, ?3, ?4, 1, ?5 + min(?6, ?7))"
    " ON CONFLICT DO UPDATE SET reason = ?4, tries = tries + 1,"
    " until = ?5 + min(?7, ?6 * (1 << min(tries, 40)))"
)
_REFUSAL = (
    "SELECT reason FROM sync_filter WHERE relay = ? AND key = ? AND scope IN ('', ?) AND until > ?"
    " ORDER BY scope LIMIT 1"
)
_SUMMARY = """
SELECT relay, key, side, verdict, reason, count(*), min(until) FROM sync_event
 WHERE until > ? GROUP BY relay, key, side, verdict, reason
 ORDER BY relay, key, side, verdict, count(*) DESC, reason
"""
_FILTERS = (
    "SELECT relay, key, scope, reason, until FROM sync_filter WHERE until > ?"
    " ORDER BY relay, key, scope"
)


SYNC: Final = Schema("nostr_tally.sync", partial(run_script, script=_TABLES))


class TriedRow(NamedTuple):
    """Row about one event. `until` is in Unix seconds."""

    verdict: str
    reason: str
    tries: int
    until: int


class TriedEvents(NamedTuple):
    """Number of events of one relay, key, side, verdict and reason.

    `side` is 0 for download and 1 for upload. Times are in Unix seconds.
    """

    relay: str
    key: str
    side: int
    verdict: str
    reason: str
    events: int
    first_due: int


class TriedFilter(NamedTuple):
    """Filter that one relay does not compare by NIP-77.

    If `scope` is "", the relay compares no filter at all.
    """

    relay: str
    key: str
    scope: str
    reason: str
    until: int


class TriedTable:
    """The tables `sync_event` and `sync_filter` of one database. Raises StoreError."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def refusal(self, relay: str, key: str, scope: str, now: int) -> str | None:
        """Return why the relay does not compare the scope, or any filter.

        Returns None if it may be tried.
        """
        found = await self._database.read(
            lambda conn: conn.execute(_REFUSAL, (relay, key, scope, now)).fetchone()
        )
        return None if found is None else str(found[0])

    async def refuse(
        self, relay: str, key: str, scope: str, reason: str, now: int, wait: tuple[int, int]
    ) -> None:
        """Note a refusal. `wait` is the first and the longest wait in seconds."""
        row = (relay, key, scope, reason, now, *wait)
        await self._database.write(lambda conn: conn.execute(_REFUSE, row).close())

    async def compares(self, relay: str, key: str, scope: str) -> None:
        """Delete refusals of this scope, because the relay compared it."""
        sql = "DELETE FROM sync_filter WHERE relay = ? AND key = ? AND scope IN ('', ?)"
        await self._database.write(lambda conn: conn.execute(sql, (relay, key, scope)).close())

    async def tried(
        self, places: Sequence[tuple[str, str]], side: int, ids: Sequence[bytes]
    ) -> dict[bytes, TriedRow]:
        """Return the rows of these ids for the pairs (relay, key), including rows that are due."""

        def read(conn: sqlite3.Connection) -> dict[bytes, TriedRow]:
            known = [one for one in places if conn.execute(_ANY, (one[0],)).fetchone()]
            return {
                key: TriedRow(*rest)
                for place in known
                for chunk in chunks(ids)
                for key, *rest in conn.execute(_within(len(chunk)), (*place, int(side), *chunk))
            }

        return await self._database.read(read)

    async def note(
        self,
        place: tuple[str, str],
        side: int,
        notes: Mapping[bytes, tuple[str, str, tuple[int, int]]],
        now: int,
    ) -> None:
        """Note verdict, reason and (first, longest) wait of some ids, and delete old rows."""
        rows = [
            (*place, int(side), key, verdict, reason, now, *wait)
            for key, (verdict, reason, wait) in notes.items()
        ]

        def write(conn: sqlite3.Connection) -> None:
            for table in ("sync_event", "sync_filter"):
                conn.execute(f"DELETE FROM {table} WHERE until < ?", (now - KEPT_AFTER,))
            conn.executemany(_NOTE, rows)

        await self._database.write(write)

    async def forget(self, place: tuple[str, str], side: int, ids: Iterable[bytes]) -> None:
        """Delete the rows of ids that have moved."""
        rows = [(*place, int(side), key) for key in ids]
        sql = "DELETE FROM sync_event WHERE relay = ? AND key = ? AND side = ? AND id = ?"
        await self._database.write(lambda conn: conn.executemany(sql, rows).close())

    async def summary(self, now: int) -> tuple[list[TriedEvents], list[TriedFilter]]:
        """Return all rows whose next try is not due, by relay, key, side, verdict and reason."""

        def read(conn: sqlite3.Connection) -> tuple[list[TriedEvents], list[TriedFilter]]:
            events = [TriedEvents(*row) for row in conn.execute(_SUMMARY, (now,))]
            return events, [TriedFilter(*row) for row in conn.execute(_FILTERS, (now,))]

        return await self._database.read(read)

    async def clear(self, relays: Sequence[str] | None = None) -> int:
        """Delete all rows, or all rows of some relays. Return their number."""

        def write(conn: sqlite3.Connection) -> int:
            gone = 0
            for table in ("sync_event", "sync_filter"):
                if relays is None:
                    gone += conn.execute(f"DELETE FROM {table}").rowcount
                for relay in relays or ():
                    gone += conn.execute(f"DELETE FROM {table} WHERE relay = ?", (relay,)).rowcount
            return gone

        return await self._database.write(write)


def _within(count: int) -> str:
    marks = ",".join("?" * count)
    where = f"relay = ? AND key = ? AND side = ? AND id IN ({marks})"
    return f"SELECT id, verdict, reason, tries, until FROM sync_event WHERE {where}"
