"""Messages, acks and stream infos as JetStream writes them: JSON and headers to values."""

from __future__ import annotations

import base64
import binascii
from datetime import datetime
from typing import TYPE_CHECKING, Any

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
from nostr_client.counters.numbers import is_integer, parse_integer
from nostr_client.errors import InvalidInput, ProtocolError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_LEVEL = "_nats.req.level"
_ABOUT = frozenset(
    {
        "Nats-Stream", "Nats-Subject", "Nats-Sequence", "Nats-Time-Stamp", "Nats-Num-Pending",
        "Nats-Last-Sequence", "Nats-UpTo-Sequence",
    }
)  # fmt: skip


def integer(found: Mapping[str, Any], name: str, default: int = 0) -> int:
    """A whole number of an answer; raises ProtocolError where it is something else."""
    value = found.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool):
        raise ProtocolError(f"{name} is not a number")
    return value


def text(found: Mapping[str, Any], name: str, default: str = "") -> str:
    value = found.get(name, default)
    if not isinstance(value, str):
        raise ProtocolError(f"{name} is not text")
    return value


def value_of(digits: str) -> int:
    if not is_integer(digits):
        raise ProtocolError("a counter's value is not an integer")
    return parse_integer(digits)


def ack(found: Mapping[str, Any]) -> Ack:
    """The answer to a publish; raises ProtocolError."""
    value = value_of(text(found, "val")) if "val" in found else None
    return Ack(
        stream=text(found, "stream"),
        domain=text(found, "domain"),
        seq=integer(found, "seq"),
        val=value,
        duplicate=found.get("duplicate") is True,
    )


def batch_ack(found: Mapping[str, Any]) -> BatchAck:
    """The answer to a committed batch; raises ProtocolError."""
    return BatchAck(
        stream=text(found, "stream"),
        seq=integer(found, "seq"),
        batch=text(found, "batch"),
        count=integer(found, "count"),
    )


def stored_message(found: Mapping[str, Any]) -> Message:
    """The `message` of a STREAM.MSG.GET answer; raises ProtocolError."""
    try:
        head = base64.b64decode(found.get("hdrs") or "", validate=True)
        body = base64.b64decode(found.get("data") or "", validate=True)
    except (binascii.Error, TypeError) as error:
        raise ProtocolError("a stored message is not base64") from error
    stamp = timestamp(text(found, "time"))
    return Message(integer(found, "seq"), text(found, "subject"), header_lines(head), body, stamp)


def header_lines(head: bytes) -> rules.Headers:
    """Header lines in their order, a repeated name repeated."""
    lines = head.decode("utf-8", "replace").split("\r\n")[1:]
    pairs = [line.partition(":") for line in lines if line]
    return tuple((name, value.lstrip(" ")) for name, _, value in pairs)


def direct_message(headers: Mapping[str, str], body: bytes) -> Message:
    """A message of a direct get, whose headers also say what it is; raises ProtocolError."""
    seq = headers.get("Nats-Sequence", "")
    if not seq.isdecimal() or len(seq) > 20:
        raise ProtocolError("a direct message without its sequence")
    own = tuple((name, value) for name, value in headers.items() if name not in _ABOUT)
    stamp = timestamp(headers.get("Nats-Time-Stamp", ""))
    return Message(int(seq), headers.get("Nats-Subject", ""), own, body, stamp)


def timestamp(shown: str) -> int:
    """RFC 3339 with nanoseconds to nanoseconds since 1970; 0 where it is something else."""
    whole, _, fraction = shown.removesuffix("Z").partition(".")
    try:
        seconds = datetime.fromisoformat(whole + "+00:00").timestamp()
    except ValueError:
        return 0
    digits = (fraction + "0" * 9)[:9]
    return int(seconds) * 1_000_000_000 + (int(digits) if digits.isdecimal() else 0)


def entry(message: Message) -> Entry:
    """A counter as of a stored message; raises CounterError 10172 where it is broken."""
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
    """Headers as nats-py takes them; raises InvalidInput for what it would change on the way."""
    rules.check_syntax(tuple(headers))
    found: dict[str, str] = {}
    for name, value in headers:
        if name in found:
            raise InvalidInput(f"nats-py sends a header once: {name}")
        if value.lstrip(" ") != value.strip():
            raise InvalidInput(f"nats-py strips the white space around the value of {name}")
        found[name] = value
    return found


def stream_info(found: Mapping[str, Any]) -> StreamInfo:
    """A STREAM.INFO answer, or an item of STREAM.LIST; raises ProtocolError."""
    config = found.get("config")
    if not isinstance(config, dict):
        raise ProtocolError("a stream without its configuration")
    metadata = config.get("metadata") or {}
    level = metadata.get(_LEVEL, "0") if isinstance(metadata, dict) else "0"
    return StreamInfo(
        config=_config(config),
        state=_state(found.get("state")),
        sources=tuple(_source(item) for item in found.get("sources") or ()),
        required_api_level=int(level) if str(level).isdecimal() and level != "0" else None,
    )


def _config(config: Mapping[str, Any]) -> StreamConfig:
    """The server's own notes among the metadata are not part of a configuration."""
    metadata = config.get("metadata") or {}
    own = {k: v for k, v in metadata.items() if not k.startswith("_nats.")}
    return StreamConfig.from_api({**config, "metadata": own})


def _state(found: object) -> StreamState:
    if not isinstance(found, dict):
        raise ProtocolError("a stream without its state")
    return StreamState(
        messages=integer(found, "messages"),
        first_seq=integer(found, "first_seq"),
        last_seq=integer(found, "last_seq"),
        subjects=integer(found, "num_subjects"),
    )


def _source(found: object) -> SourceStatus:
    if not isinstance(found, dict):
        raise ProtocolError("a source without its state")
    transforms = found.get("subject_transforms") or ()
    filters = "\f".join(t.get("src") or ">" for t in transforms)
    error = found.get("error")
    return SourceStatus(
        name=text(found, "name"),
        filters=filters or text(found, "filter_subject") or ">",
        destinations="\f".join(t.get("dest") or ">" for t in transforms) or ">",
        seq=0,
        lag=integer(found, "lag"),
        stalled=str(error.get("description", "")) if isinstance(error, dict) else "",
    )
