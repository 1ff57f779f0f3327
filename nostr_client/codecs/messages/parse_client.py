"""Read what a client sent: strict, so that the relay can say what is wrong with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from nostr_client.codecs.event import Event, parse_event, require_hex
from nostr_client.codecs.filters import Filter
from nostr_client.codecs.messages.client import (
    Auth,
    ClientMessage,
    Close,
    Count,
    NegClose,
    NegMsg,
    NegOpen,
    Publish,
    Req,
)
from nostr_client.codecs.messages.frame import Frame, to_bytes
from nostr_client.codecs.messages.parse_relay import DEFAULT_MAX_SIZE
from nostr_client.errors import InvalidEvent, InvalidFilter

if TYPE_CHECKING:
    from collections.abc import Callable


class _EventFrame(msgspec.Struct, array_like=True, tag="EVENT", gc=False):
    event: Event


_decode_event_frame: Final = msgspec.json.Decoder(_EventFrame).decode
_decode_query_frame: Final = msgspec.json.Decoder(list[Any]).decode

MAX_SUB_ID: Final = 64
"""Characters of a subscription id (NIP-01)."""


def parse_client_message(frame: str | bytes, *, max_size: int = DEFAULT_MAX_SIZE) -> ClientMessage:
    """Read one frame of a client, of at most `max_size` bytes.

    Raises MalformedMessage, a ProtocolError, with `label` and `ref` as far as they could be
    read: `ref` is the subscription or query id, or the id of an event that is not one.
    """
    raw = to_bytes(frame, max_size)
    fast = _fast(raw)
    if fast is not None:
        return fast
    parts = Frame(raw)
    reader = _READERS.get(parts.label)
    if reader is None:
        raise parts.malformed("unknown command")
    return reader(parts)


def _fast(raw: bytes) -> ClientMessage | None:
    """The common frames in one pass; None for anything odd, which the long way then explains."""
    try:
        if raw.startswith(b'["EVENT"'):
            return Publish(require_hex(_decode_event_frame(raw).event))
        if raw.startswith(_QUERIES):
            label, sub_id, *asked = _decode_query_frame(raw)
            if type(sub_id) is not str or not 0 < len(sub_id) <= MAX_SUB_ID:
                return None
            if label == "CLOSE":
                return Close(sub_id)
            if _are_objects(asked):
                made = Req if label == "REQ" else Count
                return made(sub_id, tuple([Filter.from_json(one) for one in asked]))
    except (ValueError, RecursionError):
        pass
    return None


_QUERIES: Final = (b'["REQ"', b'["CLOSE"', b'["COUNT"')


def _are_objects(asked: list[Any]) -> bool:
    return bool(asked) and _ONLY_OBJECTS.issuperset(map(type, asked))


_ONLY_OBJECTS: Final = frozenset((dict,))


def _sub_id(parts: Frame) -> str:
    text = parts.text(1)
    if not 0 < len(text) <= MAX_SUB_ID:
        raise parts.malformed(f"a subscription id has 1 to {MAX_SUB_ID} characters")
    parts.ref = text
    return text


def _event(parts: Frame) -> Event:
    try:
        return parse_event(parts.raw(1))
    except InvalidEvent as error:
        parts.ref = _claimed_id(parts)
        raise parts.wrap(error) from error


def _claimed_id(parts: Frame) -> str:
    value = parts.value(1)
    claimed = value.get("id") if isinstance(value, dict) else None
    return claimed if isinstance(claimed, str) and len(claimed) == 64 else ""


def _filter(parts: Frame, index: int) -> Filter:
    try:
        return Filter.from_json(parts.raw(index))
    except InvalidFilter as error:
        raise parts.wrap(error) from error


def _query(parts: Frame) -> tuple[str, tuple[Filter, ...]]:
    sub_id = _sub_id(parts)
    if len(parts) < 3:
        raise parts.malformed("a query has one filter or more")
    return sub_id, tuple(_filter(parts, index) for index in range(2, len(parts)))


def _neg_open(parts: Frame) -> NegOpen:
    sub_id = _sub_id(parts)
    asked: Filter | str
    asked = parts.text(2) if parts.raw(2).lstrip()[:1] == b'"' else _filter(parts, 2)
    return NegOpen(sub_id, asked, parts.hex_bytes(3))


_READERS: Final[dict[str, Callable[[Frame], ClientMessage]]] = {
    "EVENT": lambda parts: Publish(_event(parts)),
    "REQ": lambda parts: Req(*_query(parts)),
    "CLOSE": lambda parts: Close(_sub_id(parts)),
    "COUNT": lambda parts: Count(*_query(parts)),
    "AUTH": lambda parts: Auth(_event(parts)),
    "NEG-OPEN": _neg_open,
    "NEG-MSG": lambda parts: NegMsg(_sub_id(parts), parts.hex_bytes(2)),
    "NEG-CLOSE": lambda parts: NegClose(_sub_id(parts)),
}
