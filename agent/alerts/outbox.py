"""Stores alerts that wait to be delivered, one row for each channel.

One transaction adds a row and the crossed line; the row is removed when its channel has delivered
it or gives it up. So a restart neither loses nor repeats a delivery, and no channel depends on
another.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from agent.alerts.bodies import JSON, Alert, AlertBody, body_of
from nostr_client.store.file.migrate import Schema, run_script

if TYPE_CHECKING:
    import sqlite3

    from nostr_client.watch.definition import AlertSpec

_TABLE: Final = """
CREATE TABLE agent_delivery (
    id TEXT, channel TEXT, watch TEXT NOT NULL, line TEXT NOT NULL, target TEXT NOT NULL,
    kind TEXT NOT NULL, body BLOB NOT NULL, at REAL NOT NULL, attempts INTEGER NOT NULL,
    due REAL NOT NULL, PRIMARY KEY (id, channel)
)
"""

OUTBOX: Final = Schema("nostr_tally_agent_alerts", partial(run_script, script=_TABLE))

Channel = Literal["webhook", "command"]


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """One alert for one channel; `attempts` have failed so far. Times are Unix seconds.

    `target`: a webhook's URL, or a command as JSON. `line`: the condition that was met. `kind`:
    the media type of `body`. `at`: when the line was crossed; `due`: when to try next.
    """

    id: str
    channel: Channel
    watch: str
    line: str
    target: str
    body: bytes
    at: float
    kind: str = JSON
    attempts: int = 0
    due: float = 0.0

    @property
    def key(self) -> tuple[str, Channel]:
        """Distinguishes it from every other delivery."""
        return self.id, self.channel

    @property
    def command(self) -> tuple[str, ...]:
        """The program and its arguments, of a command."""
        found: tuple[str, ...] = msgspec.json.decode(self.target, type=tuple[str, ...])
        return found


def deliveries(crossing: Alert, alert: AlertSpec) -> list[Delivery]:
    """What each channel of an alert gets."""
    found = []
    if alert.webhook:
        body = body_of(crossing, alert.format)
        found.append(_delivery(crossing, "webhook", alert.webhook, body))
    if alert.command:
        target = msgspec.json.encode(alert.command).decode()
        found.append(_delivery(crossing, "command", target, body_of(crossing)))
    return found


def _delivery(crossing: Alert, channel: Channel, target: str, body: AlertBody) -> Delivery:
    return Delivery(
        id=crossing.id,
        channel=channel,
        watch=crossing.key,
        line=crossing.when,
        target=target,
        body=body.data,
        kind=body.kind,
        at=crossing.at,
        due=crossing.at,
    )


def put(conn: sqlite3.Connection, one: Delivery) -> None:
    """Keep a delivery until it is made or given up."""
    columns = ", ".join(_COLUMNS)
    marks = ", ".join("?" * len(_COLUMNS))
    row = tuple(getattr(one, column) for column in _COLUMNS)
    conn.execute(f"INSERT INTO agent_delivery ({columns}) VALUES ({marks})", row)


def waiting(conn: sqlite3.Connection) -> list[Delivery]:
    """Every delivery that waits, the oldest first."""
    sql = f"SELECT {', '.join(_COLUMNS)} FROM agent_delivery ORDER BY at, id, channel"
    return [Delivery(**dict(zip(_COLUMNS, row, strict=True))) for row in conn.execute(sql)]


def failed(conn: sqlite3.Connection, one: Delivery, due: float) -> None:
    """An attempt failed; the next one is due at a time."""
    sql = "UPDATE agent_delivery SET attempts = attempts + 1, due = ? WHERE id = ? AND channel = ?"
    conn.execute(sql, (due, *one.key))


def remove(conn: sqlite3.Connection, one: Delivery) -> None:
    """It was made, or is given up."""
    conn.execute("DELETE FROM agent_delivery WHERE id = ? AND channel = ?", one.key)


_COLUMNS: Final = Delivery.__struct_fields__
