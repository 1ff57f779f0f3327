"""The watches of a store: the one place that reads and writes their table.

A watch enters with its definition, and leaves with the time and the relays of its last round. Its
numbers are in `points`. Functions work over a connection, in the caller's transaction;
`WatchRepository` has the same for callers without one. Times are Unix seconds. A watch of a
configuration file has a row too, for its numbers; its definition stays in the file.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final, Self

import msgspec

from nostr_client.count.claims import CLAIMS, ClaimBook
from nostr_client.count.merge import CountUnit
from nostr_client.count.remembering import asked_of
from nostr_client.errors import InvalidInput
from nostr_client.store.file.database import Database
from nostr_client.store.file.migrate import Schema, run_script
from nostr_client.store.schema import STORE
from nostr_client.watch import points, within_rows
from nostr_client.watch.definition import Watch
from nostr_client.watch.history import HOUR, LEVELS

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence
    from pathlib import Path
    from types import TracebackType

    from nostr_client.count.figures import Within
    from nostr_client.count.queries import Query
    from nostr_client.watch.history import Point

_TABLES: Final = """
CREATE TABLE watch (
    w INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    definition TEXT NOT NULL,
    is_file INTEGER NOT NULL DEFAULT 0,
    asked_at INTEGER,
    relays TEXT
) STRICT;
"""

WATCHES: Final = Schema(
    "nostr_tally.watches",
    partial(run_script, script=_TABLES + points.TABLE),
    also=(within_rows.WITHIN,),
)

_CURRENT: Final = "instr(name, '/') = 0"
"""Rows of watches, not of their earlier questions."""

# Definitions.


def add(conn: sqlite3.Connection, watch: Watch) -> None:
    """Store a new watch. Raises InvalidInput for an invalid watch, or a name in use."""
    watch.check()
    if _number(conn, watch.name) is not None:
        raise InvalidInput(f"there is a watch named {watch.name!r} already")
    put(conn, watch)


def put(conn: sqlite3.Connection, watch: Watch, *, is_file: bool = False) -> bool:
    """Store a watch; it replaces one of the same name. Return whether its question changed.

    A new question begins its own history. The history of the previous question is set aside, and
    comes back when the watch asks that question again.
    """
    key = question_key(watch.question)
    before = _asked_now(conn, watch.name)
    if before != key:
        rename = "UPDATE watch SET name = ? WHERE name = ?"
        conn.execute(rename, (_aside(watch.name, before), watch.name))
        conn.execute(rename, (watch.name, _aside(watch.name, key)))
    definition = msgspec.json.encode(watch).decode()
    sql = (
        "INSERT INTO watch (name, definition, is_file) VALUES (?, ?, ?) ON CONFLICT DO UPDATE"
        " SET definition = excluded.definition, is_file = excluded.is_file"
    )
    conn.execute(sql, (watch.name, definition, is_file))
    return bool(before) and before != key


def definitions(conn: sqlite3.Connection) -> list[str]:
    """Return the JSON of every watch outside files, by name; some may be unreadable."""
    sql = f"SELECT definition FROM watch WHERE {_CURRENT} AND NOT is_file ORDER BY name"
    return [text for (text,) in conn.execute(sql)]


def added(conn: sqlite3.Connection) -> frozenset[str]:
    """Return the names of the watches outside files, unreadable ones included."""
    sql = f"SELECT name FROM watch WHERE {_CURRENT} AND NOT is_file"
    return frozenset(name for (name,) in conn.execute(sql))


def _asked_now(conn: sqlite3.Connection, name: str) -> str:
    """Return the key of the question that a watch asks; "" if missing or unreadable."""
    row = conn.execute("SELECT definition FROM watch WHERE name = ?", (name,)).fetchone()
    return "" if row is None else _key_of(row[0])


@lru_cache(8192)
def _key_of(definition: str) -> str:
    """Return the key of the question of a definition; "" if it is unreadable."""
    try:
        return question_key(_watch(definition).question)
    except InvalidInput:
        return ""


def question_key(query: Query) -> str:
    """Return the key of a question's history: two questions may share claims, and differ in the
    unit."""
    key = asked_of(query).key
    of_events = query.offset is not None and query.unit is CountUnit.EVENTS
    return f"{key} {CountUnit.EVENTS}" if of_events else key


def _aside(name: str, key: str) -> str:
    """Where the history of a question is kept that a watch asks no more: no name has a slash."""
    return f"{name}/{hashlib.sha256(key.encode()).hexdigest()[:16]}"


def watches(conn: sqlite3.Connection) -> list[tuple[Watch, int | None]]:
    """All watches by name, each with the time when it was last asked."""
    rows = conn.execute(f"SELECT definition, asked_at FROM watch WHERE {_CURRENT} ORDER BY name")
    return [(_watch(text), asked) for text, asked in rows]


@lru_cache(8192)
def _watch(definition: str) -> Watch:
    try:
        return msgspec.json.decode(definition, type=Watch)
    except msgspec.MsgspecError as error:
        raise InvalidInput(f"not a watch: {error}") from error


def asked_at(conn: sqlite3.Connection, name: str) -> int | None:
    """When a watch was last asked, Unix seconds; None for never."""
    row = conn.execute("SELECT asked_at FROM watch WHERE name = ?", (name,)).fetchone()
    return None if row is None or row[0] is None else int(row[0])


def asked_times(conn: sqlite3.Connection) -> dict[str, int]:
    """Return by name when each watch was last asked; without those that never were."""
    sql = f"SELECT name, asked_at FROM watch WHERE {_CURRENT} AND asked_at IS NOT NULL"
    return dict(conn.execute(sql).fetchall())


def relays(conn: sqlite3.Connection, name: str) -> tuple[str, ...] | None:
    """Return the relays that a watch last asked, as they were spelled; None if not recorded.

    Watches that were never asked, or only by an older version, have no record.
    """
    row = conn.execute("SELECT relays FROM watch WHERE name = ?", (name,)).fetchone()
    return None if row is None or row[0] is None else tuple(msgspec.json.decode(row[0]))


def remove(conn: sqlite3.Connection, name: str) -> bool:
    """Remove a watch and its history, including previous questions; return False if it does not
    exist."""
    if _number(conn, name) is None:
        return False
    sql = "SELECT w FROM watch WHERE name = ?1 OR substr(name, 1, length(?1) + 1) = ?1 || '/'"
    for w in conn.execute(sql, (name,)).fetchall():
        points.remove(conn, *w)
        conn.execute("DELETE FROM watch WHERE w = ?", w)
    return True


# Rounds.


def asked(
    conn: sqlite3.Connection,
    name: str,
    at: int,
    point: Point | None,
    *,
    query: Query | None = None,
    relays: Sequence[str] | None = None,
) -> None:
    """Record that a watch was asked, and its number, if it gave one; fold old points.

    `query`: the question; nothing is recorded if the watch asks another one by now. `relays`: the
    relays that were asked.
    """
    sql = "SELECT w, asked_at, definition FROM watch WHERE name = ?"
    row = conn.execute(sql, (name,)).fetchone()
    if row is None:
        return  # removed while it was asked
    w, last, definition = row
    if query is not None and _key_of(definition) != question_key(query):
        return
    whom = None if relays is None else msgspec.json.encode(relays).decode()
    sql = "UPDATE watch SET asked_at = ?, relays = coalesce(?, relays) WHERE w = ?"
    conn.execute(sql, (at, whom, w))
    if point is not None:
        points.note(conn, w, point)
    if last is None or last // HOUR != at // HOUR:  # points become old only at full hours
        points.thin(conn, w, at)


def counted_within(
    conn: sqlite3.Connection, name: str, found: Within, *, query: Query | None = None
) -> None:
    """Record the figure within a web beside the newest number of a watch: it came after it.

    `query`: the question; nothing is recorded if the watch asks another one by now.
    """
    if query is None or _asked_now(conn, name) == question_key(query):
        within_rows.put_newest(conn, name, LEVELS[0].step, found)


def _number(conn: sqlite3.Connection, name: str) -> int | None:
    row = conn.execute("SELECT w FROM watch WHERE name = ?", (name,)).fetchone()
    return None if row is None else int(row[0])


# The same for callers without a connection.


class WatchRepository:
    """Watches with their history and, in the same file, their claims.

    The tables of `WATCHES` and `claims.CLAIMS` must exist. Every method may raise StoreError and
    its kinds.
    """

    def __init__(self, database: Database) -> None:
        self.database = database
        self.claims = ClaimBook(database)

    @classmethod
    async def open(cls, path: str | Path, *, read_only: bool = False) -> Self:
        """Open a store file, or ":memory:"; raises as `Database.open`."""
        migrations = [STORE, CLAIMS, WATCHES]
        return cls(await Database.open(path, read_only=read_only, migrations=migrations))

    async def close(self) -> None:
        """Close the database; for an object that `open` made."""
        await self.database.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def add(self, watch: Watch) -> None:
        """Store a new watch. Raises InvalidInput for an invalid watch, or a name in use."""
        await self.database.write(lambda conn: add(conn, watch))

    async def set(self, watch: Watch) -> None:
        """Store a watch; it replaces one of the same name. Raises InvalidInput."""
        watch.check()
        await self.database.write(lambda conn: put(conn, watch))

    async def remove(self, name: str) -> bool:
        """Remove a watch and its history; return False if it does not exist. Its claims stay."""
        return await self.database.write(lambda conn: remove(conn, name))

    async def all(self) -> list[tuple[Watch, int | None]]:
        """Return all watches by name, each with the time when it was last asked (Unix seconds)."""
        return await self.database.read(watches)

    async def get(self, name: str) -> tuple[Watch, int | None] | None:
        """Return one watch, or None."""
        found = await self.all()
        return next((pair for pair in found if pair[0].name == name), None)

    async def relays(self, name: str) -> tuple[str, ...] | None:
        """Return the relays that a watch last asked, as spelled; None if unknown."""
        return await self.database.read(lambda conn: relays(conn, name))

    async def history(self, name: str, *, since: int = 0, until: int | None = None) -> list[Point]:
        """Return the series of a watch from `since` to `until` (Unix seconds), oldest first."""
        return await self.database.read(lambda conn: points.series(conn, name, since, until))
