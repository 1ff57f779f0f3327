"""Lines of files as they come from elsewhere: of any length, gzipped or not, several as one."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, NamedTuple, Protocol, cast

from nostr_client.errors import InvalidInput
from nostr_client.store.decompress import gunzipped

if TYPE_CHECKING:
    import io
    from collections.abc import Callable, Iterator, Sequence

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


class Line(NamedTuple):
    """One line without its end, and its number in the input, from 1."""

    number: int
    text: bytes


def read_lines(stream: Lines, chunk: int) -> Iterator[list[Line]]:
    """Lines in lists of at most `chunk`, without the blank ones; one over LINE_LIMIT is cut.

    A line ends only at a newline: U+2028 and its like are part of a line. A list is empty where
    STEP_BYTES are blank. Raises what `readline` raises, after the lines before it.
    """
    lines: list[Line] = []
    number = taken = 0
    try:
        while raw := stream.readline(LINE_LIMIT + 1):
            number += 1
            taken += len(raw)
            if len(raw) > LINE_LIMIT and not raw.endswith(b"\n"):
                _skip_rest(stream)
            text = raw.strip(_BLANK)
            if text:
                lines.append(Line(number, text))
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
