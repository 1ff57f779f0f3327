"""Direct get (ADR-31): single messages, and many in one request, as of one sequence."""

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
"""Subjects of one `multi_last`: more and the server answers 413."""

PAGE = 256
"""Messages of one request for a history."""

TOO_MANY = 413
_END, _NONE = 204, 404


class TooManySubjects(Exception):
    """413: the patterns name more subjects than one request may."""


async def last(connection: JetStreamConnection, stream: str, subject: str) -> Message:
    """A subject's newest message; raises CounterError 10037."""
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
    """The newest message of every subject that one of 1,024 subjects or patterns names.

    Raises TooManySubjects where they name too many.
    """
    request: dict[str, Any] = {"multi_last": list(subjects), "batch": CHUNK}
    if up_to_seq is not None:
        reached = min(up_to_seq, await _last_seq(connection, stream))
        if not reached:
            return []  # a server takes 0 for "no limit"
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
    """A server answers 404 to a read as of a sequence that it has not reached."""
    info = await connection.api(f"STREAM.INFO.{stream}")
    return wire.stream_info(info).state.last_seq


async def following(
    connection: JetStreamConnection, stream: str, pattern: str, after: int, limit: int = PAGE
) -> list[Message]:
    """The next messages after a sequence that a pattern names, oldest first."""
    request = {"seq": after + 1, "next_by_subj": pattern, "batch": limit}
    page, _ = await batch(connection, stream, request)
    return page


async def batch(
    connection: JetStreamConnection, stream: str, request: dict[str, Any]
) -> tuple[list[Message], Msg]:
    """One batched request: its messages, and the status message that ended it."""
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
    """The inline status of a message, or None where it is a stored one."""
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
    """The newest message of every subject that a pattern names, each once, in chunks.

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
    """Every subject that a pattern names, each once."""
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
