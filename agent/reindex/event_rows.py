"""Reads events as rows in plain Python, for the reference engine and Spark's workers.

A row has the columns of Spark's one input schema. What comes from an archive is parsed as strictly
as an import does it, and its id is always checked: a dump may hold numbers as floats, halves of
characters, or lines that were cut.
"""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from agent.reindex import inputs
from nostr_client.codecs.event import Event, has_valid_id, parse_event
from nostr_client.errors import InvalidEvent, InvalidInput
from nostr_client.store.event_lines import BUFFER_BYTES, LINE_LIMIT, gunzipped, read_lines
from nostr_client.store.rows import encode_tags
from nostr_client.store.tombstones import EventRow
from nostr_client.sync.files.arrow_files import parquet_batches, unzstd
from nostr_client.sync.files.jsonl import ReasonTally

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from agent.reindex.inputs import Input

CHUNK: Final = 5_000

KEPT_BYTES: Final = 65_536
"""Bytes of a rejected line that are stored."""

ZSTD: Final = (".zst", ".zstd")
PACKED: Final = (".gz", *ZSTD)

BOM: Final = b"\xef\xbb\xbf"


class Rejected(NamedTuple):
    """A line of an archive that is no event, and why."""

    reason: str
    line: bytes


class Rejects:
    """Counts what was rejected by reason, and keeps it where a folder is given."""

    def __init__(self) -> None:
        self._reasons = ReasonTally()
        self._file: IO[bytes] | None = None

    @property
    def reasons(self) -> dict[str, int]:
        """The most frequent reasons, and "other"."""
        return self._reasons.most_frequent()[0]

    def note(self, one: Rejected) -> None:
        """Count a line; a hostile file could make a reason for each."""
        self._reasons.add(one.reason)
        if self._file is not None:
            text = one.line[:KEPT_BYTES].decode("utf-8", "replace")
            self._file.write(msgspec.json.encode({"reason": one.reason, "line": text}) + b"\n")

    @contextmanager
    def kept_in(self, out: Path) -> Iterator[None]:
        """Write what is rejected meanwhile into `rejects/` of a folder, one JSON a line.

        What an earlier run left there, of either engine, is removed.
        """
        folder = out / "rejects"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        with (folder / "rejects.jsonl").open("wb") as self._file:
            yield
        self._file = None


def reason_of(error: InvalidEvent) -> str:
    """The reason without what differs from line to line, so that reasons can be counted."""
    text = str(error)
    for mark in (" - at `", " (byte ", ": byte ", " at position"):
        text = text.partition(mark)[0]
    return text[:120]


def parse(line: bytes, verify: bool = False) -> Event | Rejected:
    """One line of an archive: an event whose id holds, and its signature if asked."""
    if len(line) > LINE_LIMIT:
        return Rejected("a line of more than 16 MiB", line[:256])
    try:
        event = parse_event(line.removeprefix(BOM).strip(b" \t\r\n"))
    except InvalidEvent as error:
        return Rejected(reason_of(error), line)
    return checked(event, line, verify)


def checked(event: Event, line: bytes, verify: bool) -> Event | Rejected:
    """The event if its id holds, and its signature if asked."""
    if not has_valid_id(event):
        return Rejected("the id is not the hash of the event", line)
    if verify:
        from nostr_client.codecs.keys import verify as verify_event

        try:
            verify_event(event)
        except InvalidEvent as error:
            return Rejected(reason_of(error), line)
    return event


class Spool:
    """A file of rows that are parsed and checked once, and read several times."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def fill(self, rows: Iterable[EventRow]) -> None:
        """Keep these rows."""
        encode = msgspec.msgpack.encode
        with self._file.open("wb") as out:
            for row in rows:
                packed = encode(row)
                out.write(len(packed).to_bytes(4, "big") + packed)

    def rows(self) -> Iterator[EventRow]:
        """The rows, in their order."""
        decode = msgspec.msgpack.Decoder(EventRow).decode
        with self._file.open("rb") as stream:
            while size := stream.read(4):
                yield decode(stream.read(int.from_bytes(size, "big")))


def events_of(source: Input, verify: bool, rejects: Rejects) -> Iterator[Event]:
    """Every good event of local archives. Raises InvalidInput for URLs, and damaged files."""
    if source.remote:
        raise InvalidInput("only Spark reads URLs: --engine spark")
    for file in inputs.files(source):
        lines = _parquet_lines(file, verify) if source.kind == "parquet" else _lines(file)
        for line in lines:
            found = parse(line, verify) if isinstance(line, bytes) else line
            if isinstance(found, Rejected):
                rejects.note(found)
            else:
                yield found


DAMAGED: Final = "a damaged file"
"""The reason for which a whole file is rejected; what is rejected is its path."""


def damaged_files(source: Input) -> list[str]:
    """The local files of archives that cannot be read to their end. Raises MissingExtra."""
    return [str(file) for file in inputs.files(source) if _is_damaged(file, source.kind)]


def _is_damaged(file: Path, kind: inputs.Kind) -> bool:
    try:
        if kind == "parquet":
            for _ in _parquet_batches(file):
                pass
        elif file.suffix in PACKED:
            with opened(file) as stream:
                while stream.read(BUFFER_BYTES):
                    pass
    except (InvalidInput, OSError):
        return True
    return False


def _lines(file: Path) -> Iterator[bytes]:
    """Lines without blank ones; one over the limit is cut, so that it is seen to be too long."""
    with opened(file) as stream:
        try:
            for lines in read_lines(stream, CHUNK):
                yield from (line.text for line in lines)
        except (EOFError, OSError) as error:
            raise InvalidInput(f"{file} is damaged: {error}") from error


@contextmanager
def opened(file: Path) -> Iterator[IO[bytes]]:
    """A file for reading, unpacked as its name says. Raises MissingExtra; reading InvalidInput."""
    if file.suffix in ZSTD:
        with unzstd(file, f"{file}: zstd") as stream:
            yield stream
        return
    with file.open("rb") as plain:
        yield gunzipped(plain, str(file)) if file.suffix == ".gz" else plain


ARCHIVE_COLUMNS: Final = ("id", "pubkey", "created_at", "kind", "tags", "content", "sig")


_BYTES: Final = ("id", "pubkey", "tags", "content", "sig")
"""Columns of one long text or bytes each."""


def _parquet_batches(file: Path) -> Iterator[Any]:
    return parquet_batches(
        file, f"{file}: Parquet", CHUNK, columns=ARCHIVE_COLUMNS, dictionaries=_BYTES
    )


def _parquet_lines(file: Path, verify: bool) -> Iterator[Event | Rejected]:
    for batch in _parquet_batches(file):
        yield from parquet_events([_decoded(column) for column in batch.columns], verify)


def _decoded(column: Any) -> Any:
    decode = getattr(column, "dictionary_decode", None)
    return column if decode is None else decode()


def parquet_events(columns: Sequence[Any], verify: bool) -> Iterator[Event | Rejected]:
    """Rows of ARCHIVE_COLUMNS as events, as strict as lines are."""
    for values in zip(*(column.to_pylist() for column in columns), strict=True):
        id_, pubkey, created_at, kind, tags, content, sig = values
        try:
            event = parse_event(
                {
                    "id": id_.hex(),
                    "pubkey": pubkey.hex(),
                    "created_at": created_at,
                    "kind": kind,
                    "tags": msgspec.json.decode(tags),
                    "content": content,
                    "sig": sig.hex(),
                }
            )
        except (InvalidEvent, AttributeError, TypeError, ValueError) as error:
            yield Rejected(f"not an event: {type(error).__name__}", repr(values)[:256].encode())
            continue
        yield checked(event, id_, verify)


def archive_values(events: Iterable[Event]) -> list[tuple[Any, ...]]:
    """Events as rows of ARCHIVE_COLUMNS."""
    return [
        (
            bytes.fromhex(event.id),
            bytes.fromhex(event.pubkey),
            event.created_at,
            event.kind,
            encode_tags(event.tags).decode(),
            event.content,
            bytes.fromhex(event.sig),
        )
        for event in events
    ]
