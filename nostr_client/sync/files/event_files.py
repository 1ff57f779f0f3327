"""Write and read event files: JSONL, plain or compressed, Parquet, and SQLite copies.

Readers yield lines. Parquet has a few large files with one row for each event. Ids and keys are
hex, times are timestamps and seconds, and tags are lists. A reader recognises a file by its first
bytes, not by its name. Compression with zstd, and Parquet, need pyarrow (extra `[parquet]`).
"""

from __future__ import annotations

import gzip
import io
import shutil
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, TYPE_CHECKING, Any, Final, Literal, NamedTuple, cast

import msgspec

from nostr_client.errors import InvalidInput, optional
from nostr_client.paths import new_file
from nostr_client.store.event_lines import JoinedLines, parse_event_line, read_lines, unpacked
from nostr_client.store.file.connect import create_private
from nostr_client.store.sql.copy import count_back, read_back
from nostr_client.sync.files.arrow_files import parquet_batches, parquet_rows, python_values, unzstd

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from nostr_client.codecs.event import Event
    from nostr_client.errors import InvalidEvent
    from nostr_client.store.event_lines import Decompressed, Lines

Form = Literal["jsonl", "gzip", "zstd", "parquet", "sqlite"]

NAMED: Final[dict[str, Form]] = {
    ".jsonl": "jsonl", ".json": "jsonl", ".ndjson": "jsonl", ".gz": "gzip", ".zst": "zstd",
    ".zstd": "zstd", ".parquet": "parquet", ".db": "sqlite", ".sqlite": "sqlite",
    ".sqlite3": "sqlite",
}  # fmt: skip
"""Format for each ending of a file name."""

FILE_BYTES: Final = 128 * 2**20
"""Approximate bytes of a Parquet file: few files to list, but enough for parallel readers."""

LINES: Final = 256
"""Lines to read at once."""

PARQUET_ROWS: Final = 1_000
"""Rows of a Parquet file to read at once."""

ROWS: Final = 20_000
GROUP_BYTES: Final = 32 * 2**20
"""A row group ends after this many events, or bytes of contents and tags. It is built in memory."""

LAST_SECOND: Final = 253_402_300_799
"""End of the year 9999. Readers of Parquet refuse later timestamps, so the column is then empty."""

_MAGIC: Final[dict[bytes, Form]] = {
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"PAR1": "parquet",
    b"SQLite format 3\0": "sqlite",
}
_MAGIC_BYTES: Final = 16


def form_of(name: str, form: str | None) -> Form:
    """Return the requested format, else that of the name's ending; jsonl without an ending.

    If jsonl is requested, the name decides the compression. Raises InvalidInput for an unknown
    ending.
    """
    ending = name[name.rfind(".") :] if "." in name else ""
    named = NAMED.get(ending)
    if form == "jsonl" and named in ("gzip", "zstd"):
        return named
    if form is not None:
        return cast("Form", form)
    if named is None and ending:
        raise InvalidInput(f"{name}: unknown ending; the known ones are {', '.join(NAMED)}")
    return named or "jsonl"


@contextmanager
def writer(target: Path, form: Form) -> Iterator[Callable[[Event], object]]:
    """Write events into a new file, or a folder of Parquet files. It appears complete or not at
    all.

    Only its owner can read it, like the store. Raises InvalidInput if the target exists, and
    MissingExtra if pyarrow is needed and not installed.
    """
    with (
        new_file(target) as part,
        _parquet(part) if form == "parquet" else _lines(part, form) as write,
    ):
        yield write


@contextmanager
def _lines(part: Path, form: Form) -> Iterator[Callable[[Event], object]]:
    create_private(part)
    with ExitStack() as opened:
        out: Any
        if form == "zstd":
            with optional("zstd"):
                import pyarrow as pa
            out = opened.enter_context(pa.output_stream(str(part), compression="zstd"))
        else:
            raw = out = opened.enter_context(part.open("wb"))
            if form == "gzip":
                out = opened.enter_context(gzip.GzipFile("", "wb", 6, raw))
        yield lambda event: out.write(event.to_json().encode() + b"\n")


@contextmanager
def _parquet(part: Path) -> Iterator[Callable[[Event], object]]:
    files = _ParquetFiles(part)
    try:
        yield files.add
        files.flush()
    finally:
        files.close()


class _ParquetFiles:
    """Writes `events-00000.parquet` and further files in a folder. A file ends after FILE_BYTES."""

    def __init__(self, folder: Path) -> None:
        with optional("Parquet"):
            import pyarrow as pa
            import pyarrow.parquet as pq
        self._arrow, self._pq = pa, pq
        self._schema = pa.schema(
            [
                ("id", pa.string()),
                ("pubkey", pa.string()),
                ("kind", pa.int32()),
                ("created_at", pa.timestamp("s", "UTC")),
                ("created_ts", pa.int64()),
                ("content", pa.string()),
                ("tags", pa.list_(pa.list_(pa.string()))),
                ("sig", pa.string()),
            ]
        )
        folder.mkdir(mode=0o700)
        self._folder = folder
        self._number = 0
        self._rows: list[Event] = []
        self._bytes = 0
        self._sink: Any = None
        self._writer: Any = None

    def add(self, event: Event) -> None:
        """Add an event. Write the row group if it is full."""
        self._rows.append(event)
        self._bytes += len(event.content) + sum(len(part) for tag in event.tags for part in tag)
        if len(self._rows) >= ROWS or self._bytes >= GROUP_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write the last row group. An export without events is one file without rows."""
        if self._writer is None:
            self._begin()
        if self._rows:
            columns = [self._column(field) for field in self._schema]
            self._writer.write_table(self._arrow.Table.from_arrays(columns, schema=self._schema))
        self._rows, self._bytes = [], 0
        if self._sink.tell() >= FILE_BYTES:
            self.close()

    def _column(self, field: Any) -> Any:
        values: list[Any]
        if field.name == "created_at":
            values = [at if (at := e.created_at) <= LAST_SECOND else None for e in self._rows]
        else:
            name = {"created_ts": "created_at"}.get(field.name, field.name)
            values = [getattr(event, name) for event in self._rows]
        return self._arrow.array(values, field.type)

    def _begin(self) -> None:
        self._sink = self._arrow.OSFile(
            str(self._folder / f"events-{self._number:05}.parquet"), "wb"
        )
        self._number += 1
        self._writer = self._pq.ParquetWriter(self._sink, self._schema, compression="zstd")

    def close(self) -> None:
        """Close the current file."""
        if self._writer is not None:
            self._writer.close()
            self._sink.close()
        self._writer = None


class _OpenFile(NamedTuple):
    """The lines of a file, its bytes (None for a pipe), and how many of these are read so far."""

    lines: Lines
    size: int | None
    position: Callable[[], int]


class EventFiles(JoinedLines):
    """The lines of several event files, one file after the other, and how far they are read.

    Bytes are those on the disk. `size` is their number, or None if a file is a pipe.
    """

    def __init__(self, files: Sequence[_OpenFile]) -> None:
        super().__init__([file.lines for file in files])
        self._files = files
        sizes = [file.size for file in files if file.size is not None]
        self.size = sum(sizes) if len(sizes) == len(files) else None

    def position(self) -> int:
        """Return how many bytes are read. Of a file of rows, it is the share of its rows.

        The caller reads no line at the same time.
        """
        return sum(min(file.position(), file.size or 0) for file in self._files)


@contextmanager
def opened(paths: Sequence[Path]) -> Iterator[EventFiles]:
    """Yield the events of files as lines, one file after the other. "-" is stdin.

    A folder stands for its Parquet files. Reading raises InvalidInput if a file is damaged. Opening
    raises OSError, InvalidInput for a form that is not read, and MissingExtra if a file needs
    pyarrow.
    """
    with ExitStack() as files:
        yield EventFiles([_opened(path, files) for one in paths for path in _within(one)])


def events_of(path: Path) -> Iterator[Event | InvalidEvent]:
    """Yield the events of a file in the forms of `opened`, or why a line has none.

    Nothing is verified. Raises as `opened`, and InvalidInput if the file is damaged.
    """
    with opened([path]) as lines:
        for chunk in read_lines(lines, LINES):
            for line in chunk:
                yield from parse_event_line(line.text)


def _within(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    found = sorted(path.rglob("*.parquet"))
    if not found:
        raise InvalidInput(f"{path} has no Parquet file in it")
    return found


def _opened(path: Path, files: ExitStack) -> _OpenFile:
    if str(path) == "-":
        return _piped(_stdin(), files)
    file = files.enter_context(path.open("rb"))
    if not file.seekable():
        return _piped(_pipe(file.fileno(), str(path)), files)
    form, size = _begun_form(file), path.stat().st_size
    if form == "parquet":
        return _of_rows(size, _parquet_lines(path), lambda: parquet_rows(path, "Parquet"))
    if form == "sqlite":
        return _of_rows(size, read_back(path), lambda: count_back(path))
    if form == "zstd":
        lines = files.enter_context(unzstd(path, "zstd"))
        return _OpenFile(lines, size, cast("Decompressed", lines.raw).taken)
    return _OpenFile(unpacked(cast("IO[bytes]", file)), size, file.tell)


def _stdin() -> IO[bytes]:
    try:
        return _pipe(sys.stdin.fileno(), "<stdin>")
    except OSError:  # a test or a notebook has put another object in its place
        return sys.stdin.buffer


def _pipe(fd: int, name: str) -> IO[bytes]:
    """Return a stream of a pipe that no exit waits for, although a thread may wait in a read of it.

    To close a stream, or to end a process that has one of the standard streams, takes the lock that
    a read holds.
    """
    raw = io.FileIO(fd, closefd=False)
    raw.name = name
    return cast("IO[bytes]", io.BufferedReader(raw))


def _at_start() -> int:
    """Return the position in a pipe, which has none."""
    return 0


def _begun_form(file: IO[bytes]) -> Form | None:
    """Return the format that the first bytes decide; nothing is taken from the file."""
    begins = file.peek(_MAGIC_BYTES) if isinstance(file, io.BufferedReader) else b""
    return next((form for magic, form in _MAGIC.items() if begins.startswith(magic)), None)


def _piped(stream: IO[bytes], files: ExitStack) -> _OpenFile:
    """Return the lines of a pipe; pyarrow and SQLite read a temporary copy of it."""
    if _begun_form(stream) in (None, "gzip"):
        return _OpenFile(unpacked(stream), None, _at_start)
    folder = files.enter_context(TemporaryDirectory(prefix="nostr-client-"))
    copy = Path(folder) / "copy"
    with copy.open("wb") as out:
        shutil.copyfileobj(stream, out)
    return _opened(copy, files)


def _of_rows(size: int, lines: Iterator[bytes], count: Callable[[], int]) -> _OpenFile:
    rows = _Rows(lines, count)
    return _OpenFile(rows, size, lambda: int(size * rows.share))


class _Rows:
    """The rows of a file as lines, and which share of them is read.

    `count` returns how many rows there are. It is asked before the first row.
    """

    def __init__(self, lines: Iterator[bytes], count: Callable[[], int]) -> None:
        self._lines = lines
        self._count = count
        self._read = 0
        self._all: int | None = None

    def readline(self, size: int = -1, /) -> bytes:
        if self._all is None:
            self._all = self._count()
        line = next(self._lines, b"")
        self._read += bool(line)
        return line

    @property
    def share(self) -> float:
        return self._read / self._all if self._all else 0.0


def _parquet_lines(path: Path) -> Iterator[bytes]:
    """Yield the rows of a file of this module, or of `nostr-agent archive`, as lines."""
    for batch in parquet_batches(path, "Parquet", PARQUET_ROWS):
        held = {*batch.schema.names}
        time = "created_ts" if "created_ts" in held else "created_at"
        names = ("id", "pubkey", "kind", time, "tags", "content", "sig")
        absent = [None] * batch.num_rows
        columns = [_column(batch, name) if name in held else absent for name in names]
        yield from map(_line, *columns)


def _column(batch: Any, name: str) -> list[Any]:
    """Return the values of a column, with bytes as hex."""
    values = python_values(batch.column(name))
    return [one.hex() if isinstance(one, bytes) else one for one in values]


def _line(
    id: Any, pubkey: Any, kind: Any, created_at: Any, tags: Any, content: Any, sig: Any
) -> bytes:
    """Return a row as a line of JSON. The parser of lines refuses a row that is not an event."""
    fields = {
        "id": id,
        "pubkey": pubkey,
        "kind": kind,
        "created_at": created_at,
        "tags": msgspec.Raw(tags.encode()) if isinstance(tags, str) else tags,
        "content": content,
        "sig": sig,
    }
    try:
        return msgspec.json.encode(fields) + b"\n"
    except (msgspec.MsgspecError, UnicodeEncodeError):
        return b"null\n"
