"""Writes events to archives and reads them: JSONL, plain or compressed, or Parquet by kind and day.

Parquet is written in folders `kind=…/day=…`, which Spark, DuckDB and polars read as columns: a
question about followers reads only kind 3. Its columns are `reindex.event_rows.ARCHIVE_COLUMNS`:
ids and keys as bytes, tags as their JSON.
"""

from __future__ import annotations

import gzip
import os
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING, Any, Final, Literal, cast

from agent.reindex.event_rows import ARCHIVE_COLUMNS, Rejects, archive_values, events_of
from nostr_client.errors import InvalidInput, optional
from nostr_client.paths import new_file
from nostr_client.store.file.connect import create_private
from nostr_client.store.index.schema import DAY
from nostr_client.sync.files.jsonl import import_jsonl

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Sequence
    from pathlib import Path

    from agent.reindex.inputs import Input, Kind
    from nostr_client.codecs.event import Event
    from nostr_client.store.sqlite import SqliteStore
    from nostr_client.sync.files.jsonl import ImportReport

Form = Literal["jsonl", "gzip", "zstd", "parquet"]

NAMED: Final[dict[str, Form]] = {
    ".jsonl": "jsonl",
    ".json": "jsonl",
    ".ndjson": "jsonl",
    ".gz": "gzip",
    ".zst": "zstd",
    ".zstd": "zstd",
    ".parquet": "parquet",
}
"""The form of an archive by the ending of its name, which readers go by."""

ROWS: Final = 20_000
"""Events that are gathered before they are written: some 40 MB."""

GZIP_LEVEL: Final = 6
"""The default of `gzip`: 9 takes twice the time and saves a hundredth of the bytes."""

OPEN_FILES: Final = 64
"""Parquet files that are open at once: above that the oldest is closed, and a new one begun."""


def form_of(path: Path, form: Form | None) -> Form:
    """The form that is asked for, else that of the name; a name without an ending is a folder's.

    Raises InvalidInput if the name has no known form, or another one than asked for: readers go by
    the name.
    """
    if str(path) == "-":
        raise InvalidInput(
            "an archive is a file or a folder: `nostr-client store export` has stdout"
        )
    named = NAMED.get(path.suffix)
    if form is None and named is None and path.suffix:
        raise InvalidInput(f"{path}: no form has this ending; there are {', '.join(NAMED)}")
    if form is None:
        return named or "parquet"
    if form != named and (named is not None or form in ("gzip", "zstd")):
        endings = ", ".join(ending for ending, other in NAMED.items() if other == form)
        raise InvalidInput(
            f"{path} is not how {form} is named, and would not be read back: {endings}"
        )
    return form


async def export(events: AsyncIterator[Event], target: Path, form: Form) -> int:
    """Write events as an archive that appears whole or not at all; how many.

    Only its owner can read it, as with the store.
    Raises InvalidInput where the target is there, MissingExtra. Cancelled, it leaves
    nothing.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    number = 0
    with new_file(target) as part, _writer(part, form) as write:
        async for event in events:
            write(event)
            number += 1
    return number


async def import_(
    store: SqliteStore, source: Input, progress: Callable[[int, int], None] | None = None
) -> tuple[ImportReport, dict[str, int]]:
    """Verify and save what archives hold; the report, and what was no event before that by reason.

    Raises StoreError, InvalidInput for a damaged file. Cancelled, it keeps what was committed.
    """
    rejects = Rejects()
    lines = _Lines(events_of(source, False, rejects))
    return await import_jsonl(store, lines, progress), dict(rejects.reasons)


class _Lines:
    """Events as the lines that an import reads."""

    def __init__(self, events: Iterator[Event]) -> None:
        self._events = events

    def readline(self, size: int = -1, /) -> bytes:
        event = next(self._events, None)
        return b"" if event is None else event.to_json().encode() + b"\n"


@contextmanager
def _writer(part: Path, form: Form) -> Iterator[Callable[[Event], object]]:
    if form == "parquet":
        with _parquet(part) as write:
            yield write
        return
    create_private(part)
    with _stream(part, form) as out:
        yield lambda event: out.write(event.to_json().encode() + b"\n")


@contextmanager
def _stream(part: Path, form: Form) -> Iterator[IO[bytes] | Any]:
    with _packed(part, form) as out:
        yield out
    with part.open("rb") as made:
        os.fsync(made.fileno())


@contextmanager
def _packed(part: Path, form: Form) -> Iterator[IO[bytes] | Any]:
    if form == "gzip":
        with _gzip(part) as out:
            yield out
    elif form == "zstd":
        with optional("zstd"):
            import pyarrow as pa
        with pa.output_stream(str(part), compression="zstd") as out:
            yield out
    else:
        with part.open("wb") as out:
            yield out


@contextmanager
def _gzip(part: Path) -> Iterator[IO[bytes]]:
    """Without the name in it that the file has while it is made."""
    with (
        part.open("wb") as raw,
        gzip.GzipFile("", "wb", compresslevel=GZIP_LEVEL, fileobj=raw) as out,
    ):
        yield cast("IO[bytes]", out)


@contextmanager
def _parquet(part: Path) -> Iterator[Callable[[Event], object]]:
    made = _Partitions(part)
    try:
        yield made.add
        made.flush()
    finally:
        made.close()


class _Partitions:
    """Parquet files by kind and day; few are open, rows are gathered."""

    def __init__(self, root: Path) -> None:
        with optional("Parquet"):
            import pyarrow as pa
            import pyarrow.parquet as pq

        self._arrow = pa
        self._pq = pq
        self._root = root
        self._root.mkdir(parents=True, mode=0o700)
        self._schema = archive_schema()
        self._waiting: dict[tuple[int, int], list[Event]] = {}
        self._gathered = 0
        self._writers: dict[tuple[int, int], Any] = {}
        self._files = 0

    def add(self, event: Event) -> None:
        self._waiting.setdefault((event.kind, event.created_at // DAY), []).append(event)
        self._gathered += 1
        if self._gathered >= ROWS:
            self.flush()

    def flush(self) -> None:
        for key, events in self._waiting.items():
            columns = zip(*archive_values(events), strict=True)
            table = self._arrow.table(
                [self._arrow.array(c, f.type) for c, f in zip(columns, self._schema, strict=True)],
                schema=self._schema,
            )
            self._writer(key).write_table(table)
        self._waiting = {}
        self._gathered = 0

    def _writer(self, key: tuple[int, int]) -> Any:
        found = self._writers.pop(key, None)
        if found is None:
            if len(self._writers) >= OPEN_FILES:
                self._writers.pop(next(iter(self._writers))).close()
            folder = self._root / f"kind={key[0]}" / f"day={key[1]}"
            folder.mkdir(parents=True, exist_ok=True)
            self._files += 1
            file = folder / f"part-{self._files:05}.parquet"
            found = self._pq.ParquetWriter(file, self._schema, compression="zstd")
        self._writers[key] = found
        return found

    def close(self) -> None:
        for writer in self._writers.values():
            with suppress(OSError):
                writer.close()


def archive_schema() -> Any:
    """Arrow's schema of ARCHIVE_COLUMNS. Raises MissingExtra.

    `kind` is in each file too: a file that is moved alone still says what it holds.
    """
    with optional("Parquet"):
        import pyarrow as pa
    types = (
        pa.binary(),
        pa.binary(),
        pa.int64(),
        pa.int32(),
        pa.string(),
        pa.string(),
        pa.binary(),
    )
    return pa.schema(list(zip(ARCHIVE_COLUMNS, types, strict=True)))


def sources(paths: Sequence[Path]) -> list[Input]:
    """What to read of each path: of a folder what is named as an archive, Parquet or lines.

    Raises InvalidInput for a folder without any, and for what no reader can read.
    """
    from agent.reindex import inputs

    found = []
    for path in paths:
        if not path.is_dir():
            kind: Kind = "parquet" if path.suffix == ".parquet" else "jsonl"
            found.append(inputs.archive(kind, [str(path)]))
            continue
        within = _archives_in(path)
        found += [inputs.archive(kind, files) for kind, files in within.items() if files]
        if not any(within.values()):
            names = ", ".join(NAMED)
            raise InvalidInput(f"{path} has no archive in it: none of its files ends in {names}")
    return found


def _archives_in(folder: Path) -> dict[Kind, list[str]]:
    """The files of a folder that are named as archives, by what reads them."""
    from agent.reindex import inputs

    found: dict[Kind, list[str]] = {"parquet": [], "jsonl": []}
    for file in inputs.files(inputs.Input(kind="jsonl", paths=(str(folder),))):
        inputs.refuse_packed(str(file))
        form = NAMED.get(file.suffix)
        if form is not None:
            found["parquet" if form == "parquet" else "jsonl"].append(str(file))
    return found
