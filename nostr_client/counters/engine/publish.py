"""Store messages. Only this module computes the value of a counter."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from nostr_client.counters import rules
from nostr_client.counters.base import Message, NoStream
from nostr_client.counters.engine import sourcemap
from nostr_client.counters.engine.admit import admit
from nostr_client.counters.engine.rows import (
    COLUMNS,
    FROM,
    MessageRow,
    pack_body,
    pack_headers,
    render,
    unpack_headers,
)
from nostr_client.counters.engine.trim import trim
from nostr_client.errors import CounterError

if TYPE_CHECKING:
    from nostr_client.counters.engine.session import ConfiguredStream, CounterSession, Latest
    from nostr_client.counters.rules import Headers


NEW = "INSERT INTO counter_latest VALUES (?, ?, ?, ?)"
NEWER = "UPDATE counter_latest SET seq = ?, val = ? WHERE stream = ? AND subject = ?"
INSERT = (
    "INSERT INTO counter_message (stream, seq, subject, ts, counted, incr, val, headers, body,"
    " source, src_subject, src_val, src_seq) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


class StoredMessage(NamedTuple):
    """Result of a publish. `val` is in digits, or None if no value was computed."""

    stream: str
    seq: int
    val: str | None
    duplicate: bool = False


class Origin(NamedTuple):
    """Origin of a sourced message.

    `cursor` is the row of the source. `subject`, `seq` and `val` are those in the source stream.
    """

    cursor: int
    name: str
    subject: str
    seq: int
    val: str | None


def publish(session: CounterSession, subject: str, headers: Headers, body: bytes) -> StoredMessage:
    """Publish a client's message by the server's rules, in the server's order.

    Raises CounterError with the server's code. Raises NoStream, and InvalidInput if `subject` is
    not a subject.
    """
    stream = session.catalog.route(subject)
    if stream is None:
        raise NoStream(subject)
    target = _transformed(stream, subject)
    if len(body) > rules.MAX_BODY_BYTES:
        raise CounterError("message size exceeds maximum allowed", code=10054)
    admitted = admit(session, stream, target, headers, body)
    if admitted.duplicate_of is not None:
        return StoredMessage(stream.name, admitted.duplicate_of, None, duplicate=True)
    if admitted.text is not None:
        return count(session, stream, target, headers, admitted.text)
    rules.check_ttl_valid(headers)
    return StoredMessage(stream.name, verbatim(session, stream, target, headers, body), None)


def _transformed(stream: ConfiguredStream, subject: str) -> str:
    transform = stream.config.subject_transform
    return (transform.apply(subject) if transform else None) or subject


def count(
    session: CounterSession,
    stream: ConfiguredStream,
    subject: str,
    headers: Headers,
    text: str,
    origin: Origin | None = None,
) -> StoredMessage:
    """Add `text` to a counter and store the message.

    Raises CounterError 10172 if the counter is broken.
    """
    latest = session.latest(stream, subject)
    before = _value(session, stream, latest) if latest else "0"
    value = rules.added(before, text)
    if origin is None:
        _check_rendered(session, stream, subject, headers, value)
        rules.check_ttl_valid(headers)
    incr, others = pack_headers(headers)
    seq = session.live(stream).next_seq()
    _insert(session, stream, (seq, subject, 1, incr, value, others, None), origin)
    if origin is not None and origin.val is not None:
        sourcemap.note(session.conn, stream.id, subject, origin.name, origin.subject, origin.val)
    _stored(session, stream, subject, headers, seq, value, latest)
    return StoredMessage(stream.name, seq, value)


def verbatim(
    session: CounterSession,
    stream: ConfiguredStream,
    subject: str,
    headers: Headers,
    body: bytes,
    origin: Origin | None = None,
    at: int | None = None,
) -> int:
    """Store a message unchanged and return its sequence.

    `at` is the sequence of the message in a mirror.
    """
    latest = session.latest(stream, subject)
    value, kept = pack_body(body)
    incr, others = pack_headers(headers)
    live = session.live(stream)
    if at is None:
        seq = live.next_seq()
    else:
        live.skip_to(seq := at)
    _insert(session, stream, (seq, subject, 0, incr, value, others, kept), origin)
    _stored(session, stream, subject, headers, seq, value, latest)
    return seq


def _value(session: CounterSession, stream: ConfiguredStream, latest: Latest) -> str:
    if latest.val is not None:
        return latest.val
    headers, body = session.conn.execute(
        "SELECT headers, body FROM counter_message WHERE stream = ? AND seq = ?",
        (stream.id, latest.seq),
    ).fetchone()
    sources = rules.header(unpack_headers(headers), rules.SOURCES)
    if sources is not None:
        rules.parse_sources(sources)  # the map of an imported message may be invalid
    return rules.read_body(body or b"")


def _check_rendered(
    session: CounterSession, stream: ConfiguredStream, subject: str, headers: Headers, value: str
) -> None:
    if stream.config.max_msg_size < 0:
        return
    found = sourcemap.current(session.conn, stream.id, subject)
    if found:
        headers = (*headers, (rules.SOURCES, rules.render_sources(found)))
    rules.check_size(headers, len(rules.render_body(value)), stream.config.max_msg_size)


def _insert(
    session: CounterSession,
    stream: ConfiguredStream,
    fields: tuple[int, str, int, str | None, str | None, str | None, bytes | None],
    origin: Origin | None,
) -> None:
    seq, subject, counted, incr, value, headers, body = fields
    cursor, src_subject, src_val, src_seq = None, None, None, None
    if origin is not None:
        cursor, src_subject = origin.cursor, origin.subject
        src_val, src_seq = origin.val, origin.seq
    session.conn.execute(
        INSERT,
        (stream.id, seq, subject, session.now, counted, incr, value, headers, body,
         cursor, src_subject, src_val, src_seq),
    )  # fmt: skip


def _stored(
    session: CounterSession,
    stream: ConfiguredStream,
    subject: str,
    headers: Headers,
    seq: int,
    value: str | None,
    latest: Latest | None,
) -> None:
    """Update everything that depends on a stored message.

    This includes the newest message of the subject, message ids, limits and republishing.
    """
    if latest is None:
        session.live(stream).subjects += 1
        session.conn.execute(NEW, (stream.id, subject, seq, value))
    else:
        session.conn.execute(NEWER, (seq, value, stream.id, subject))
    if len(headers) > 1:
        remember_id(session, stream, rules.header(headers, rules.MSG_ID), seq)
    if stream.trims and latest is not None:
        trim(session, stream, subject, latest)
    if stream.config.republish is not None:
        _republish(session, stream, subject, seq, latest)


def remember_id(
    session: CounterSession, stream: ConfiguredStream, msg_id: str | None, seq: int
) -> None:
    window = stream.config.window
    if not msg_id or not window:
        return
    session.conn.execute(
        "DELETE FROM counter_msgid WHERE stream = ? AND ts < ?", (stream.id, session.now - window)
    )
    session.conn.execute(
        "INSERT OR REPLACE INTO counter_msgid VALUES (?, ?, ?, ?)",
        (stream.id, msg_id, seq, session.now),
    )


def _republish(
    session: CounterSession, stream: ConfiguredStream, subject: str, seq: int, latest: Latest | None
) -> None:
    republish = stream.config.republish
    target = republish.apply(subject) if republish else None
    if target is None:
        return
    row = session.conn.execute(
        f"SELECT {COLUMNS} FROM {FROM} WHERE m.stream = ? AND m.seq = ?", (stream.id, seq)
    ).fetchone()
    message = render(MessageRow(*row), sourcemap.current(session.conn, stream.id, subject))
    about = (
        ("Nats-Stream", stream.name),
        ("Nats-Subject", subject),
        ("Nats-Sequence", str(seq)),
        ("Nats-Last-Sequence", str(latest.seq if latest else 0)),
    )
    session.outgoing.append(
        Message(seq, target, (*message.headers, *about), message.body, message.ts)
    )
