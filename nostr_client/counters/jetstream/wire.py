"""Convert JetStream's JSON and headers to messages, acknowledgements and stream infos."""

from __future__ import annotations

import base64
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from nostr_client.counters import rules
from nostr_client.counters.base import (
    Ack,
    BatchAck,
    Entry,
    Message,
    SourceStatus,
    StreamInfo,
    StreamState,
)
from nostr_client.counters.config import StreamConfig
from nostr_client.counters.rules import is_integer, parse_integer
from nostr_client.errors import InvalidInput, ProtocolError, clip

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_LEVEL = "_nats.req.level"
_LEVELS = frozenset(map(str, range(1, 100)))
_ABOUT = frozenset(
    {
        "Nats-Stream", "Nats-Subject", "Nats-Sequence", "Nats-Time-Stamp", "Nats-Num-Pending",
        "Nats-Last-Sequence", "Nats-UpTo-Sequence",
    }
)  # fmt: skip


T = TypeVar("T")


class _Ack(msgspec.Struct):
    stream: str
    seq: int
    domain: str = ""
    val: str | None = None
    duplicate: bool = False


class _BatchAck(msgspec.Struct):
    stream: str
    seq: int
    batch: str
    count: int


class _Stored(msgspec.Struct):
    subject: str
    seq: int
    hdrs: str = ""
    data: str = ""
    time: str = ""


class _Error(msgspec.Struct):
    description: str = ""


class _Transform(msgspec.Struct):
    src: str = ""
    dest: str = ""


class _Source(msgspec.Struct):
    name: str
    lag: int = 0
    active: int = 0
    filter_subject: str = ""
    subject_transforms: tuple[_Transform, ...] = ()
    error: _Error | None = None


class _State(msgspec.Struct):
    messages: int = 0
    first_seq: int = 0
    last_seq: int = 0
    num_subjects: int = 0
    subjects: dict[str, int] = msgspec.field(default_factory=dict)


class _Info(msgspec.Struct):
    config: dict[str, Any]
    state: _State
    sources: tuple[_Source, ...] | None = None
    total: int = 0


class _Page(msgspec.Struct):
    streams: list[dict[str, Any]] | None = None
    total: int = 0


class _Purged(msgspec.Struct):
    purged: int = 0


def read(found: object, kind: type[T]) -> T:
    """Convert an answer's JSON to a type. Raises ProtocolError."""
    try:
        return msgspec.convert(found, kind)
    except msgspec.ValidationError as error:
        raise ProtocolError(f"not the answer that was asked for: {error}") from error


def ack(found: object) -> Ack:
    """Convert the answer to a publish. Raises ProtocolError."""
    answer = read(found, _Ack)
    value = None if answer.val is None else _value(answer.val)
    return Ack(answer.stream, answer.domain, answer.seq, value, answer.duplicate)


def _value(digits: str) -> int:
    if not is_integer(digits):
        raise ProtocolError("a counter's value is not an integer")
    return parse_integer(digits)


def batch_ack(found: object) -> BatchAck:
    """Convert the answer to a committed batch. Raises ProtocolError."""
    answer = read(found, _BatchAck)
    return BatchAck(answer.stream, answer.seq, answer.batch, answer.count)


def purged(found: object) -> int:
    """Return how many messages a purge removed. Raises ProtocolError."""
    return read(found, _Purged).purged


def stored_message(found: object) -> Message:
    """Convert the `message` of a STREAM.MSG.GET answer. Raises ProtocolError."""
    answer = read(found, _Stored)
    try:
        head = base64.b64decode(answer.hdrs, validate=True)
        body = base64.b64decode(answer.data, validate=True)
    except ValueError as error:
        raise ProtocolError("a stored message is not base64") from error
    return Message(answer.seq, answer.subject, header_lines(head), body, timestamp(answer.time))


def header_lines(head: bytes) -> rules.Headers:
    """Return header lines in order, including repeated names."""
    lines = head.decode("utf-8", "replace").split("\r\n")[1:]
    pairs = [line.partition(":") for line in lines if line]
    return tuple((name, value.lstrip(" ")) for name, _, value in pairs)


def direct_message(headers: Mapping[str, str], body: bytes) -> Message:
    """Convert a message of a direct get, whose headers describe it. Raises ProtocolError."""
    seq = headers.get("Nats-Sequence", "")
    if not seq.isdecimal() or len(seq) > 20:
        raise ProtocolError("a direct message without its sequence")
    own = tuple((name, value) for name, value in headers.items() if name not in _ABOUT)
    stamp = timestamp(headers.get("Nats-Time-Stamp", ""))
    return Message(int(seq), headers.get("Nats-Subject", ""), own, body, stamp)


def timestamp(shown: str) -> int:
    """Convert RFC 3339 to nanoseconds since 1970. Returns 0 for any other text."""
    whole, _, fraction = shown.removesuffix("Z").partition(".")
    try:
        seconds = datetime.fromisoformat(whole + "+00:00").timestamp()
    except ValueError:
        return 0
    digits = (fraction + "0" * 9)[:9]
    return int(seconds) * 1_000_000_000 + (int(digits) if digits.isdecimal() else 0)


def entry(message: Message) -> Entry:
    """Return a counter as of a stored message.

    Raises CounterError 10172 if the message is broken.
    """
    sources = rules.header(message.headers, rules.SOURCES)
    found = rules.parse_sources(sources) if sources else {}
    incr = rules.header(message.headers, rules.INCR) or ""
    return Entry(
        subject=message.subject,
        value=parse_integer(rules.read_body(message.body)),
        incr=parse_integer(incr) if is_integer(incr) else None,
        seq=message.seq,
        sources={n: {s: parse_integer(v) for s, v in m.items()} for n, m in found.items()},
        headers=message.headers,
        ts=message.ts,
    )


def sendable(headers: Sequence[rules.Header]) -> dict[str, str]:
    """Return headers in the form of nats-py.

    Raises InvalidInput for headers that nats-py would change.
    """
    rules.check_syntax(tuple(headers))
    found: dict[str, str] = {}
    for name, value in headers:
        if name in found:
            raise InvalidInput(f"nats-py sends a header once: {name}")
        if value.lstrip(" ") != value.strip():
            raise InvalidInput(f"nats-py strips the white space around the value of {name}")
        found[name] = value
    return found


def stream_info(found: object) -> StreamInfo:
    """Convert a STREAM.INFO answer or an item of STREAM.LIST. Raises ProtocolError."""
    info = read(found, _Info)
    metadata = info.config.get("metadata") or {}
    level = metadata.get(_LEVEL, "0") if isinstance(metadata, dict) else "0"
    state = info.state
    return StreamInfo(
        config=_config(info.config),
        state=StreamState(state.messages, state.first_seq, state.last_seq, state.num_subjects),
        sources=tuple(_status(source) for source in info.sources or ()),
        required_api_level=int(level) if isinstance(level, str) and level in _LEVELS else None,
    )


def subjects(found: object) -> tuple[list[str], int]:
    """Return a page of a stream's subjects, and their total number. Raises ProtocolError."""
    info = read(found, _Info)
    return list(info.state.subjects), info.total


def stream_page(found: object) -> tuple[list[StreamInfo], int]:
    """Return a page of STREAM.LIST, and the total number of streams. Raises ProtocolError."""
    page = read(found, _Page)
    return [stream_info(item) for item in page.streams or ()], page.total


def _config(config: Mapping[str, Any]) -> StreamConfig:
    """Return the configuration without the metadata that the server added."""
    metadata = config.get("metadata") or {}
    try:
        own = {k: v for k, v in metadata.items() if not k.startswith("_nats.")}
        return StreamConfig.from_api({**config, "metadata": own})
    except (InvalidInput, AttributeError) as error:
        raise ProtocolError("not the configuration of a stream") from error


def _status(source: _Source) -> SourceStatus:
    filters = "\f".join(t.src or ">" for t in source.subject_transforms)
    return SourceStatus(
        name=source.name,
        filters=filters or source.filter_subject or ">",
        destinations="\f".join(t.dest or ">" for t in source.subject_transforms) or ">",
        seq=0,
        lag=source.lag,
        stalled=_stalled(source),
    )


def _stalled(source: _Source) -> str:
    if source.error is not None:
        return clip(source.error.description)
    return "not reached yet" if source.active < 0 else ""
