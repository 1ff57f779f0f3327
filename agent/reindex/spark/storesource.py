"""Reads a store in Spark: ranges of `seq`, each by a Python worker.

A store is a file of one machine, so a worker stages what it reads itself, as Parquet by Arrow, and
groups it while it has it: to move all of it through Java and back takes longer than to read it.
What Spark gets is a row that says how much it was. A file has the name of its range and is whole
when it has it: a task that Spark runs again writes the same.

The ranges are rows of Spark, and no data source of Python's: to plan one, Spark starts six
processes of Python, one after the other.
"""

from __future__ import annotations

import gc
import os
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from agent.reindex.inputs import open_store
from agent.reindex.parquet import arrow
from agent.reindex.spark import groups
from agent.reindex.spark.columns import ARROW, from_columns
from nostr_client.errors import StoreCorrupt
from nostr_client.store.lookup import rows_in
from nostr_client.store.tombstones import stored_tags

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterator, Mapping, Sequence

    Batches = Iterator[pa.RecordBatch]

STAGED: Final = "events long, tags long"
"""What Spark gets of a range: what of it is staged."""

STAGED_ARROW: Final = arrow(STAGED)

SCHEMAS: Final = {"events": ARROW, "tags": groups.TAGS_ARROW}
"""The tables that are staged of a range."""

CHUNK: Final = 10_000

KNOWN: Final = 500_000
"""Pubkeys that a worker remembers, about 75 MB."""

_RANGE: Final = """
SELECT seq, id, a, created_at, kind, d, exp, tags FROM event
WHERE seq >= ? AND seq < ? ORDER BY seq
"""


class Range(NamedTuple):
    """Events of a range of seq, the end not included."""

    first: int
    end: int


def staging(
    store: str, next_seq: int, parts: int, folders: Mapping[str, str]
) -> Callable[[Batches], Batches]:
    """Numbers from 0 to `parts` to STAGED: stages what is before `next_seq`, a file for each part
    in the folder of each table of SCHEMAS, which is there."""
    size = max(1, -(-(next_seq - 1) // parts))

    def run(batches: Batches) -> Batches:
        for batch in batches:
            for part in batch.column(0).to_pylist():
                first = 1 + part * size
                seqs = Range(first, min(first + size, next_seq))
                yield groups.rows(STAGED_ARROW, [_stage(store, seqs, folders)])

    return run


def _stage(store: str, seqs: Range, folders: Mapping[str, str]) -> tuple[int, int]:
    """Events and tags of a range. Raises StoreError and its kinds."""
    name = f"part-{seqs.first:012}.parquet"
    gc.disable()  # many short-lived objects: garbage collection takes a tenth more
    try:
        with ExitStack() as stack:
            conn = stack.enter_context(closing(open_store(Path(store))))
            events, tags = (
                stack.enter_context(_whole(Path(folders[table], name), schema))
                for table, schema in SCHEMAS.items()
            )
            return _staged(_batches(conn, seqs), events, tags)
    finally:
        gc.enable()


@contextmanager
def _whole(file: Path, schema: pa.Schema) -> Iterator[pq.ParquetWriter]:
    """Write a file aside, under a name that readers pass over, and rename it at the end."""
    aside = file.with_name(f"_{file.name}.{os.getpid()}")
    # Only text is compressed: ids and keys are as good as random.
    packed = {one.name: "lz4" if pa.types.is_string(one.type) else "none" for one in schema}
    options = {"compression": packed, "use_dictionary": False, "write_statistics": False}
    try:
        with pq.ParquetWriter(aside, schema, **options) as out:
            yield out
        aside.replace(file)
    finally:
        aside.unlink(missing_ok=True)


def _staged(batches: Batches, events: pq.ParquetWriter, tags: pq.ParquetWriter) -> tuple[int, int]:
    """Write events as they come, and what is grouped of them; how many events and tags."""
    read = named = 0

    def kept() -> Batches:
        nonlocal read
        for batch in batches:
            events.write_batch(batch)
            read += len(batch)
            yield batch.select(groups.TAKEN)

    for made in groups.grouped(kept()):
        tags.write_batch(made)
        named += int(made.column("events").to_numpy().sum())
    return read, named


def _batches(conn: sqlite3.Connection, seqs: Range) -> Batches:
    cursor, people = conn.execute(_RANGE, seqs), _People(conn)
    while rows := cursor.fetchmany(CHUNK):
        seq, ids, authors, created_at, kind, d, exp, tags = zip(*rows, strict=True)
        columns = (seq, ids, people.of(authors), created_at, kind, d, exp)
        yield from_columns(columns, map(stored_tags, tags))


class _People:
    """Caches pubkeys by their numbers: a join would read one for each event."""

    def __init__(self, conn: sqlite3.Connection) -> None:
        self._conn = conn
        self._known: dict[int, bytes] = {}

    def of(self, authors: Sequence[int]) -> list[bytes]:
        """The pubkey of each. Raises StoreCorrupt."""
        if len(self._known) > KNOWN:
            self._known = {}
        missing = set(authors) - self._known.keys()
        if missing:
            sql = "SELECT a, pubkey FROM author WHERE a IN"
            self._known.update(rows_in(self._conn, sql, list(missing)))
        try:
            return [self._known[a] for a in authors]
        except KeyError as error:
            raise StoreCorrupt("an event's author is not there") from error
