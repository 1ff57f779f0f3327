"""Stores the agent's own state beside events, claims and watches: syncs, alerts, last runs.

Functions over a connection, inside the caller's transaction. Times are Unix seconds.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from agent.specs import StoredNames
from nostr_client.store.file.migrate import Schema, run_script
from nostr_client.watch import repository
from nostr_client.watch.definition import Watch

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable

    from agent.specs import SyncSpec

WATCH: Final = "watch"
SYNC: Final = "sync"


_TABLES: Final = """
CREATE TABLE agent_spec (
    kind TEXT, name TEXT, spec TEXT NOT NULL, at INTEGER NOT NULL, PRIMARY KEY (kind, name)
) WITHOUT ROWID;
CREATE TABLE agent_alert (
    watch TEXT, line TEXT, crossed_at REAL NOT NULL, PRIMARY KEY (watch, line)
) WITHOUT ROWID;
CREATE TABLE agent_note (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID
"""

AGENT: Final = Schema("nostr_tally_agent", partial(run_script, script=_TABLES))


def specs(conn: sqlite3.Connection, kind: str) -> list[str]:
    """The JSON of every stored spec of a kind, by name."""
    if kind == WATCH:
        return repository.definitions(conn)
    sql = "SELECT spec FROM agent_spec WHERE kind = ? ORDER BY name"
    return [text for (text,) in conn.execute(sql, (kind,))]


def put_spec(conn: sqlite3.Connection, kind: str, spec: Watch | SyncSpec, at: float) -> None:
    """Add or replace a spec. Raises InvalidInput."""
    if isinstance(spec, Watch):
        put_watch(conn, spec)
        return
    text = msgspec.json.encode(spec).decode()
    sql = "INSERT OR REPLACE INTO agent_spec VALUES (?, ?, ?, ?)"
    conn.execute(sql, (kind, spec.name, text, int(at)))


def put_watch(conn: sqlite3.Connection, watch: Watch, *, is_file: bool = False) -> None:
    """Add or replace a watch. Raises InvalidInput."""
    if repository.put(conn, watch, is_file=is_file):  # lines that another question's number crossed
        conn.execute("DELETE FROM agent_alert WHERE watch = ?", (watch.name,))


def added(conn: sqlite3.Connection, kind: str) -> frozenset[str]:
    """Names of a kind that the configuration file did not add."""
    if kind == WATCH:
        return repository.added(conn)
    sql = "SELECT name FROM agent_spec WHERE kind = ?"
    return frozenset(name for (name,) in conn.execute(sql, (kind,)))


def all_added(conn: sqlite3.Connection) -> StoredNames:
    """Names that the configuration file did not add; none of a table that does not exist yet."""
    sql = "SELECT name FROM sqlite_schema WHERE name IN ('watch', 'agent_spec')"
    tables = {name for (name,) in conn.execute(sql)}
    return StoredNames(
        added(conn, WATCH) if "watch" in tables else frozenset(),
        added(conn, SYNC) if "agent_spec" in tables else frozenset(),
    )


def take_file(
    conn: sqlite3.Connection, kind: str, specs: Iterable[Watch | SyncSpec]
) -> frozenset[str]:
    """Store the watches of the configuration file, so that they have a history.

    Returns the names that added specs have; what is stored under those does not change.
    """
    taken = added(conn, kind)
    free = [one for one in specs if one.name not in taken]
    for one in free:
        if isinstance(one, Watch):
            put_watch(conn, one, is_file=True)
    return taken


def remove_spec(conn: sqlite3.Connection, kind: str, name: str) -> bool:
    """Remove a spec and its state; False if it did not exist."""
    if kind == WATCH:
        found = repository.remove(conn, name)
        conn.execute("DELETE FROM agent_alert WHERE watch = ?", (name,))
    else:
        sql = "DELETE FROM agent_spec WHERE kind = ? AND name = ?"
        found = conn.execute(sql, (kind, name)).rowcount > 0
    conn.execute("DELETE FROM agent_note WHERE key = ?", (f"{kind}:{name}",))
    return found


def crossed(conn: sqlite3.Connection, watch: str) -> set[str]:
    """The alert lines of a watch that are crossed at present."""
    return set(crossings(conn, watch))


def crossings(conn: sqlite3.Connection, watch: str) -> dict[str, float]:
    """When each alert line of a watch was crossed that is crossed at present."""
    sql = "SELECT line, crossed_at FROM agent_alert WHERE watch = ?"
    return dict(conn.execute(sql, (watch,)).fetchall())


def set_crossed(conn: sqlite3.Connection, watch: str, line: str, at: float, *, on: bool) -> None:
    """Store that a line was crossed, or that it no longer is."""
    if on:
        conn.execute("INSERT OR REPLACE INTO agent_alert VALUES (?, ?, ?)", (watch, line, at))
    else:
        conn.execute("DELETE FROM agent_alert WHERE watch = ? AND line = ?", (watch, line))


def note(conn: sqlite3.Connection, key: str, value: Any) -> None:
    """Store one JSON value under a key."""
    text = msgspec.json.encode(value).decode()
    conn.execute("INSERT OR REPLACE INTO agent_note VALUES (?, ?)", (key, text))


def notes(conn: sqlite3.Connection, prefix: str) -> dict[str, str]:
    """The JSON of every value whose key begins with `prefix`."""
    sql = "SELECT key, value FROM agent_note WHERE substr(key, 1, ?) = ?"
    return dict(conn.execute(sql, (len(prefix), prefix)).fetchall())
