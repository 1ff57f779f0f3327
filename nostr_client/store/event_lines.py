"""Event lines: the forms in which files carry events, one line at a time.

People have files of more forms than one event a line: one JSON array in a line, an array with one
event a line and commas between them, recorded EVENT frames, objects without a line break between
them. Each of these gives its events. A line that is none of them gives one `InvalidEvent`, whose
text names the form where it is known and says what to do. Pure.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import zlib
from typing import IO, TYPE_CHECKING, Final, NamedTuple, Protocol, cast

import msgspec

from nostr_client.codecs.event import Event, parse_event
from nostr_client.errors import InvalidEvent, InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from _typeshed import WriteableBuffer


RATIO: Final = 100
"""Bytes out for each byte in: events of 10 kB that repeat one character reach it."""

FREE_BYTES: Final = 16 * 2**20
"""Bytes out before the ratio counts: one line of the longest size."""

BUFFER_BYTES: Final = 64 * 1024
"""Bytes that are unpacked at a time."""


class Decompressed(io.RawIOBase):
    """The unpacked bytes of `read`, which gives at most as many as asked; wrap it in a buffer.

    `taken`: how many packed bytes were read so far. Reading raises InvalidInput for a file that
    is cut off or damaged, and for one that unpacks to more than FREE_BYTES and RATIO allow.
    """

    def __init__(
        self, read: Callable[[int], bytes], taken: Callable[[], int], name: str, form: str
    ) -> None:
        super().__init__()
        self._read = read
        self._taken = taken
        self._file = f"{name}: the {form} file"
        self._given = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Unpack into a buffer; 0 at the end."""
        view = memoryview(buffer).cast("B")
        try:
            part = self._read(len(view))
        except (EOFError, zlib.error, OSError, ValueError) as error:
            what = f"{self._file} is cut off or damaged; what came before is kept"
            raise InvalidInput(what) from error
        self._given += len(part)
        if self._given > FREE_BYTES + RATIO * self._taken():
            what = f"{self._file} unpacks to more than {RATIO} times its size"
            raise InvalidInput(f"{what}; what came before is kept")
        view[: len(part)] = part
        return len(part)


class _Counted:
    """Counts what is read of a file that may be a pipe and so knows no position."""

    def __init__(self, stream: io.BufferedIOBase) -> None:
        self._stream = stream
        self.taken = 0

    def read(self, size: int = -1) -> bytes:
        part = self._stream.read(size)
        self.taken += len(part)
        return part


def gunzipped(stream: io.BufferedIOBase, name: str) -> io.BufferedReader:
    """What is in a gzip file, members one after the other; `stream` is the caller's to close.

    Reading raises InvalidInput.
    """
    packed = _Counted(stream)
    file = gzip.GzipFile(fileobj=cast("IO[bytes]", packed), mode="rb")
    return io.BufferedReader(
        Decompressed(file.read1, lambda: packed.taken, name, "gzip"), BUFFER_BYTES
    )


LINE_LIMIT = 16 * 2**20
"""Bytes of one line that are read: far above any event, far below the memory."""

STEP_BYTES = 4 * 2**20
"""Bytes after which a list of lines is given however short it is: a caller may stop in between."""

_BLANK = b" \t\r\n"
_GZIP = b"\x1f\x8b"
_MARK = b"\xef\xbb\xbf"
"""The byte order mark that some programs put before UTF-8."""


class Lines(Protocol):
    """What is read: a binary file, or anything with its `readline`."""

    def readline(self, size: int = -1, /) -> bytes: ...


class NumberedLine(NamedTuple):
    """One line without its end, and its number in the input, from 1."""

    number: int
    text: bytes


def read_lines(stream: Lines, chunk: int) -> Iterator[list[NumberedLine]]:
    """Lines in lists of at most `chunk`, without the blank ones; one over LINE_LIMIT is cut.

    A line ends only at a newline: U+2028 and its like are part of a line. A list is empty where
    STEP_BYTES are blank. Raises what `readline` raises, after the lines before it.
    """
    lines: list[NumberedLine] = []
    number = taken = 0
    try:
        while raw := stream.readline(LINE_LIMIT + 1):
            number += 1
            taken += len(raw)
            if len(raw) > LINE_LIMIT and not raw.endswith(b"\n"):
                _skip_rest(stream)
            text = raw.strip(_BLANK)
            if text:
                lines.append(NumberedLine(number, text))
            elif skipped := _skip_blank(stream):
                number += skipped.count(b"\n")
                taken += len(skipped)
            if len(lines) == chunk or taken >= STEP_BYTES:
                yield lines
                lines, taken = [], 0
    except InvalidInput:
        if lines:
            yield lines
        raise
    if lines:
        yield lines


def _skip_blank(stream: Lines) -> bytes:
    """Read the blank lines that the stream has in its buffer, all at once."""
    ahead = _ahead(stream)
    blank = len(ahead) - len(ahead.lstrip(_BLANK))
    end = ahead.rfind(b"\n", 0, blank) + 1
    return cast("IO[bytes]", stream).read(end) if end else b""


def _ahead(stream: object) -> bytes:
    """What a buffered file has read already, or reads now; nothing is taken from it."""
    peek: Callable[[int], bytes] | None = getattr(stream, "peek", None)
    return b"" if peek is None else peek(2)


def _skip_rest(stream: Lines) -> None:
    while (part := stream.readline(LINE_LIMIT)) and not part.endswith(b"\n"):
        pass


def is_gzip(stream: object) -> bool:
    """Whether a buffered binary file begins as gzip does; nothing is taken from it."""
    return _ahead(stream)[:2] == _GZIP


def unpacked(stream: IO[bytes]) -> Lines:
    """The file, or what is in it when it is gzipped; then `readline` may raise InvalidInput."""
    if not is_gzip(stream):
        return stream
    return gunzipped(cast("io.BufferedIOBase", stream), str(getattr(stream, "name", "the file")))


def joined(streams: Sequence[Lines]) -> Lines:
    """Several files as one, each without its byte order mark; no last line needs an end."""
    return _Joined(streams)


class _Joined:
    def __init__(self, streams: Sequence[Lines]) -> None:
        self._streams = list(streams)
        self._begins = True

    def readline(self, size: int = -1, /) -> bytes:
        while self._streams:
            line = self._streams[0].readline(size)
            if line:
                return self._without_mark(line)
            self._streams.pop(0)
            self._begins = True
        return b""

    def peek(self, size: int = 0, /) -> bytes:
        """What the file that is read now has in its buffer."""
        return _ahead(self._streams[0]) if self._streams else b""

    def read(self, size: int, /) -> bytes:
        """Bytes that `peek` has shown."""
        return cast("IO[bytes]", self._streams[0]).read(size)

    def _without_mark(self, line: bytes) -> bytes:
        begins, self._begins = self._begins, False
        return (line.removeprefix(_MARK) or b"\n") if begins else line


_NO_EVENTS: Final = re.compile(rb"(?:\[\s*\]?|\])\s*,?")
"""The first and the last line of an array that holds one event a line, and what `jq -s` writes of
a file without events. Looked for first: millions of such lines pack to some kilobytes."""

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
    if _NO_EVENTS.fullmatch(line):
        return []
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
