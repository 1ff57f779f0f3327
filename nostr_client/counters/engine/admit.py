"""Check a client's message by the rules of a nats-server, in the server's order."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from nostr_client.counters import rules
from nostr_client.counters.engine.rows import under, unpack_headers
from nostr_client.counters.subjects import is_pattern
from nostr_client.errors import CounterError

if TYPE_CHECKING:
    from nostr_client.counters.engine.session import ConfiguredStream, CounterSession
    from nostr_client.counters.rules import Headers

LAST_SEQ = "Nats-Expected-Last-Sequence"
LAST_SUBJECT_SEQ = "Nats-Expected-Last-Subject-Sequence"
LAST_SUBJECT = "Nats-Expected-Last-Subject-Sequence-Subject"
LAST_ID = "Nats-Expected-Last-Msg-Id"


class Admitted(NamedTuple):
    """Result of a successful check.

    `text` is the increment, or None for an ordinary message. `duplicate_of` is the sequence of the
    message that was stored before under the same message id.
    """

    text: str | None
    duplicate_of: int | None = None


def admit(
    session: CounterSession, stream: ConfiguredStream, subject: str, headers: Headers, body: bytes
) -> Admitted:
    """Check a message.

    Raises CounterError with the code of the first rule that the message breaks.
    """
    config = stream.config
    rules.check_size(headers, len(body), config.max_msg_size)
    text = rules.increment(headers, body, counter=config.allow_msg_counter)
    if text is not None and len(headers) == 1:
        return Admitted(text)  # the other rules concern other headers
    rules.check_stream(headers, stream.name)
    rules.check_ttl_disabled(headers)
    _check_last_sequences(session, stream, subject, headers)
    rules.check_schedule(headers)
    rules.check_source_headers(headers)
    again = known_id(session, stream, rules.header(headers, rules.MSG_ID))
    if again is not None:
        return Admitted(text, again)
    _check_last_id(session, stream, headers)
    rules.check_rollup(headers)
    if config.allow_msg_counter and text is None:
        raise rules.missing()
    return Admitted(text)


def _check_last_sequences(
    session: CounterSession, stream: ConfiguredStream, subject: str, headers: Headers
) -> None:
    of_subject = rules.header(headers, LAST_SUBJECT_SEQ)
    pattern = rules.header(headers, LAST_SUBJECT)
    if pattern and not of_subject:
        text = "missing sequence for expected last sequence per subject"
        raise CounterError(text, code=10193)
    if of_subject:
        last = _newest_of(session, stream, pattern or subject)
        if not _is(of_subject, last):
            raise rules.wrong_last(last)
    expected = rules.header(headers, LAST_SEQ)
    if expected and not _is(expected, session.live(stream).last_seq):
        raise rules.wrong_last(session.live(stream).last_seq)


def _is(text: str, seq: int) -> bool:
    return len(text) <= 20 and text.isascii() and text.isdecimal() and int(text) == seq


def _newest_of(session: CounterSession, stream: ConfiguredStream, pattern: str) -> int:
    """Return the newest sequence among the subjects that match a pattern, or 0."""
    if not is_pattern(pattern):
        return 0
    return max((found.seq for found in under(session.conn, stream.id, pattern)), default=0)


def _check_last_id(session: CounterSession, stream: ConfiguredStream, headers: Headers) -> None:
    expected = rules.header(headers, LAST_ID)
    if not expected:
        return
    row = session.conn.execute(
        "SELECT headers FROM counter_message WHERE stream = ? AND seq = ?",
        (stream.id, session.live(stream).last_seq),
    ).fetchone()
    last = rules.header(unpack_headers(row[0]), rules.MSG_ID) if row else None
    if last != expected:
        raise CounterError(f"wrong last msg ID: {last or ''}", code=10070)


def known_id(session: CounterSession, stream: ConfiguredStream, msg_id: str | None) -> int | None:
    """Return the sequence of the message with this id within the duplicate window, or None."""
    window = stream.config.window
    if not msg_id or not window:
        return None
    row = session.conn.execute(
        "SELECT seq FROM counter_msgid WHERE stream = ? AND id = ? AND ts >= ?",
        (stream.id, msg_id, session.now - window),
    ).fetchone()
    return row[0] if row else None
