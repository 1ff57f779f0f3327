"""Publish atomic batches (ADR-50), and import whole streams."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nostr_client.counters import rules
from nostr_client.counters.base import BatchAck, NoStream
from nostr_client.counters.engine import sourcemap, streams
from nostr_client.counters.engine.publish import publish, verbatim
from nostr_client.errors import CounterError, InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nostr_client.counters.base import Outgoing
    from nostr_client.counters.config import StreamConfig
    from nostr_client.counters.engine.session import ConfiguredStream, CounterSession

MAX_BATCH = 1_000
"""Most messages of one atomic batch: nats-server's limit."""


def publish_batch(session: CounterSession, messages: Sequence[Outgoing], batch_id: str) -> BatchAck:
    """Publish messages to one stream.

    If a message is refused, the caller rolls back all of them. Raises CounterError with the codes
    of a single publish and these:

    - 10174: the stream does not allow batches.
    - 10199: the batch has too many messages.
    - 10201: a message was counted before.

    Raises InvalidInput for no stream or several streams.
    """
    stream = _one_stream(session, messages)
    marked = [
        (*message.headers, *_marks(batch_id, number, len(messages)))
        for number, message in enumerate(messages, 1)
    ]
    _check_arrival(stream, messages, marked)
    last = [_publish_one(session, m, headers) for m, headers in zip(messages, marked, strict=True)]
    return BatchAck(stream.name, last[-1], batch_id, len(messages))


def _check_arrival(
    stream: ConfiguredStream, messages: Sequence[Outgoing], marked: Sequence[rules.Headers]
) -> None:
    """Refuse what a server refuses before the batch is complete."""
    limit = stream.config.max_msg_size
    rules.check_size(marked[0], len(messages[0].body), limit)
    if not stream.config.allow_atomic:
        raise CounterError("atomic publish is disabled", code=10174)
    if len(messages) > MAX_BATCH:
        raise CounterError(f"atomic publish batch is too large: {MAX_BATCH}", code=10199)
    for message, headers in zip(messages, marked, strict=True):
        rules.check_size(headers, len(message.body), limit)


def _publish_one(session: CounterSession, message: Outgoing, headers: rules.Headers) -> int:
    stored = publish(session, message.subject, headers, message.body)
    if stored.duplicate:
        text = "atomic publish batch contains duplicate message id"
        raise CounterError(text, code=10201)
    return stored.seq


def _one_stream(session: CounterSession, messages: Sequence[Outgoing]) -> ConfiguredStream:
    found = {session.catalog.route(message.subject) for message in messages}
    if len(found) != 1:
        raise InvalidInput("a batch goes to exactly one stream")
    stream = found.pop()
    if stream is None:
        raise NoStream(messages[0].subject)
    return stream


def _marks(batch_id: str, number: int, count: int) -> rules.Headers:
    marks = ((rules.BATCH_ID, batch_id), ("Nats-Batch-Sequence", str(number)))
    return (*marks, ("Nats-Batch-Commit", "1")) if number == count else marks


def import_stream(
    session: CounterSession, config: StreamConfig, messages: Iterable[Outgoing]
) -> None:
    """Create a stream with the given messages, unchanged.

    Later values and source maps continue from the newest message of each subject. If its body or
    map is invalid, the counter is broken (10172) until it is deleted.
    """
    streams.create(session, config)
    stream = session.stream(config.name)
    if session.live(stream).messages:
        raise CounterError("stream name already in use", code=10058)
    newest: dict[str, tuple[int, str, bytes]] = {}
    for message in messages:
        seq = verbatim(session, stream, message.subject, message.headers, message.body)
        text = rules.header(message.headers, rules.SOURCES)
        newest[message.subject] = (seq, text or "", message.body)
    for subject, (seq, text, body) in newest.items():
        if text:
            _adopt_map(session, stream, subject, seq, text, body)


def _adopt_map(
    session: CounterSession,
    stream: ConfiguredStream,
    subject: str,
    seq: int,
    text: str,
    body: bytes,
) -> None:
    try:
        sources = rules.parse_sources(text)
    except CounterError:
        _mark_broken(session, stream, subject, seq, body)
        return
    sourcemap.set_current(session.conn, stream.id, subject, sources)
    session.conn.execute(
        "INSERT INTO counter_source_past SELECT stream, subject, name, src_subject, ?, val"
        " FROM counter_source_map WHERE stream = ? AND subject = ?",
        (seq, stream.id, subject),
    )


def _mark_broken(
    session: CounterSession, stream: ConfiguredStream, subject: str, seq: int, body: bytes
) -> None:
    """Remove the stored value.

    The next publish then reads the message and finds the invalid map.
    """
    session.conn.execute(
        "UPDATE counter_message SET val = NULL, body = ? WHERE stream = ? AND seq = ?",
        (body, stream.id, seq),
    )
    session.conn.execute(
        "UPDATE counter_latest SET val = NULL WHERE stream = ? AND subject = ?",
        (stream.id, subject),
    )
