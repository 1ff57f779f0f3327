"""Read the events of a file, one line at a time, in several forms.

Files have these forms:

- one event a line
- one JSON array in a line
- an array with one event a line, and commas between the events
- recorded EVENT frames
- objects without a line break between them

Each of these forms gives its events. Any other line gives one `InvalidEvent`. If the form of
the line is known, its text names the form and says what to do.

A file of which no line can be read, such as one that xz packed, is refused as a whole. The error
has a command that converts it.

This module opens no files.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import shlex
import zlib
from typing import IO, TYPE_CHECKING, Final, NamedTuple, Protocol, cast

import msgspec

from nostr_client.codecs.event import Event, parse_event
from nostr_client.errors import InvalidEvent, InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from _typeshed import WriteableBuffer


RATIO: Final = 100
"""Most bytes of output for each byte of input.

Events of 10 kB that repeat one character reach it.
"""

FREE_BYTES: Final = 16 * 2**20
"""Bytes of output before RATIO applies: one line of the longest size."""

BUFFER_BYTES: Final = 64 * 1024
"""Bytes that are unpacked at a time."""


class ForeignForm(NamedTuple):
    """A form of files that is not read, and the command that writes its content to stdout."""

    what: str
    command: str


_TAR: Final = ForeignForm("a tar archive", "tar -xOf")
_UTF_16: Final = ForeignForm("text in UTF-16", "iconv -f UTF-16 -t UTF-8")
_UTF_16LE: Final = ForeignForm("text in UTF-16", "iconv -f UTF-16LE -t UTF-8")
_UTF_16BE: Final = ForeignForm("text in UTF-16", "iconv -f UTF-16BE -t UTF-8")

_FOREIGN: Final = {
    b"\xfd7zXZ\0": ForeignForm("packed with xz", "xz -dc"),
    b"BZh": ForeignForm("packed with bzip2", "bzip2 -dc"),
    b"\x04\x22\x4d\x18": ForeignForm("packed with lz4", "lz4 -dc"),
    b"\x1f\x9d": ForeignForm("packed with compress", "gzip -dc"),
    b"PK\x03\x04": ForeignForm("a zip archive", "unzip -p"),
    b"\xff\xfe": _UTF_16,
    b"\xfe\xff": _UTF_16,
    b"{\0": _UTF_16LE,
    b"[\0": _UTF_16LE,
    b"\0{": _UTF_16BE,
    b"\0[": _UTF_16BE,
}
"""Forms by the first bytes. No line of JSON in UTF-8 begins with any of these."""

_TAR_MARK: Final = slice(257, 262)
"""The place of "ustar" in the header of the first file of a tar archive."""

BEGIN_BYTES: Final = 512
"""Bytes of a file that show each of these forms."""


def foreign_form(begins: bytes) -> ForeignForm | None:
    """Return the form of a file that begins with these bytes, if no line of it can be read."""
    if begins[_TAR_MARK] == b"ustar" and b"\0" in begins[: _TAR_MARK.start]:
        return _TAR
    return next((form for magic, form in _FOREIGN.items() if begins.startswith(magic)), None)


def refuse_foreign(begins: bytes, name: str, packed: str = "") -> None:
    """Raise InvalidInput if a file that begins with these bytes has no line that can be read.

    `packed` is the packing of the file around these bytes.
    """
    form = foreign_form(begins)
    if form is None:
        return
    file = "FILE" if name.startswith("<") else shlex.quote(name)
    command = f"{packed} -dc {file} | {form.command} -" if packed else f"{form.command} {file}"
    what = f"the content of {name}" if packed else name
    raise InvalidInput(
        f"{what} is {form.what}, which import does not read:"
        f" use `{command} | nostr-client store import -`"
    )


class Decompressed(io.RawIOBase):
    """Stream of the unpacked bytes of a compressed file. Wrap it in a buffer.

    `read` returns at most as many unpacked bytes as asked. `taken` returns how many packed bytes
    were read so far; it stays an attribute of the stream. Reading raises InvalidInput if the file
    is cut off or damaged, if it unpacks to more than FREE_BYTES and RATIO allow, or if its content
    is a tar archive or another form that is not read.
    """

    def __init__(
        self, read: Callable[[int], bytes], taken: Callable[[], int], name: str, form: str
    ) -> None:
        super().__init__()
        self._read = read
        self.taken = taken
        self._name, self._form = name, form
        self._file = f"{name}: the {form} file"
        self._given = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Unpack into a buffer. Return 0 at the end."""
        view = memoryview(buffer).cast("B")
        try:
            part = self._read(len(view))
        except (EOFError, zlib.error, OSError, ValueError) as error:
            what = f"{self._file} is cut off or damaged"
            raise InvalidInput(what) from error
        if not self._given:
            refuse_foreign(part, self._name, self._form)
        self._given += len(part)
        if self._given > FREE_BYTES + RATIO * self.taken():
            what = f"{self._file} unpacks to more than {RATIO} times its size"
            raise InvalidInput(what)
        view[: len(part)] = part
        return len(part)


class _Counted:
    """Counts the bytes that are read from a file. A pipe has no position to ask for."""

    def __init__(self, stream: io.BufferedIOBase) -> None:
        self._stream = stream
        self.taken = 0

    def read(self, size: int = -1) -> bytes:
        part = self._stream.read(size)
        self.taken += len(part)
        return part


def gunzipped(stream: io.BufferedIOBase, name: str) -> io.BufferedReader:
    """Return the content of a gzip file, with all its members in order.

    The caller closes `stream`. Reading raises InvalidInput.
    """
    packed = _Counted(stream)
    file = gzip.GzipFile(fileobj=cast("IO[bytes]", packed), mode="rb")
    return io.BufferedReader(
        Decompressed(file.read1, lambda: packed.taken, name, "gzip"), BUFFER_BYTES
    )


LINE_LIMIT = 16 * 2**20
"""Most bytes of one line that are read: far above any event, far below the memory."""

STEP_BYTES = 4 * 2**20
"""Bytes after which `read_lines` yields a list, even a short one, so that a caller can stop."""

_BLANK = b" \t\r\n"
_GZIP = b"\x1f\x8b"
_MARK = b"\xef\xbb\xbf"
"""The byte order mark that some programs write before UTF-8."""


class Lines(Protocol):
    """Input of `read_lines`: a binary file, or any object with the `readline` of one."""

    def readline(self, size: int = -1, /) -> bytes: ...


class NumberedLine(NamedTuple):
    """One line without its end, and its number in the input, counted from 1."""

    number: int
    text: bytes


def read_lines(stream: Lines, chunk: int) -> Iterator[list[NumberedLine]]:
    """Yield lists of at most `chunk` lines, without blank lines.

    A line longer than LINE_LIMIT is cut. Only a newline ends a line. U+2028 and similar characters
    are part of the line. After STEP_BYTES of blank lines, the list is empty.

    If `readline` raises InvalidInput, the lines before the error are yielded first.
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
    """Read all blank lines at the start of the stream's buffer at once."""
    ahead = _ahead(stream)
    blank = len(ahead) - len(ahead.lstrip(_BLANK))
    end = ahead.rfind(b"\n", 0, blank) + 1
    return cast("IO[bytes]", stream).read(end) if end else b""


def _ahead(stream: object) -> bytes:
    """Return the buffered bytes of a file without consuming them.

    If the buffer is empty, the file reads ahead.
    """
    peek: Callable[[int], bytes] | None = getattr(stream, "peek", None)
    return b"" if peek is None else peek(2)


def _skip_rest(stream: Lines) -> None:
    while (part := stream.readline(LINE_LIMIT)) and not part.endswith(b"\n"):
        pass


def is_gzip(stream: object) -> bool:
    """Return whether a buffered binary file begins like gzip, without consuming bytes."""
    return _ahead(stream)[:2] == _GZIP


def unpacked(stream: IO[bytes]) -> Lines:
    """Return the file, or its unpacked content if the file is gzip.

    Raises InvalidInput for a file of which no line can be read, such as one that xz packed; so may
    `readline` of gzip content.
    """
    name = str(getattr(stream, "name", "<file>"))
    if is_gzip(stream):
        return gunzipped(cast("io.BufferedIOBase", stream), name)
    refuse_foreign(_ahead(stream), name)
    return stream


class JoinedLines:
    """Several files as one, each without its byte order mark.

    The last line of a file may lack its newline.
    """

    def __init__(self, streams: Sequence[Lines]) -> None:
        self._streams = list(streams)
        self._begins = True

    def readline(self, size: int = -1, /) -> bytes:
        """Return the next line of the current file, or of the next one."""
        while self._streams:
            line = self._streams[0].readline(size)
            if line:
                return self._without_mark(line)
            self._streams.pop(0)
            self._begins = True
        return b""

    def peek(self, size: int = 0, /) -> bytes:
        """Return the buffered bytes of the current file."""
        return _ahead(self._streams[0]) if self._streams else b""

    def read(self, size: int, /) -> bytes:
        """Read bytes that `peek` has returned."""
        return cast("IO[bytes]", self._streams[0]).read(size)

    def _without_mark(self, line: bytes) -> bytes:
        begins, self._begins = self._begins, False
        return (line.removeprefix(_MARK) or b"\n") if begins else line


_NO_EVENTS: Final = re.compile(rb"(?:\[\s*\]?|\])\s*,?")
"""A line that has no event: a bracket around an array, or an empty array.

An array with one event a line begins and ends with such a line. `jq -s` writes one for a file
without events.

This pattern is tried first, because millions of such lines compress to a few kilobytes.
"""

_raws: Final = msgspec.json.Decoder(list[msgspec.Raw]).decode
_scan: Final = json.JSONDecoder().raw_decode

_PRETTY: Final = re.compile(rb'[{}\[\]],?|"[^"\\]*"(\s*:.*|,?)')
_PSQL: Final = re.compile(rb"-[-+]*|\(\d+ rows?\)")

TOO_LONG: Final = "a line of more than 16 MiB: write one event a line (jq -c '.[]')"
PRETTY: Final = "JSON over several lines: write one event a line (jq -c .)"
PSQL: Final = "a line of a table that psql draws: write bare rows (psql -At)"
MAX_OPEN: Final = 64
"""Most unfinished arrays that are noted. Each of several joined files may have one."""

CUT_OFF: Final = "an array that begins here and does not end: the file is cut off"


def parse_event_line(line: bytes) -> list[Event | InvalidEvent]:
    """Return the events of one stripped line in file order, or why the line has none.

    The list is empty for an array without events, and for a bracket around an array with one event
    a line.
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
    """The arrays over several lines that have not ended."""

    def __init__(self) -> None:
        self._begun: list[int] = []

    @property
    def first(self) -> int | None:
        """The number of the line in which the first unfinished array begins, or None."""
        return self._begun[0] if self._begun else None

    def pass_line(self, number: int, text: bytes) -> None:
        """Note one stripped line. `number` is its line number in the file."""
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
    """Return the events of an array or of a client's or relay's EVENT frame, else nothing."""
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
    """Return the objects of a line that has two or more, or one and the end of its array.

    Other lines give an empty list.
    """
    text = line.removesuffix(b"]").rstrip()
    if not text.startswith(b"{"):
        return []
    try:
        return list(_split(text.decode()))
    except (ValueError, RecursionError):
        return []


def _split(text: str) -> Iterator[bytes]:
    """Yield each JSON value of a text, with commas or nothing between the values."""
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
    """Return the error, with what to do if the form of the line is known."""
    if _PSQL.fullmatch(line):
        return InvalidEvent(PSQL)
    return InvalidEvent(PRETTY) if _PRETTY.fullmatch(line) else error
