"""Copy messages between the streams of one store: sources with the delta rule, and mirrors."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from nostr_client.counters import rules
from nostr_client.counters.engine import sourcemap
from nostr_client.counters.engine.admit import known_id
from nostr_client.counters.engine.publish import Origin, count, verbatim
from nostr_client.counters.engine.read import message_at
from nostr_client.counters.engine.rows import COLUMNS, FROM, MessageRow
from nostr_client.counters.rules import is_integer
from nostr_client.errors import CounterError

if TYPE_CHECKING:
    from nostr_client.counters.config import SourceConfig
    from nostr_client.counters.engine.session import ConfiguredStream, CounterSession

PULL_STEP = 500
"""Most messages of one source in one write. It limits how long other writes wait."""


class Cursor(NamedTuple):
    """Position in a source. `id` is its row."""

    id: int
    epoch: str
    seq: int


def flow(session: CounterSession) -> bool:
    """Update all streams that read the changed streams.

    Returns whether messages are left to read.
    """
    left = False
    waiting = [s for s in session.catalog.by_name.values() if s.id in session.changed()]
    rounds = len(session.catalog.by_name) + 1
    while waiting and rounds:
        rounds -= 1
        further: list[ConfiguredStream] = []
        for stream in waiting:
            for dependent in session.catalog.downstream(stream.name):
                taken, more = pull(session, dependent)
                left = left or more
                further += [dependent] if taken else []
        waiting = further
    return left or bool(waiting)


def pull(
    session: CounterSession, stream: ConfiguredStream, limit: int = PULL_STEP
) -> tuple[int, bool]:
    """Read all sources of a stream.

    Returns how many messages were taken, and whether more are waiting.
    """
    taken, more = 0, False
    for source in stream.config.every_source:
        upstream = session.catalog.by_name.get(source.name)
        if upstream is not None:
            count_, left = _pull_one(session, stream, source, upstream, limit)
            taken, more = taken + count_, more or left
    return taken, more


def cursor_of(
    session: CounterSession, stream: ConfiguredStream, source: SourceConfig, epoch: str
) -> Cursor:
    """Return the last position in a source.

    The position is the start if the source is new or was created again.
    """
    key = (stream.id, source.name, source.filters, source.destinations)
    session.conn.execute(
        "INSERT OR IGNORE INTO counter_source_cursor"
        " (stream, name, filters, destinations, epoch, seq) VALUES (?, ?, ?, ?, ?, 0)",
        (*key, epoch),
    )
    row = session.conn.execute(
        "SELECT id, epoch, seq FROM counter_source_cursor"
        " WHERE stream = ? AND name = ? AND filters = ? AND destinations = ?",
        key,
    ).fetchone()
    cursor = Cursor(*row)
    return cursor if cursor.epoch == epoch else Cursor(cursor.id, epoch, 0)


def _pull_one(
    session: CounterSession,
    stream: ConfiguredStream,
    source: SourceConfig,
    upstream: ConfiguredStream,
    limit: int,
) -> tuple[int, bool]:
    cursor = cursor_of(session, stream, source, upstream.epoch)
    rows = session.conn.execute(
        f"SELECT {COLUMNS} FROM {FROM} WHERE m.stream = ? AND m.seq > ? ORDER BY m.seq LIMIT ?",
        (upstream.id, cursor.seq, limit),
    ).fetchall()
    taken, at, stalled = 0, cursor.seq, ""
    for row in map(MessageRow._make, rows):
        target = source.target(row.subject)
        try:
            if target is not None:
                _take(session, stream, upstream, source, row, target, cursor.id)
                taken += 1
        except CounterError as error:
            stalled = f"sequence {row.seq}: {error}"
            break
        at = row.seq
    if rows or stalled or at != cursor.seq:
        _leave(session, cursor, at, stalled)
    return taken, len(rows) == limit and not stalled


def _leave(session: CounterSession, cursor: Cursor, seq: int, stalled: str) -> None:
    session.conn.execute(
        "UPDATE counter_source_cursor SET epoch = ?, seq = ?, stalled = ? WHERE id = ?",
        (cursor.epoch, seq, stalled, cursor.id),
    )


def _take(
    session: CounterSession,
    stream: ConfiguredStream,
    upstream: ConfiguredStream,
    source: SourceConfig,
    row: MessageRow,
    target: str,
    cursor: int,
) -> None:
    """Store one message of a source.

    Raises CounterError if the message cannot be stored. The source then stalls.
    """
    message = message_at(session.conn, upstream.id, row)
    if stream.config.mirror is not None:
        if row.seq <= session.live(stream).last_seq:
            raise CounterError("the mirrored stream was made again", code=10055)
        verbatim(session, stream, target, message.headers, message.body, at=row.seq)
        return
    headers = rules.travelling(message.headers)
    if known_id(session, stream, rules.header(headers, rules.MSG_ID)) is not None:
        return
    if not stream.config.allow_msg_counter:
        origin = Origin(cursor, source.name, row.subject, row.seq, None)
        verbatim(session, stream, target, headers, message.body, origin)
        return
    _take_counter(session, stream, source, row, target, headers, cursor)


def _take_counter(
    session: CounterSession,
    stream: ConfiguredStream,
    source: SourceConfig,
    row: MessageRow,
    target: str,
    headers: rules.Headers,
    cursor: int,
) -> None:
    text = rules.header(headers, rules.INCR)
    if not text or not is_integer(text):
        raise rules.missing()
    value = row.value()
    seen = sourcemap.seen(session.conn, stream.id, target, source.name, row.subject)
    change = rules.delta(seen, value)
    kept = ((rules.INCR, change), *rules.without(headers, rules.INCR, rules.SOURCES))
    origin = Origin(cursor, source.name, row.subject, row.seq, value)
    count(session, stream, target, kept, change, origin)
