"""Remove messages by limits, purges and single deletions.

Limits never remove the newest message of a counter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nostr_client.counters.engine import sourcemap
from nostr_client.counters.engine.rows import under
from nostr_client.errors import CounterError

if TYPE_CHECKING:
    from nostr_client.counters.engine.session import ConfiguredStream, CounterSession, Latest

CONTENT = ("counter_message", "counter_latest", "counter_source_map", "counter_source_past")

TRIM_STEP = 1_000
"""Most messages that limits remove in one write, if many are waiting."""


def trim(session: CounterSession, stream: ConfiguredStream, subject: str, before: Latest) -> None:
    """Apply the stream's limits after a message of `subject` superseded `before`."""
    config = stream.config
    if stream.has_limits:
        session.conn.execute(
            "UPDATE counter_message SET old = 1 WHERE stream = ? AND seq = ?",
            (stream.id, before.seq),
        )
    if config.max_msgs_per_subject > 0:
        _keep_newest(session, stream, subject, config.max_msgs_per_subject)
    if stream.has_limits:
        expire(session, stream)


def apply_limits(session: CounterSession, stream: ConfiguredStream) -> int:
    """Remove all messages beyond changed limits at once. Return their number."""
    gone, keep = 0, stream.config.max_msgs_per_subject
    if keep > 0:
        rows = session.conn.execute(
            "SELECT subject FROM counter_message WHERE stream = ?"
            " GROUP BY subject HAVING count(*) > ?",
            (stream.id, keep),
        ).fetchall()
        gone += sum(_keep_newest(session, stream, subject, keep) for (subject,) in rows)
    while stream.has_limits and (taken := expire(session, stream)):
        gone += taken
    return gone


def expire(session: CounterSession, stream: ConfiguredStream) -> int:
    """Remove superseded messages that are too old or too many, oldest first.

    Return their number.
    """
    config, live = stream.config, session.live(stream)
    taken = 0
    if config.max_age > 0:
        taken += _take_old(session, stream, TRIM_STEP, session.now - config.max_age)
    if config.max_msgs > 0:
        surplus = live.messages - max(config.max_msgs, live.subjects)
        if surplus > 0:
            taken += _take_old(session, stream, min(surplus, TRIM_STEP), None)
    return taken


def _take_old(
    session: CounterSession, stream: ConfiguredStream, limit: int, before_ts: int | None
) -> int:
    rows = session.conn.execute(
        "SELECT seq, subject, ts FROM counter_message WHERE stream = ? AND old = 1"
        " ORDER BY seq LIMIT ?",
        (stream.id, limit),
    ).fetchall()
    taken = 0
    for seq, subject, ts in rows:
        if before_ts is not None and ts >= before_ts:
            break
        taken += drop_below(session, stream, subject, seq + 1)
    return taken


def _keep_newest(session: CounterSession, stream: ConfiguredStream, subject: str, keep: int) -> int:
    row = session.conn.execute(
        "SELECT seq FROM counter_message WHERE stream = ? AND subject = ?"
        " ORDER BY seq DESC LIMIT 1 OFFSET ?",
        (stream.id, subject, keep),
    ).fetchone()
    return drop_below(session, stream, subject, row[0] + 1) if row else 0


def drop_below(session: CounterSession, stream: ConfiguredStream, subject: str, seq: int) -> int:
    """Remove the messages of a subject below `seq`. One at or above must exist."""
    if sourcemap.exists(session.conn, stream.id, subject):
        sourcemap.keep_past(session.conn, stream.id, subject, seq)
    gone = session.conn.execute(
        "DELETE FROM counter_message WHERE stream = ? AND subject = ? AND seq < ?",
        (stream.id, subject, seq),
    ).rowcount
    session.live(stream).forget(gone)
    return gone


def drop_subject(session: CounterSession, stream: ConfiguredStream, subject: str) -> int:
    """Remove a counter with its history, its value and its source map."""
    conn, where = session.conn, (stream.id, subject)
    gone = conn.execute(
        "DELETE FROM counter_message WHERE stream = ? AND subject = ?", where
    ).rowcount
    conn.execute("DELETE FROM counter_latest WHERE stream = ? AND subject = ?", where)
    conn.execute("DELETE FROM counter_source_past WHERE stream = ? AND subject = ?", where)
    sourcemap.forget(conn, stream.id, subject)
    session.live(stream).forget(gone, subjects=1)
    return gone


def purge(
    session: CounterSession,
    stream: ConfiguredStream,
    pattern: str = "",
    seq: int = 0,
    keep: int = 0,
) -> int:
    """Remove messages of all subjects that match `pattern`. Return their number.

    Removes the messages below `seq`, or all but the newest `keep`, or all. Raises CounterError if
    the stream forbids it or if both `seq` and `keep` are given.
    """
    if stream.config.deny_purge:
        raise CounterError("stream purge not permitted", code=10110, status=500)
    if seq and keep:
        raise CounterError("bad request", code=10003)
    if seq and pattern in ("", ">"):
        session.live(stream).jump_past(seq - 1)
    below = _boundary(session, stream, pattern, keep) if keep else seq
    if keep and not below:
        return 0
    if not below and pattern in ("", ">"):
        return empty(session, stream)
    subjects = [found.subject for found in under(session.conn, stream.id, pattern or ">")]
    return sum(_purge_subject(session, stream, subject, below) for subject in subjects)


def empty(session: CounterSession, stream: ConfiguredStream) -> int:
    """Remove every message of a stream.

    Sequences, message ids and cursors stay.
    """
    live = session.live(stream)
    gone = live.messages
    for table in CONTENT:
        session.conn.execute(f"DELETE FROM {table} WHERE stream = ?", (stream.id,))
    live.forget(gone, live.subjects)
    return gone


def _boundary(session: CounterSession, stream: ConfiguredStream, pattern: str, keep: int) -> int:
    """Return the sequence below which all but the newest `keep` matching messages are.

    Returns 0 if there are fewer messages.
    """
    found: list[int] = []
    for subject, _, _ in under(session.conn, stream.id, pattern or ">"):
        rows = session.conn.execute(
            "SELECT seq FROM counter_message WHERE stream = ? AND subject = ?"
            " ORDER BY seq DESC LIMIT ?",
            (stream.id, subject, keep),
        )
        found = sorted([*found, *(row[0] for row in rows)], reverse=True)[:keep]
    return found[-1] if len(found) == keep else 0


def _purge_subject(
    session: CounterSession, stream: ConfiguredStream, subject: str, below: int
) -> int:
    latest = session.latest(stream, subject)
    if latest is None:
        return 0
    if below == 0 or latest.seq < below:
        return drop_subject(session, stream, subject)
    return drop_below(session, stream, subject, below)


def delete_message(session: CounterSession, stream: ConfiguredStream, seq: int) -> None:
    """Remove one message.

    If it is the newest of a counter, the counter gets the value of the message before it. Raises
    CounterError 10043 or 10057 if there is no such message or the stream forbids it.
    """
    if stream.config.deny_delete:
        raise CounterError("message delete not permitted", code=10057, status=500)
    row = session.conn.execute(
        "SELECT subject FROM counter_message WHERE stream = ? AND seq = ?", (stream.id, seq)
    ).fetchone()
    if row is None and seq > session.live(stream).last_seq:
        raise CounterError("stream store EOF", code=10057, status=500)
    if row is None:
        raise CounterError(f"sequence {seq} not found", code=10043)
    latest = session.latest(stream, row[0])
    if latest is not None and latest.seq == seq:
        _delete_newest(session, stream, row[0], seq)
        return
    sourcemap.keep_one(session.conn, stream.id, seq)
    _delete(session, stream, seq)


def _delete_newest(
    session: CounterSession, stream: ConfiguredStream, subject: str, seq: int
) -> None:
    before = session.conn.execute(
        "SELECT seq, val FROM counter_message WHERE stream = ? AND subject = ? AND seq < ?"
        " ORDER BY seq DESC LIMIT 1",
        (stream.id, subject, seq),
    ).fetchone()
    if before is None:
        drop_subject(session, stream, subject)
        return
    _delete(session, stream, seq)
    session.conn.execute(
        "UPDATE counter_latest SET seq = ?, val = ? WHERE stream = ? AND subject = ?",
        (*before, stream.id, subject),
    )
    session.conn.execute(
        "UPDATE counter_message SET old = 0 WHERE stream = ? AND seq = ?", (stream.id, before[0])
    )
    sourcemap.rewind(session.conn, stream.id, subject, before[0])


def _delete(session: CounterSession, stream: ConfiguredStream, seq: int) -> None:
    session.conn.execute(
        "DELETE FROM counter_message WHERE stream = ? AND seq = ?", (stream.id, seq)
    )
    session.live(stream).forget(1)
