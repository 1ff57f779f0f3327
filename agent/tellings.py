"""Alerts that wait to be told, kept in the store: a restart neither loses nor repeats them.

An alert is put in with the line that it crossed, in one transaction, and taken out when it was told
or given up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from agent.specs import AlertSpec
from nostr_client.store.migrations import Migrations

if TYPE_CHECKING:
    import sqlite3


TELLINGS: Final = Migrations("nostr_tally_agent_alerts")


@TELLINGS()
def first_tables(conn: sqlite3.Connection) -> None:
    conn.execute(
        "CREATE TABLE agent_telling (id TEXT PRIMARY KEY, watch TEXT NOT NULL, alert TEXT NOT NULL,"
        " body BLOB NOT NULL, at REAL NOT NULL, attempts INTEGER NOT NULL DEFAULT 0)"
    )


class Telling(msgspec.Struct, frozen=True):
    """One alert to be told; `attempts` have failed so far."""

    id: str
    watch: str
    alert: AlertSpec
    body: bytes
    at: float
    attempts: int = 0


def put(conn: sqlite3.Connection, one: Telling) -> None:
    """Keep an alert until it is told."""
    alert = msgspec.json.encode(one.alert).decode()
    row = (one.id, one.watch, alert, one.body, one.at, one.attempts)
    conn.execute("INSERT INTO agent_telling VALUES (?, ?, ?, ?, ?, ?)", row)


def waiting(conn: sqlite3.Connection) -> list[Telling]:
    """Every alert that waits, the oldest first; those of a form that is gone are dropped."""
    sql = "SELECT id, watch, alert, body, at, attempts FROM agent_telling ORDER BY at"
    found = []
    for id_, watch, alert, body, at, attempts in conn.execute(sql):
        try:
            spec = msgspec.json.decode(alert, type=AlertSpec)
        except msgspec.MsgspecError:
            continue
        found.append(Telling(id_, watch, spec, body, at, attempts))
    return found


def failed(conn: sqlite3.Connection, id_: str, attempts: int) -> None:
    """Another attempt came to nothing."""
    conn.execute("UPDATE agent_telling SET attempts = ? WHERE id = ?", (attempts, id_))


def remove(conn: sqlite3.Connection, id_: str) -> None:
    """It was told, or is given up."""
    conn.execute("DELETE FROM agent_telling WHERE id = ?", (id_,))
