"""Read what a relay sent: strict where a wrong guess would harm, tolerant where relays differ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from nostr_client import hll
from nostr_client.codecs import reasons
from nostr_client.codecs.event import Event, parse_event, require_hex
from nostr_client.codecs.messages.client import NegMsg
from nostr_client.codecs.messages.frame import Frame, to_bytes
from nostr_client.codecs.messages.relay import (
    AuthChallenge,
    Closed,
    CountAnswer,
    Eose,
    EventReceived,
    Hello,
    Hint,
    NegErr,
    Notice,
    Ok,
    RelayMessage,
)
from nostr_client.errors import InvalidEvent

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_COUNT: Final = 2**63 - 1
"""Largest count believed to be one: SQLite's largest integer; 10^30 is a relay's bug."""

DEFAULT_MAX_SIZE: Final = 2 * 1024 * 1024
"""Bytes of a frame: contact lists of 10,000 follows are 850 kB."""


_COUNT_FLAGS: Final = ("approximate", "limited", "merged")


class _EventFrame(msgspec.Struct, array_like=True, tag="EVENT", gc=False):
    sub_id: str
    event: Event


class _CountFrame(msgspec.Struct, array_like=True, tag="COUNT", gc=False):
    query_id: str
    body: dict[str, Any]


_decode_event_frame: Final = msgspec.json.Decoder(_EventFrame).decode
_decode_count_frame: Final = msgspec.json.Decoder(_CountFrame).decode


def parse_relay_message(frame: str | bytes, *, max_size: int = DEFAULT_MAX_SIZE) -> RelayMessage:
    """Read one frame of a relay, of at most `max_size` bytes.

    Left out is allowed: OK without a message, CLOSED without a reason. Elements after the known
    ones are skipped. Raises MalformedMessage, a ProtocolError, with `label` and `ref` (the
    subscription or event id) as far as they could be read.
    """
    raw = to_bytes(frame, max_size)
    head = raw[:16]
    fast: RelayMessage | None = None
    if b'"EVENT"' in head:
        fast = _fast_event(raw)
    elif b'"COUNT"' in head:
        fast = _fast_count(raw)
    if fast is not None:
        return fast
    parts = Frame(raw)
    reader = _READERS.get(parts.label)
    if reader is None:
        raise parts.malformed("a label that is in no NIP that we speak")
    return reader(parts)


def _fast_event(raw: bytes) -> EventReceived | None:
    """The common frame in one pass; None for anything odd, which the long way then explains."""
    try:
        found = _decode_event_frame(raw)
        return EventReceived(found.sub_id, require_hex(found.event))
    except (ValueError, RecursionError):
        return None


def _fast_count(raw: bytes) -> CountAnswer | None:
    """As `_fast_event`: most of what watches read is this frame."""
    try:
        found = _decode_count_frame(raw)
    except (ValueError, RecursionError):
        return None
    count = _counted(found.body.get("count"))
    return None if count is None else _answer(found.query_id, count, found.body)


def _event(parts: Frame) -> EventReceived:
    sub_id = parts.reference()
    try:
        return EventReceived(sub_id, parse_event(parts.raw(2)))
    except InvalidEvent as error:
        raise parts.wrap(error) from error


def _eose(parts: Frame) -> Eose:
    """EOSE with its hint (NIP-67); hints that are unknown or contradict each other are ignored."""
    sub_id = parts.reference()
    listed = parts.value(2) if len(parts) > 2 else None
    if not isinstance(listed, list):
        return Eose(sub_id, None)
    hints = [hint for hint in Hint if hint in listed]
    return Eose(sub_id, hints[0] if len(hints) == 1 else None)


def _ok(parts: Frame) -> Ok:
    event_id = parts.reference()
    accepted = parts.value(2)
    if not isinstance(accepted, bool):
        raise parts.malformed("OK: neither true nor false")
    return Ok(event_id, accepted, parts.optional_text(3))


def _count(parts: Frame) -> CountAnswer:
    query_id = parts.reference()
    body = parts.value(2)
    if not isinstance(body, dict):
        raise parts.malformed("COUNT: not an object")
    count = _counted(body.get("count"))
    if count is None:
        raise parts.malformed("COUNT: the count is not a whole number from 0 to 2^63-1")
    return _answer(query_id, count, body)


def _answer(query_id: str, count: int, body: dict[str, Any]) -> CountAnswer:
    registers, warnings = hll.from_hex(body["hll"]) if "hll" in body else (None, ())
    if count == 0 and registers is not None and any(registers):
        warnings = (*warnings, "hll: it counts 0, but its registers are not empty")
    flags: dict[str, bool] = {}
    for name in _COUNT_FLAGS:
        flag = body.get(name)
        if isinstance(flag, bool):
            flags[name] = flag
        elif flag is not None:
            warnings = (*warnings, f"{name}: neither true nor false")
    return CountAnswer(query_id, count, **flags, hll=registers, warnings=warnings)


def _counted(value: object) -> int | None:
    """A whole number from 0 to 2^63-1; None for anything else."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # some relays write 12.0
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if 0 <= value <= MAX_COUNT else None


def _flag(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def _neg_err(parts: Frame) -> NegErr:
    sub_id, reason = parts.reference(), parts.optional_text(2)
    most = parts.value(3) if len(parts) > 3 else None
    if isinstance(most, int) and not isinstance(most, bool) and 0 < most <= MAX_COUNT:
        return NegErr(sub_id, reason, most)
    return NegErr(sub_id, reason, reasons.max_records(reason))


def _hello(parts: Frame) -> Hello:
    body = parts.value(1)
    if not isinstance(body, dict):
        raise parts.malformed("HELLO: not an object")
    return Hello(_flag(body.get("count")))


_READERS: Final[dict[str, Callable[[Frame], RelayMessage]]] = {
    "EVENT": _event,
    "EOSE": _eose,
    "OK": _ok,
    "CLOSED": lambda parts: Closed(parts.reference(), parts.optional_text(2)),
    "NOTICE": lambda parts: Notice(parts.optional_text(1)),
    "COUNT": _count,
    "AUTH": lambda parts: AuthChallenge(parts.text(1)),
    "NEG-MSG": lambda parts: NegMsg(parts.reference(), parts.hex_bytes(2)),
    "NEG-ERR": _neg_err,
    "NEG-ERROR": _neg_err,  # what khatru and go-nostr write
    "HELLO": _hello,
}
