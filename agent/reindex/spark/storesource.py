"""A store as a data source of Spark: ranges of `seq`, each read by a Python worker."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from agent.reindex.inputs import open_store
from agent.reindex.rows import LIGHT, stored_tags
from agent.reindex.spark.columns import SCHEMA, from_columns

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructType

NAME: Final = "nostr_store"
CHUNK: Final = 10_000

_RANGE: Final = f"""
SELECT {LIGHT} FROM event e JOIN author u ON u.a = e.a
WHERE e.seq >= ? AND e.seq < ? ORDER BY e.seq
"""


class Range(InputPartition):
    """Events of a range of seq, the end not included."""

    def __init__(self, first: int, end: int) -> None:
        super().__init__((first, end))
        self.first = first
        self.end = end


class StoreSource(DataSource):
    """Options: `path`, `next_seq` (where to end) and `partitions`."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return SCHEMA

    def reader(self, schema: StructType) -> StoreReader:
        return StoreReader(self.options)


class StoreReader(DataSourceReader):
    """Splits the range, and reads each part through a connection of its own."""

    def __init__(self, options: Any) -> None:
        self._path = str(options["path"])
        self._end = int(options["next_seq"])
        self._parts = max(1, int(options["partitions"]))

    def partitions(self) -> Sequence[InputPartition]:
        size = max(1, -(-(self._end - 1) // self._parts))
        return [Range(at, min(at + size, self._end)) for at in range(1, self._end, size)] or [
            Range(1, 1)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Range)
        with closing(open_store(Path(self._path))) as conn:
            cursor = conn.execute(_RANGE, (partition.first, partition.end))
            while rows := cursor.fetchmany(CHUNK):
                *columns, tags = zip(*rows, strict=True)
                yield from_columns(columns, map(stored_tags, tags))
