"""Apply the rules of ADR-49 like a real nats-server.

The functions are pure and work on headers and bodies. If the text of ADR-49 and the server differ,
the functions follow the server. The sign of an increment is optional.
`Nats-Expected-Subject-Last-Sequence` is not a header of the server. Each refusal has the server's
error code.

Two rules are stricter, because the server leaves the case undefined or lets a client corrupt a
total. A body whose `val` only begins with digits is broken. A client may not set
`Nats-Counter-Sources`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import MAX_EMAX, Context, Decimal
from typing import Any, Final

from nostr_client.errors import CounterError, InvalidInput

DIRECT_DIGITS = 600
"""Digits that int() and str() accept under every limit of the process (at least 640)."""

_DIRECT_BITS = 1_990  # below 600 decimal digits

_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)


def is_integer(text: str) -> bool:
    """Return whether `text` is ASCII digits after an optional sign."""
    return _INTEGER.fullmatch(text) is not None


def parse_integer(text: str) -> int:
    """Return the integer in `text`, of any length.

    Raises ValueError if `text` is not an integer.
    """
    if _INTEGER.fullmatch(text) is None:
        raise ValueError("not a decimal integer")
    if len(text) <= DIRECT_DIGITS:
        return int(text)
    digits = text.lstrip("+-")
    return -_join(digits) if text[0] == "-" else _join(digits)


def format_integer(n: int) -> str:
    """Return the decimal digits of `n`, with a minus sign if negative. Inverse of parse_integer."""
    if n.bit_length() <= _DIRECT_BITS:
        return str(n)
    return str(Decimal(n))


def canonical(text: str) -> str:
    """Return `text` in the form of format_integer: no plus sign, leading zeros or minus zero."""
    return add_text(text, "0")


def add_text(one: str, other: str) -> str:
    """Return the sum of two integers in digits.

    Raises ValueError if a text is not an integer.
    """
    if len(one) <= DIRECT_DIGITS and len(other) <= DIRECT_DIGITS:
        return str(parse_integer(one) + parse_integer(other))
    return _long(one, other, subtract=False)


def subtract_text(one: str, other: str) -> str:
    """Return `one` minus `other`, both in digits.

    Raises ValueError if a text is not an integer.
    """
    if len(one) <= DIRECT_DIGITS and len(other) <= DIRECT_DIGITS:
        return str(parse_integer(one) - parse_integer(other))
    return _long(one, other, subtract=True)


def _long(one: str, other: str, *, subtract: bool) -> str:
    if _INTEGER.fullmatch(one) is None or _INTEGER.fullmatch(other) is None:
        raise ValueError("not a decimal integer")
    exact = Context(prec=max(len(one), len(other)) + 1, Emax=MAX_EMAX)
    a, b = Decimal(one), Decimal(other)
    result = exact.subtract(a, b) if subtract else exact.add(a, b)
    return str(result) if result else "0"


def _join(digits: str) -> int:
    """Convert digits to int by halves. The cost is that of a multiplication, not quadratic."""
    if len(digits) <= DIRECT_DIGITS:
        return int(digits)
    half = len(digits) // 2
    high, low = _join(digits[:-half]), _join(digits[-half:])
    return int(high * 10**half + low)


Header = tuple[str, str]
Headers = tuple[Header, ...]
SourceMap = dict[str, dict[str, str]]
"""Stream name -> original subject -> last seen value, in digits."""

INCR: Final = "Nats-Incr"
SOURCES: Final = "Nats-Counter-Sources"
STREAM_SOURCE: Final = "Nats-Stream-Source"
MSG_ID: Final = "Nats-Msg-Id"
BATCH_ID: Final = "Nats-Batch-Id"
TTL: Final = "Nats-TTL"
SCHEDULE: Final = "Nats-Schedule"

MAX_HEADER_BYTES = 65_535
"""nats-server's limit of one message's headers, including their first line."""

SURELY_SMALL = 16_000
"""Characters of headers that never reach 64 KB, however they are encoded."""

MAX_BODY_BYTES = 1_048_576
"""nats-server's default limit of a payload."""

_FORBIDDEN = (
    "Nats-Rollup",
    "Nats-Expected-Stream",
    "Nats-Expected-Last-Sequence",
    "Nats-Expected-Last-Subject-Sequence",
    "Nats-Expected-Last-Subject-Sequence-Subject",
    "Nats-Expected-Last-Msg-Id",
)
_HEADER_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+", re.ASCII)
_UNSENDABLE = re.compile(r"[\r\n\0\ud800-\udfff]")  # a lone surrogate has no UTF-8
_STRIPPED = ("Nats-Expected-", "Nats-Batch-")
_TTL = re.compile(r"(?:[0-9]+|(?:[0-9]+(?:\.[0-9]*)?(?:ns|us|µs|ms|s|m|h))+)", re.ASCII)
_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"([0-9]+(?:\.[0-9]*)?)(ns|us|µs|ms|s|m|h)")


NO_MESSAGE: Final = 10037


def disabled() -> CounterError:
    return CounterError("message counters is disabled", code=10168)


def missing() -> CounterError:
    return CounterError("message counter increment is missing", code=10169)


def has_payload() -> CounterError:
    return CounterError("message counter has payload", code=10170)


def invalid() -> CounterError:
    return CounterError("message counter increment is invalid", code=10171)


def broken() -> CounterError:
    return CounterError("message counter is broken", code=10172)


def no_message(about: str = "") -> CounterError:
    return CounterError("no message found", code=NO_MESSAGE, status=404, about=about)


def signed(n: int) -> str:
    """Return an increment in the form of ADR-49: always with its sign. Raises InvalidInput."""
    check_number(n)
    return format_integer(n) if n < 0 else "+" + format_integer(n)


def increment_headers(n: int, headers: Mapping[str, str] | None, msg_id: str | None) -> Headers:
    """Return the headers of a publish. Raises InvalidInput if a header cannot be sent."""
    lines: list[Header] = [(INCR, signed(n))]
    lines += [(name, value) for name, value in (headers or {}).items() if name != INCR]
    if msg_id is not None:
        lines.append((MSG_ID, msg_id))
    check_syntax(tuple(lines))
    if msg_id is not None and (not msg_id or msg_id != msg_id.strip()):
        raise InvalidInput(f"a message id is not empty, nor has space around it: {msg_id!r}")
    return tuple(lines)


def check_number(n: object) -> None:
    """Raise InvalidInput unless `n` is an int. The server would count 1.5 as another number."""
    if not isinstance(n, int) or isinstance(n, bool):
        raise InvalidInput(f"an increment is an int, not {n!r}")


def header(headers: Iterable[Header], name: str) -> str | None:
    """Return the first value of a header, without leading spaces. Names are case-sensitive."""
    for key, value in headers:
        if key == name:
            return value.lstrip(" ")
    return None


def without(headers: Iterable[Header], *names: str) -> Headers:
    return tuple(pair for pair in headers if pair[0] not in names)


def header_bytes(headers: Sequence[Header]) -> int:
    """Return the bytes of these headers on the wire, or 0 without headers."""
    if not headers:
        return 0
    lines = sum(len(k.encode()) + len(v.encode()) + 4 for k, v in headers)
    return len(b"NATS/1.0\r\n\r\n") + lines


def check_syntax(headers: Headers) -> None:
    """Refuse headers that cannot be sent. Raises InvalidInput."""
    for name, value in headers:
        if not isinstance(name, str) or _HEADER_NAME.fullmatch(name) is None:
            raise InvalidInput(f"not the name of a header: {name!r}")
        if not isinstance(value, str) or _UNSENDABLE.search(value):
            raise InvalidInput(f"not the value of a header: {name}")


def increment(headers: Headers, body: bytes, *, counter: bool) -> str | None:
    """Return the increment of a client's message as text, or None if it has none.

    Raises CounterError:

    - 10171: not an integer, or beside a header that counters forbid.
    - 10168: the stream has no counters.
    - 10170: the message has a body.
    """
    text = header(headers, INCR)
    if not text:
        return None
    if not is_integer(text):
        raise invalid()
    if not counter:
        raise disabled()
    if body:
        raise has_payload()
    if len(headers) > 1 and any(header(headers, name) for name in _FORBIDDEN):
        raise invalid()
    return text


def check_stream(headers: Headers, stream: str) -> None:
    """Refuse a message for another stream (10060)."""
    expected = header(headers, "Nats-Expected-Stream")
    if expected and expected != stream:
        raise CounterError("expected stream does not match", code=10060)


def check_ttl_disabled(headers: Headers) -> None:
    """Refuse a valid time to live (10166)."""
    ttl = header(headers, TTL)
    if ttl and (ttl == "never" or _ttl_seconds(ttl) >= 1):
        raise CounterError("per-message TTL is disabled", code=10166)


def check_ttl_valid(headers: Headers) -> None:
    """Refuse an invalid time to live (10165). The server checks this last."""
    if header(headers, TTL):
        raise CounterError("invalid per-message TTL", code=10165)


def check_schedule(headers: Headers) -> None:
    if header(headers, SCHEDULE):
        raise CounterError("message schedules is disabled", code=10188)


def check_source_headers(headers: Headers) -> None:
    """Refuse headers that only sourcing writes: the origin of a message, and a source map."""
    if header(headers, STREAM_SOURCE):
        raise CounterError("message stream source header is not allowed", code=10227)
    if header(headers, SOURCES) is not None:
        raise CounterError("message counter sources header is not allowed", code=10227)


def check_rollup(headers: Headers) -> None:
    if header(headers, "Nats-Rollup"):
        raise CounterError("rollup not permitted", code=10111, status=500)


def wrong_last(seq: int) -> CounterError:
    return CounterError(f"wrong last sequence: {seq}", code=10071)


def _ttl_seconds(ttl: str) -> float:
    """Return the seconds of a Go duration or of whole seconds, or 0 for any other text."""
    if len(ttl) > 64 or _TTL.fullmatch(ttl) is None:
        return 0.0
    if ttl.isdecimal():
        return float(ttl)
    return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(ttl))


def check_size(headers: Sequence[Header], body_length: int, limit: int = -1) -> None:
    """Refuse messages that are too large for a server.

    `limit` is the stream's max_msg_size, or -1 for no limit. Raises CounterError 10097 (headers) or
    10054 (headers and body together).
    """
    if limit < 0 and sum(len(name) + len(value) + 4 for name, value in headers) < SURELY_SMALL:
        return
    size = header_bytes(headers)
    if size > MAX_HEADER_BYTES:
        raise CounterError("header size exceeds maximum allowed of 64k", code=10097)
    if limit >= 0 and size + body_length > limit:
        raise CounterError("message size exceeds maximum allowed", code=10054)


def render_body(value: str) -> str:
    """Return the body of a counter's message: `{"val":"…"}`."""
    return f'{{"val":"{value}"}}'


def read_body(body: bytes) -> str:
    """Return the value of a stored body in canonical digits. An absent or null `val` is 0.

    Reads like Go's decoder: any case of the key, the last of several keys, other keys ignored.
    Raises CounterError 10172 if the body is not such an object or `val` is not an integer.
    """
    value = ""
    for key, item in _pairs(body):
        if key.lower() != "val" or item is None:
            continue
        if not isinstance(item, str):
            raise broken()
        value = item
    if not value:
        return "0"
    if not is_integer(value):
        raise broken()
    return canonical(value)


class _Pairs(list[tuple[str, Any]]):
    """A JSON object as its pairs. The type distinguishes an object from an array."""


def _pairs(body: bytes) -> Sequence[tuple[str, Any]]:
    try:
        found = json.loads(
            body.decode("utf-8", "replace"),
            object_pairs_hook=_Pairs,
            parse_int=len,
            parse_float=len,
            parse_constant=_not_json,
        )
    except (ValueError, RecursionError) as error:
        raise broken() from error
    if found is None:
        return ()
    if not isinstance(found, _Pairs):
        raise broken()
    return found


def _not_json(text: str) -> object:
    raise ValueError(f"{text} is not JSON")


def parse_sources(text: str) -> SourceMap:
    """Parse a Nats-Counter-Sources header.

    Raises CounterError 10172 if it is not a source map.
    """
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise broken() from error
    if not isinstance(found, dict):
        raise broken()
    return {stream: _entries(subjects) for stream, subjects in found.items()}


def _entries(subjects: object) -> dict[str, str]:
    if not isinstance(subjects, Mapping):
        raise broken()
    if not all(isinstance(value, str) and is_integer(value) for value in subjects.values()):
        raise broken()
    return {subject: canonical(value) for subject, value in subjects.items()}


def render_sources(sources: Mapping[str, Mapping[str, str]]) -> str:
    """Return the Nats-Counter-Sources header, sorted and compact like the server's."""
    return json.dumps(sources, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def delta(seen: str | None, value: str) -> str:
    """Return what a source adds: its value minus the value last seen, or its whole value."""
    return canonical(value) if seen is None else subtract_text(value, seen)


def source_header(name: str, seq: int, filters: str, destinations: str, subject: str) -> str:
    """Return the Nats-Stream-Source header: origin, sequence, filters, transforms and subject."""
    return f"{name} {seq} {filters} {destinations} {subject}"


def travelling(headers: Iterable[Header]) -> Headers:
    """Return the headers of a source's message that the receiving stream keeps."""
    return tuple(
        (name, value)
        for name, value in headers
        if name != STREAM_SOURCE and not name.startswith(_STRIPPED)
    )


def added(value: str, text: str) -> str:
    """Return the value after an increment, both in digits."""
    return add_text(value, text)
