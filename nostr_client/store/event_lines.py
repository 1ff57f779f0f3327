"""Event lines: the forms in which files carry events, one line at a time.

People have files of more forms than one event a line: one JSON array in a line, an array with one
event a line and commas between them, recorded EVENT frames, objects without a line break between
them. Each of these gives its events. A line that is none of them gives one `InvalidEvent`, whose
text names the form where it is known and says what to do. Pure.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

import msgspec

from nostr_client.errors import InvalidEvent
from nostr_client.event import Event, parse_event
from nostr_client.store.lines import LINE_LIMIT

if TYPE_CHECKING:
    from collections.abc import Iterator

_BRACKETS: Final = (b"[", b"]")
"""The first and the last line of an array that holds one event a line."""

_EMPTY: Final = re.compile(rb"\[\s*\]")
"""What `jq -s` writes of a file without events."""

_raws: Final = msgspec.json.Decoder(list[msgspec.Raw]).decode
_scan: Final = json.JSONDecoder().raw_decode

_PRETTY: Final = re.compile(rb'[{}\[\]],?|"[^"\\]*"(\s*:.*|,?)')
_PSQL: Final = re.compile(rb"-[-+]*|\(\d+ rows?\)")

TOO_LONG: Final = "a line of more than 16 MiB: write one event a line (jq -c '.[]')"
PRETTY: Final = "JSON over several lines: write one event a line (jq -c .)"
PSQL: Final = "a line of a table that psql draws: write bare rows (psql -At)"
MAX_OPEN: Final = 64
"""Unended arrays that are noted: files that are read one after the other may each have one."""

CUT_OFF: Final = "an array that begins here and does not end: the file is cut off"


def parse_event_line(line: bytes) -> list[Event | InvalidEvent]:
    """The events of one stripped line in file order, or why it has none.

    The brackets around an array of one event a line, and an array of no events, give an empty list.
    """
    if len(line) > LINE_LIMIT:
        return [InvalidEvent(TOO_LONG)]
    try:
        return [parse_event(line)]
    except InvalidEvent as error:
        return _other_form(line, error)


class OpenArrays:
    """Which arrays over several lines have not ended."""

    def __init__(self) -> None:
        self._begun: list[int] = []

    @property
    def first(self) -> int | None:
        """The number of the line in which the first of them begins, None where all have ended."""
        return self._begun[0] if self._begun else None

    def pass_line(self, number: int, text: bytes) -> None:
        """Take note of one stripped line; `number` is its place in the file."""
        if text.startswith(b"["):
            spread = text[1:].lstrip()[:1] in (b"", b"{") and not _ends(text)
            if spread and len(self._begun) < MAX_OPEN:
                self._begun.append(number)
        elif _ends(text) and self._begun:
            self._begun.pop()


def _ends(text: bytes) -> bool:
    return text.endswith((b"]", b"],"))


def _other_form(line: bytes, error: InvalidEvent) -> list[Event | InvalidEvent]:
    bare = line.removesuffix(b",").rstrip()
    if bare in _BRACKETS or _EMPTY.fullmatch(bare):
        return []
    parts = _elements(bare) if bare.startswith(b"[") else _objects(bare)
    if not parts:
        return [_hinted(line, error)]
    return [_parsed(part) for part in parts]


def _elements(line: bytes) -> list[bytes]:
    """The events of an array or of an EVENT frame, in both directions; else nothing."""
    if line.endswith((b"},", b"}")):  # "[" and the first event in one line
        return _objects(line[1:].removesuffix(b","))
    try:
        raws = _raws(line)
    except (ValueError, RecursionError):
        return []
    if raws and bytes(raws[0]) == b'"EVENT"':
        raws = raws[-1:] if 2 <= len(raws) <= 3 else []
    return [bytes(raw) for raw in raws]


def _objects(line: bytes) -> list[bytes]:
    """Two or more objects in one line, or one with the end of its array; else nothing."""
    text = line.removesuffix(b"]").rstrip()
    if not text.startswith(b"{"):
        return []
    try:
        return list(_split(text.decode()))
    except (ValueError, RecursionError):
        return []


def _split(text: str) -> Iterator[bytes]:
    """Each JSON value of a text in which commas or nothing stand between values."""
    at = 0
    while at < len(text):
        _, end = _scan(text, at)
        yield text[at:end].encode()
        at = end
        while at < len(text) and text[at] in " \t,":
            at += 1


def _parsed(text: bytes) -> Event | InvalidEvent:
    try:
        return parse_event(text)
    except InvalidEvent as error:
        return error


def _hinted(line: bytes, error: InvalidEvent) -> InvalidEvent:
    """The reason, with what to do about it where the form is known."""
    if _PSQL.fullmatch(line):
        return InvalidEvent(PSQL)
    return InvalidEvent(PRETTY) if _PRETTY.fullmatch(line) else error
