"""Record sources in other stores, and decide whether a stream may read them.

A source is identified by its configured name, which is also its name in source maps. The name stays
the same if the other store is restored from a backup, moves, or is created again.
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
    """Configuration of a source: the stream that reads it, its filters, and its most subjects."""

    stream: str
    config: SourceConfig
    most_subjects: int = 10_000

    @property
    def name(self) -> str:
        return self.config.name


class SourceRecord(NamedTuple):
    """Row of a source, in the order of COLUMNS. `schema` describes the columns."""

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
    """Message that could not be applied.

    `value` is None if the message has no value or a too long one.
    """

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
    """Set which sources are configured.

    Other sources become inactive, and keep their counts and their position.
    """
    conn.execute("UPDATE counter_remote SET active = 0")
    conn.executemany(
        "UPDATE counter_remote SET active = 1 WHERE name = ?", [(name,) for name in names]
    )


def forget(conn: sqlite3.Connection, stream: int) -> None:
    """Delete all records about a stream that is deleted: its sources and the starts of its runs."""
    conn.execute(
        "DELETE FROM counter_parked WHERE name IN"
        " (SELECT name FROM counter_remote WHERE stream = ?)",
        (stream,),
    )
    conn.execute("DELETE FROM counter_remote WHERE stream = ?", (stream,))
    conn.execute("DELETE FROM counter_run_start WHERE stream = ?", (stream,))


def confirm(conn: sqlite3.Connection, name: str) -> bool:
    """Confirm that the values of a source fell, so that reading continues.

    Returns False if the source does not wait for a confirmation.
    """
    changed = conn.execute(
        "UPDATE counter_remote SET accepted = pending WHERE name = ? AND pending <> ''", (name,)
    )
    return changed.rowcount > 0


def enroll(session: CounterSession, stream: ConfiguredStream, remote: Remote) -> SourceRecord:
    """Return the record of a source, and create it for a new source.

    Raises CounterError if the source was read into another stream before, because its counts are
    there.
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
    """Return the row to which messages point for their Nats-Stream-Source."""
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
    """Set columns of a source. The column names must come from our code."""
    columns = ", ".join(f"{column} = ?" for column in fields)
    conn.execute(f"UPDATE counter_remote SET {columns} WHERE name = ?", (*fields.values(), name))


def refused(
    session: CounterSession, stream: ConfiguredStream, name: str, ways: tuple[Way, ...]
) -> LineageConflict | None:
    """Return why a source with these paths must not be read into a stream.

    This also checks the streams that read this stream.
    """
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
    """Return the streams of this store that read a stream, also indirectly, near ones first."""
    found: list[str] = []
    waiting = [name]
    while waiting:
        for stream in session.catalog.downstream(waiting.pop(0)):
            if stream.name not in found and stream.name != name:
                found.append(stream.name)
                waiting.append(stream.name)
    return found
