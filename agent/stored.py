"""What the agent keeps in the store beside events and claims: specs, history, alerts, last runs.

Functions over a connection, inside the caller's transaction. Times are Unix seconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
from sqlite_utils.migrations import Migrations

from agent.api.schema import Point

if TYPE_CHECKING:
    import sqlite3

    from sqlite_utils import Database as SqliteUtils

AGENT: Final = Migrations("nostr_tally_agent")

HOUR: Final = 3600
DAY: Final = 86_400

STEPS: Final = {"raw": 60, "hour": HOUR, "day": DAY}
"""Seconds that one kept point stands for: the last one of each is kept."""

KEEP: Final = {"raw": 2 * DAY, "hour": 92 * DAY}
"""How long they are kept; days are kept for ever."""


@AGENT()
def first_tables(db: SqliteUtils) -> None:
    db.conn.execute(
        "CREATE TABLE agent_spec (kind TEXT, name TEXT, spec TEXT NOT NULL, at INTEGER NOT NULL,"
        " PRIMARY KEY (kind, name)) WITHOUT ROWID"
    )
    db.conn.execute(
        "CREATE TABLE agent_history (watch TEXT, step TEXT, slot INTEGER, at REAL NOT NULL,"
        " value INTEGER NOT NULL, low INTEGER NOT NULL, high INTEGER, exact INTEGER NOT NULL,"
        " PRIMARY KEY (watch, step, slot)) WITHOUT ROWID"
    )
    db.conn.execute(
        "CREATE TABLE agent_alert (watch TEXT, line TEXT, crossed_at REAL NOT NULL,"
        " PRIMARY KEY (watch, line)) WITHOUT ROWID"
    )
    db.conn.execute(
        "CREATE TABLE agent_note (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID"
    )


class Moved(NamedTuple):
    """How far a number moved over a time, and its newest values."""

    changes: dict[str, int]
    spark: tuple[int, ...]


def specs(conn: sqlite3.Connection, kind: str) -> list[str]:
    """The JSON of every stored spec of a kind, by name."""
    sql = "SELECT spec FROM agent_spec WHERE kind = ? ORDER BY name"
    return [text for (text,) in conn.execute(sql, (kind,))]


def put_spec(conn: sqlite3.Connection, kind: str, name: str, spec: str, at: float) -> None:
    """Add or replace a spec."""
    sql = "INSERT OR REPLACE INTO agent_spec VALUES (?, ?, ?, ?)"
    conn.execute(sql, (kind, name, spec, int(at)))


def remove_spec(conn: sqlite3.Connection, kind: str, name: str) -> bool:
    """Remove a spec and what was kept for it; False if it was not there."""
    sql = "DELETE FROM agent_spec WHERE kind = ? AND name = ?"
    found = conn.execute(sql, (kind, name)).rowcount > 0
    if kind == "watch":
        conn.execute("DELETE FROM agent_history WHERE watch = ?", (name,))
        conn.execute("DELETE FROM agent_alert WHERE watch = ?", (name,))
    conn.execute("DELETE FROM agent_note WHERE key = ?", (f"{kind}:{name}",))
    return found


def add_point(conn: sqlite3.Connection, watch: str, point: Point) -> None:
    """Keep a number: it is the last of its minute, its hour and its day so far."""
    row = (point.at, point.value, point.low, point.high, point.exact)
    conn.executemany(
        "INSERT OR REPLACE INTO agent_history VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        [(watch, step, int(point.at // size), *row) for step, size in STEPS.items()],
    )


def history(
    conn: sqlite3.Connection, watch: str, since: float, limit: int, now: float
) -> list[Point]:
    """The newest `limit` points since a time, oldest first: fine ones where they are still kept."""
    raw, hour = now - KEEP["raw"], now - KEEP["hour"]
    sql = (
        "SELECT at, value, low, high, exact FROM agent_history WHERE watch = ? AND at >= ?"
        " AND (step = 'raw' AND at >= ? OR step = 'hour' AND at >= ? AND at < ?"
        " OR step = 'day' AND at < ?) ORDER BY at DESC LIMIT ?"
    )
    rows = conn.execute(sql, (watch, since, raw, hour, raw, hour, limit)).fetchall()
    return [
        Point(at=at, value=value, low=low, high=high, exact=bool(exact))
        for at, value, low, high, exact in reversed(rows)
    ]


def values_since(conn: sqlite3.Connection, watch: str, since: float) -> list[tuple[float, int]]:
    """Times and values of the points since a time, for rates."""
    sql = "SELECT DISTINCT at, value FROM agent_history WHERE watch = ? AND at >= ? ORDER BY at"
    return conn.execute(sql, (watch, since)).fetchall()


def moved(conn: sqlite3.Connection, watch: str, value: int, now: float) -> Moved:
    """How a number changed over an hour, a day and a week, where it was known then."""
    changes: dict[str, int] = {}
    for name, span in (("1h", HOUR), ("1d", DAY), ("1w", 7 * DAY)):
        sql = (
            "SELECT value FROM agent_history WHERE watch = ? AND at <= ? AND at > ?"
            " ORDER BY at DESC LIMIT 1"
        )
        row = conn.execute(sql, (watch, now - span, now - 2 * span)).fetchone()
        if row is not None:
            changes[name] = value - row[0]
    sql = "SELECT value FROM agent_history WHERE watch = ? AND step = 'hour' ORDER BY slot DESC"
    rows = conn.execute(f"{sql} LIMIT 24", (watch,)).fetchall()
    return Moved(changes, tuple(v for (v,) in reversed(rows)))


def thin(conn: sqlite3.Connection, now: float, most: int) -> int:
    """Remove points that are finer than their age allows, at most `most`; how many went."""
    gone = 0
    for step, kept in KEEP.items():
        sql = "SELECT watch, step, slot FROM agent_history WHERE step = ? AND slot < ? LIMIT ?"
        oldest = int((now - kept) // STEPS[step])
        rows = conn.execute(sql, (step, oldest, most)).fetchall()
        conn.executemany(
            "DELETE FROM agent_history WHERE watch = ? AND step = ? AND slot = ?", rows
        )
        gone += len(rows)
    return gone


def crossed(conn: sqlite3.Connection, watch: str) -> set[str]:
    """The alert lines of a watch that are crossed at present."""
    sql = "SELECT line FROM agent_alert WHERE watch = ?"
    return {line for (line,) in conn.execute(sql, (watch,))}


def set_crossed(conn: sqlite3.Connection, watch: str, line: str, at: float, *, on: bool) -> None:
    """Remember that a line was crossed, or that it is no more."""
    if on:
        conn.execute("INSERT OR REPLACE INTO agent_alert VALUES (?, ?, ?)", (watch, line, at))
    else:
        conn.execute("DELETE FROM agent_alert WHERE watch = ? AND line = ?", (watch, line))


def note(conn: sqlite3.Connection, key: str, value: Any) -> None:
    """Keep one JSON value under a key."""
    text = msgspec.json.encode(value).decode()
    conn.execute("INSERT OR REPLACE INTO agent_note VALUES (?, ?)", (key, text))


def notes(conn: sqlite3.Connection, prefix: str) -> dict[str, str]:
    """The JSON of every value whose key begins with `prefix`."""
    sql = "SELECT key, value FROM agent_note WHERE substr(key, 1, ?) = ?"
    return dict(conn.execute(sql, (len(prefix), prefix)).fetchall())


def last_asked(conn: sqlite3.Connection) -> dict[tuple[str, str], float]:
    """When each relay was last asked each question: key of the question, URL, time."""
    sql = (
        "SELECT key, url, max(asked_at) FROM claim JOIN claim_query USING (q)"
        " JOIN claim_relay USING (r) WHERE asked_at IS NOT NULL GROUP BY q, r"
    )
    return {(key, url): at for key, url, at in conn.execute(sql)}
