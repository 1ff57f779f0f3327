"""Create, change and delete streams."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nostr_client.counters import config as rules
from nostr_client.counters.base import SourceStatus, StreamInfo, StreamState
from nostr_client.counters.engine import remote
from nostr_client.counters.engine.session import touch, write_config
from nostr_client.counters.engine.trim import CONTENT, apply_limits
from nostr_client.errors import CounterError, InvalidInput

if TYPE_CHECKING:
    import sqlite3

    from nostr_client.counters.config import SourceConfig, StreamConfig
    from nostr_client.counters.engine.session import ConfiguredStream, CounterSession


def create(session: CounterSession, config: StreamConfig) -> None:
    """Create a stream.

    Does nothing if the stream exists with the same configuration. Raises CounterError with the
    server's code. Raises InvalidInput for settings that only a server supports.
    """
    existing = session.catalog.by_name.get(config.name)
    if existing is not None and existing.config == config:
        return
    rules.check_config(config)
    if existing is not None:
        text = "stream name already in use with a different configuration"
        raise CounterError(text, code=10058)
    _check_here(session, config)
    session.conn.execute(
        "INSERT INTO counter_stream (name, epoch, config, created, last_seq, messages, subjects)"
        " VALUES (?, lower(hex(randomblob(8))), ?, ?, ?, 0, 0)",
        (config.name, write_config(config), session.now, max(config.first_seq - 1, 0)),
    )
    _changed(session)


def update(session: CounterSession, config: StreamConfig) -> None:
    """Replace a stream's configuration.

    Raises CounterError, NoStream and InvalidInput.
    """
    stream = session.stream(config.name)
    empty = session.live(stream).messages == 0
    rules.check_update(stream.config, config, empty=empty)
    _check_here(session, config)
    session.conn.execute(
        "UPDATE counter_stream SET config = ? WHERE id = ?", (write_config(config), stream.id)
    )
    _changed(session)
    changed = session.stream(config.name)
    if changed.has_limits != stream.has_limits:
        _mark_old(session, changed)
    apply_limits(session, changed)


def _check_here(session: CounterSession, config: StreamConfig) -> None:
    """Check a configuration against other streams, and refuse what an embedded store cannot do."""
    others = [s.config for s in session.catalog.by_name.values() if s.name != config.name]
    rules.check_overlap(config, others)
    path = rules.cycle(config, others)
    if path:
        raise rules.refuse("sources form a cycle: " + " <- ".join(path))
    if any(source.other for source in config.every_source):
        raise InvalidInput("an embedded stream's sources are streams of the same store")
    if config.max_bytes > 0:
        raise InvalidInput("an embedded stream is limited by age and number, not by bytes")


def _mark_old(session: CounterSession, stream: ConfiguredStream) -> None:
    """Mark superseded messages if the stream has limits, else remove the marks."""
    if not stream.has_limits:
        session.conn.execute(
            "UPDATE counter_message SET old = 0 WHERE stream = ? AND old = 1", (stream.id,)
        )
        return
    session.conn.execute(
        "UPDATE counter_message SET old = 1 WHERE stream = ? AND seq NOT IN"
        " (SELECT seq FROM counter_latest WHERE stream = ?)",
        (stream.id, stream.id),
    )


def delete(session: CounterSession, name: str) -> None:
    """Delete a stream with all its messages.

    Streams that read it keep the counts that they have.
    """
    stream = session.stream(name)
    remote.forget(session.conn, stream.id)
    for table in (*CONTENT, "counter_source_cursor", "counter_msgid"):
        session.conn.execute(f"DELETE FROM {table} WHERE stream = ?", (stream.id,))
    session.conn.execute("DELETE FROM counter_stream WHERE id = ?", (stream.id,))
    _changed(session)


def _changed(session: CounterSession) -> None:
    touch(session.conn)
    session.configuration_changed()


def info(conn: sqlite3.Connection, stream: ConfiguredStream) -> StreamInfo:
    """Return a stream's configuration, its state, and the position in each source."""
    return StreamInfo(
        config=stream.config,
        state=_state(conn, stream),
        sources=tuple(_source(conn, stream, source) for source in stream.config.every_source),
        required_api_level=stream.config.required_api_level or None,
    )


def _source(
    conn: sqlite3.Connection, stream: ConfiguredStream, source: SourceConfig
) -> SourceStatus:
    """Return the position in a source.

    Cursors of removed sources exist too, but they are not listed.
    """
    key = (source.name, source.filters, source.destinations)
    cursor = conn.execute(
        "SELECT epoch, seq, stalled FROM counter_source_cursor"
        " WHERE stream = ? AND name = ? AND filters = ? AND destinations = ?",
        (stream.id, *key),
    ).fetchone()
    upstream = conn.execute(
        "SELECT epoch, last_seq FROM counter_stream WHERE name = ?", (source.name,)
    ).fetchone()
    epoch, seq, stalled = cursor or ("", 0, "")
    if upstream is None:
        return SourceStatus(*key, seq, 0, f"there is no stream {source.name}")
    if upstream[0] != epoch:
        return SourceStatus(*key, 0, upstream[1], stalled)  # created again, or never read
    return SourceStatus(*key, seq, upstream[1] - seq, stalled)


def _state(conn: sqlite3.Connection, stream: ConfiguredStream) -> StreamState:
    last_seq, messages, subjects = conn.execute(
        "SELECT last_seq, messages, subjects FROM counter_stream WHERE id = ?", (stream.id,)
    ).fetchone()
    (first,) = conn.execute(
        "SELECT min(seq) FROM counter_message WHERE stream = ?", (stream.id,)
    ).fetchone()
    if first is None:
        first = last_seq + 1 if last_seq else 0
    return StreamState(messages, first, last_seq, subjects)
