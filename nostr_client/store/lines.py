"""Lines of files as they come from elsewhere: of any length, gzipped or not, several as one."""

from __future__ import annotations

import gzip
import zlib
from typing import IO, TYPE_CHECKING, NamedTuple, Protocol

from nostr_client.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

LINE_LIMIT = 16 * 2**20
"""Bytes of one line that are read: far above any event, far below the memory."""

_GZIP = b"\x1f\x8b"
_MARK = b"\xef\xbb\xbf"
"""The byte order mark that some programs put before UTF-8."""


class Lines(Protocol):
    """What is read: a binary file, or anything with its `readline`."""

    def readline(self, size: int = -1, /) -> bytes: ...


class Line(NamedTuple):
    """One line without its end, and its number in the input, from 1."""

    number: int
    text: bytes


def read_lines(stream: Lines, chunk: int) -> Iterator[list[Line]]:
    """Lines in lists of `chunk`, without the blank ones; one over LINE_LIMIT is cut.

    A line ends only at a newline: U+2028 and its like are part of a line.
    """
    lines: list[Line] = []
    number = 0
    while raw := stream.readline(LINE_LIMIT + 1):
        number += 1
        if len(raw) > LINE_LIMIT and not raw.endswith(b"\n"):
            _skip_rest(stream)
        text = raw.strip(b" \t\r\n")
        if text:
            lines.append(Line(number, text))
        if len(lines) == chunk:
            yield lines
            lines = []
    if lines:
        yield lines


def _skip_rest(stream: Lines) -> None:
    while (part := stream.readline(LINE_LIMIT)) and not part.endswith(b"\n"):
        pass


def is_gzip(stream: object) -> bool:
    """Whether a buffered binary file begins as gzip does; nothing is taken from it."""
    peek = getattr(stream, "peek", None)
    return peek is not None and peek(2)[:2] == _GZIP


def unpacked(stream: IO[bytes]) -> Lines:
    """The file, or what is in it when it is gzipped; then `readline` may raise InvalidInput."""
    return _Unpacked(stream) if is_gzip(stream) else stream


class _Unpacked:
    def __init__(self, stream: IO[bytes]) -> None:
        self._name = str(getattr(stream, "name", "the file"))
        self._file = gzip.GzipFile(fileobj=stream)

    def readline(self, size: int = -1, /) -> bytes:
        try:
            return self._file.readline(size)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            what = f"{self._name}: the gzip file is cut off or damaged; what came before is kept"
            raise InvalidInput(what) from error


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

    def _without_mark(self, line: bytes) -> bytes:
        begins, self._begins = self._begins, False
        return (line.removeprefix(_MARK) or b"\n") if begins else line
