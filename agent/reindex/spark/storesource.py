"""A store as a data source of Spark: ranges of `seq`, each read by a Python worker.

A store is a file of one machine, so a worker stages what it reads itself, as Parquet by Arrow, and
groups the targets while it has them: to move all of it through Java and back takes longer than to
read it. What Spark gets is a row that says how much it was. A file has the name of its range and
is whole when it has it: a task that Spark runs again writes the same.
"""

from __future__ import annotations

import gc
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from agent.reindex.inputs import open_store
from agent.reindex.rows import stored_tags
from agent.reindex.spark import groups
from agent.reindex.spark.columns import ARROW, from_columns
from agent.reindex.spark.files import whole
from nostr_client.errors import StoreCorrupt
from nostr_client.store.lookup import rows_in

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyspark.sql.types import StructType

NAME: Final = "nostr_store"
STAGED: Final = "first long, events long, tags long"
"""What Spark gets of a range: where it begins, and what of it is staged."""

CHUNK: Final = 10_000

KNOWN: Final = 500_000
"""Pubkeys that a worker remembers, about 75 MB."""

_RANGE: Final = """
SELECT seq, id, a, created_at, kind, d, exp, tags FROM event
WHERE seq >= ? AND seq < ? ORDER BY seq
"""


class Range(InputPartition):
    """Events of a range of seq, the end not included."""

    def __init__(self, first: int, end: int) -> None:
        super().__init__((first, end))
        self.first = first
        self.end = end


class StoreSource(DataSource):
    """Options: `path`, `next_seq` (where to end), `partitions`, and the folders `events` and
    `tags`, which are there."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return STAGED

    def reader(self, schema: StructType) -> StoreReader:
        return StoreReader(self.options)


class StoreReader(DataSourceReader):
    """Splits the range, and stages each part through a connection of its own."""

    def __init__(self, options: Any) -> None:
        self._path = str(options["path"])
        self._end = int(options["next_seq"])
        self._parts = max(1, int(options["partitions"]))
        self._events, self._tags = str(options["events"]), str(options["tags"])

    def partitions(self) -> Sequence[InputPartition]:
        size = max(1, -(-(self._end - 1) // self._parts))
        return [Range(at, min(at + size, self._end)) for at in range(1, self._end, size)] or [
            Range(1, 1)
        ]

    def read(self, partition: InputPartition) -> Iterator[tuple[int, int, int]]:
        assert isinstance(partition, Range)
        name = f"part-{partition.first:012}.parquet"
        gc.disable()  # what is made here dies at once, and is much: collecting takes a tenth more
        try:
            with (
                closing(open_store(Path(self._path))) as conn,
                whole(Path(self._events, name), ARROW) as events,
                whole(Path(self._tags, name), groups.TAGS_ARROW) as tags,
            ):
                yield (partition.first, *_staged(_batches(conn, partition), events, tags))
        finally:
            gc.enable()


def _staged(
    batches: Iterator[pa.RecordBatch], events: pq.ParquetWriter, tags: pq.ParquetWriter
) -> tuple[int, int]:
    """Write events as they come, and who names what in them; how many there were of both."""
    read = named = 0

    def noted() -> Iterator[pa.RecordBatch]:
        nonlocal read
        for batch in batches:
            events.write_batch(batch)
            read += len(batch)
            yield batch.select(groups.TAKEN)

    for made in groups.grouped(noted()):
        tags.write_batch(made)
        named += int(made.column("events").to_numpy().sum())
    return read, named


def _batches(conn: sqlite3.Connection, part: Range) -> Iterator[pa.RecordBatch]:
    cursor, people = conn.execute(_RANGE, (part.first, part.end)), _People(conn)
    while rows := cursor.fetchmany(CHUNK):
        seq, ids, authors, created_at, kind, d, exp, tags = zip(*rows, strict=True)
        columns = (seq, ids, people.of(authors), created_at, kind, d, exp)
        yield from_columns(columns, map(stored_tags, tags))


class _People:
    """Pubkeys by their numbers, remembered: a join asks for each event's anew."""

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
