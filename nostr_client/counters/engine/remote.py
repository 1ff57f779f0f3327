"""Sources in other stores: what is known of each, and whether it may be read.

Each is known by its configured name, which is its name in source maps: it stays the same when the
other store is put back from a backup, moves, or is made again.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, NamedTuple

from nostr_client.counters import lineage
from nostr_client.counters.engine import served
from nostr_client.counters.lineage import LineageConflict, StreamPosition
from nostr_client.errors import CounterError

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable

    from nostr_client.counters.config import SourceConfig
    from nostr_client.counters.engine.session import ConfiguredStream, CounterSession
    from nostr_client.counters.lineage import Way


class Remote(NamedTuple):
    """A source as it is configured: the stream that it flows into, what it may bring, how much."""

    stream: str
    config: SourceConfig
    most_subjects: int = 10_000

    @property
    def name(self) -> str:
        return self.config.name


class SourceRecord(NamedTuple):
    """What is kept of a source, in the order of COLUMNS; see `schema`."""

    name: str
    stream: int
    cursor: int
    store: str
    epoch: str
    run: str
    runs: str
    seq: int
    version_at: int
    version_id: str
    lineage: str
    pending: str
    accepted: str
    subjects: int
    moved: int
    gaps: int
    lost: int
    left_out: int
    last_subject: str
    last_value: str | None
    changed: int | None

    @property
    def mark(self) -> StreamPosition:
        return StreamPosition(self.store, self.epoch, self.run, self.seq)

    @property
    def ways(self) -> tuple[Way, ...]:
        return tuple(tuple(way) for way in json.loads(self.lineage))


COLUMNS: Final = ", ".join(SourceRecord._fields)


class ParkedMessage(NamedTuple):
    """A message that could not be taken; `value` None: it is none, or too long to keep."""

    subject: str
    seq: int
    value: str | None
    why: str


def known(conn: sqlite3.Connection, name: str) -> SourceRecord | None:
    row = conn.execute(f"SELECT {COLUMNS} FROM counter_remote WHERE name = ?", (name,)).fetchone()
    return SourceRecord(*row) if row else None


def parked(conn: sqlite3.Connection, name: str, limit: int = 100) -> list[ParkedMessage]:
    rows = conn.execute(
        "SELECT subject, seq, val, why FROM counter_parked WHERE name = ? ORDER BY seq LIMIT ?",
        (name, limit),
    )
    return [ParkedMessage(*row) for row in rows]


def count_parked(conn: sqlite3.Connection, name: str) -> int:
    (n,) = conn.execute("SELECT count(*) FROM counter_parked WHERE name = ?", (name,)).fetchone()
    return int(n)


def configure(conn: sqlite3.Connection, names: Iterable[str]) -> None:
    """Say which sources there are now; the others keep what they brought, and their place."""
    conn.execute("UPDATE counter_remote SET active = 0")
    conn.executemany(
        "UPDATE counter_remote SET active = 1 WHERE name = ?", [(name,) for name in names]
    )


def forget(conn: sqlite3.Connection, stream: int) -> None:
    """A stream goes: so does all that is known of its sources, and of where runs began in it."""
    conn.execute(
        "DELETE FROM counter_parked WHERE name IN"
        " (SELECT name FROM counter_remote WHERE stream = ?)",
        (stream,),
    )
    conn.execute("DELETE FROM counter_remote WHERE stream = ?", (stream,))
    conn.execute("DELETE FROM counter_run_start WHERE stream = ?", (stream,))


def confirm(conn: sqlite3.Connection, name: str) -> bool:
    """Let a source go on whose values fell; False where none waits for that."""
    changed = conn.execute(
        "UPDATE counter_remote SET accepted = pending WHERE name = ? AND pending <> ''", (name,)
    )
    return changed.rowcount > 0


def enroll(session: CounterSession, stream: ConfiguredStream, remote: Remote) -> SourceRecord:
    """What is known of a source; a new one is written down.

    Raises CounterError where it flowed into another stream before: what it brought is there.
    """
    if remote.name in stream.upstream:
        text = f"{remote.name} is a stream here that flows into {stream.name} already"
        raise CounterError(text, code=0)
    found = known(session.conn, remote.name)
    cursor = _cursor(session, stream, remote.config)
    if found is None:
        session.conn.execute(
            "INSERT INTO counter_remote (name, stream, cursor) VALUES (?, ?, ?)",
            (remote.name, stream.id, cursor),
        )
        found = known(session.conn, remote.name)
        assert found is not None
    if found.stream != stream.id:
        text = f"{remote.name} has brought its counts to another stream: give it another name"
        raise CounterError(text, code=0)
    if found.cursor != cursor:
        change(session.conn, remote.name, cursor=cursor)
    return found


def _cursor(session: CounterSession, stream: ConfiguredStream, config: SourceConfig) -> int:
    """The row that messages point to, for their Nats-Stream-Source."""
    key = (stream.id, config.name, config.filters, config.destinations)
    session.conn.execute(
        "INSERT OR IGNORE INTO counter_source_cursor"
        " (stream, name, filters, destinations, epoch, seq) VALUES (?, ?, ?, ?, '', 0)",
        key,
    )
    (id,) = session.conn.execute(
        "SELECT id FROM counter_source_cursor"
        " WHERE stream = ? AND name = ? AND filters = ? AND destinations = ?",
        key,
    ).fetchone()
    return int(id)


def change(conn: sqlite3.Connection, name: str, **fields: object) -> None:
    """Set columns of a source; their names are ours."""
    columns = ", ".join(f"{column} = ?" for column in fields)
    conn.execute(f"UPDATE counter_remote SET {columns} WHERE name = ?", (*fields.values(), name))


def refused(
    session: CounterSession, stream: ConfiguredStream, name: str, ways: tuple[Way, ...]
) -> LineageConflict | None:
    """Why a source with this lineage may not flow into a stream, or into what that flows into."""
    for target in (stream.name, *_below(session, stream.name)):
        into = served.joined_ways(session.conn, session.catalog, target, {name: ways})
        if len(into) > lineage.MOST_WAYS:
            return LineageConflict(
                f"more than {lineage.MOST_WAYS} ways would lead into {target}", ()
            )
        found = lineage.trouble(into)
        if found is not None:
            return found
    return None


def _below(session: CounterSession, name: str) -> list[str]:
    """The streams of this store that a stream flows into, near ones first."""
    found: list[str] = []
    waiting = [name]
    while waiting:
        for stream in session.catalog.downstream(waiting.pop(0)):
            if stream.name not in found and stream.name != name:
                found.append(stream.name)
                waiting.append(stream.name)
    return found
