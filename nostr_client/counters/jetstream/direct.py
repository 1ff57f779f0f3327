"""Read messages by direct get (ADR-31), one at a time or many as of one sequence."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from nostr_client.counters import rules
from nostr_client.counters.jetstream import wire
from nostr_client.counters.subjects import has_wildcard
from nostr_client.errors import CounterError, ProtocolError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Sequence

    from nats.aio.msg import Msg

    from nostr_client.counters.base import Message
    from nostr_client.counters.jetstream.connection import JetStreamConnection

CHUNK = 1_024
"""Most subjects of one `multi_last`. For more, the server answers 413."""

PAGE = 256
"""Messages of one request for a history."""

TOO_MANY = 413
_END, _NONE = 204, 404


class TooManySubjects(Exception):
    """The patterns match more subjects than one request allows (413)."""


async def last(connection: JetStreamConnection, stream: str, subject: str) -> Message:
    """Return a subject's newest message. Raises CounterError 10037."""
    answer = await connection.request(f"{connection.prefix}.DIRECT.GET.{stream}.{subject}")
    if status(answer) is not None:
        raise _refusal(answer, subject)
    return wire.direct_message(answer.headers or {}, answer.data)


async def multi_last(
    connection: JetStreamConnection,
    stream: str,
    subjects: Sequence[str],
    up_to_seq: int | None = None,
) -> list[Message]:
    """Return the newest message of every subject that matches one of at most 1,024 patterns.

    Raises TooManySubjects if too many subjects match.
    """
    request: dict[str, Any] = {"multi_last": list(subjects), "batch": CHUNK}
    if up_to_seq is not None:
        reached = min(up_to_seq, await _last_seq(connection, stream))
        if not reached:
            return []  # a server reads 0 as "no limit"
        request["up_to_seq"] = reached
    messages: list[Message] = []
    while True:
        page, end = await batch(connection, stream, request)
        messages += page
        left = _number(end, "Nats-Num-Pending")
        if not page or not left:
            return messages
        request |= {"seq": page[-1].seq + 1}
        request.setdefault("up_to_seq", _number(end, "Nats-UpTo-Sequence"))


async def _last_seq(connection: JetStreamConnection, stream: str) -> int:
    """Return the last sequence of a stream.

    A server answers 404 to a read as of a sequence above it.
    """
    info = await connection.api(f"STREAM.INFO.{stream}")
    return wire.stream_info(info).state.last_seq


async def following(
    connection: JetStreamConnection, stream: str, pattern: str, after: int, limit: int = PAGE
) -> list[Message]:
    """Return the next messages after a sequence that match a pattern, oldest first."""
    request = {"seq": after + 1, "next_by_subj": pattern, "batch": limit}
    page, _ = await batch(connection, stream, request)
    return page


async def batch(
    connection: JetStreamConnection, stream: str, request: dict[str, Any]
) -> tuple[list[Message], Msg]:
    """Send one batched request. Return its messages and the status message at its end."""
    messages: list[Message] = []
    async with connection.inbox() as (inbox, subscription):
        subject = f"{connection.prefix}.DIRECT.GET.{stream}"
        await connection.publish(subject, json.dumps(request).encode(), {}, inbox)
        while True:
            message = await connection.next(subscription)
            found = status(message)
            if found is None:
                messages.append(wire.direct_message(message.headers or {}, message.data))
            elif found in (_END, _NONE):
                return messages, message
            elif found == TOO_MANY:
                raise TooManySubjects
            else:
                raise _refusal(message, stream)


def status(message: Msg) -> int | None:
    """Return the inline status of a message, or None for a stored message."""
    headers = message.headers or {}
    found = headers.get("Status", "")
    if "Nats-Sequence" in headers or not found:
        return None
    if not found.isdecimal():
        raise ProtocolError("a status that is no number")
    return int(found)


def _refusal(message: Msg, about: str) -> CounterError:
    found = status(message) or 0
    if found == _NONE:
        return rules.no_message(about)
    description = (message.headers or {}).get("Description", "direct get was refused")
    return CounterError(description, code=found, status=found, about=about)


def _number(message: Msg, name: str) -> int:
    found = (message.headers or {}).get(name, "")
    return int(found) if found.isdecimal() and len(found) <= 20 else 0


async def newest(
    connection: JetStreamConnection,
    stream: str,
    patterns: Iterable[str],
    up_to_seq: int | None = None,
) -> AsyncIterator[list[Message]]:
    """Yield the newest message of every subject that matches a pattern, each once, in chunks.

    All chunks are as of one sequence: `up_to_seq`, or the stream's last when the read began.
    """
    wanted = list(patterns)
    if len(wanted) <= CHUNK:
        try:
            yield _once(await multi_last(connection, stream, wanted, up_to_seq))
            return
        except TooManySubjects:
            pass
    if up_to_seq is None:
        up_to_seq = await _last_seq(connection, stream)
    subjects = await _subjects(connection, stream, wanted)
    for start in range(0, len(subjects), CHUNK):
        chunk = subjects[start : start + CHUNK]
        yield _once(await multi_last(connection, stream, chunk, up_to_seq))


def _once(messages: Sequence[Message]) -> list[Message]:
    found = {message.subject: message for message in messages}
    return sorted(found.values(), key=lambda message: message.seq)


async def _subjects(
    connection: JetStreamConnection, stream: str, patterns: Iterable[str]
) -> list[str]:
    """Return every subject that matches a pattern, each once."""
    found: dict[str, None] = {}
    for pattern in patterns:
        if has_wildcard(pattern):
            found |= dict.fromkeys([s async for s in _listed(connection, stream, pattern)])
        else:
            found[pattern] = None
    return list(found)


async def _listed(connection: JetStreamConnection, stream: str, pattern: str) -> AsyncIterator[str]:
    offset = 0
    while True:
        request = {"subjects_filter": pattern, "offset": offset}
        info = await connection.api(f"STREAM.INFO.{stream}", request)
        subjects, total = wire.subjects(info)
        for subject in subjects:
            yield subject
        offset += len(subjects)
        if not subjects or offset >= total:
            return
