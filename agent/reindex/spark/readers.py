"""Reads a store, JSONL or Parquet into the plan's one input schema.

Archives are parsed by the strict parser of the SDK in the workers, which checks every id: Spark's
own JSON reader makes null of what it cannot read, text of numbers, and `?` of halves of characters.
A line that is not an event becomes a row with a reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import functions as f

from agent.reindex import inputs
from agent.reindex.event_rows import ARCHIVE_COLUMNS as COLUMNS
from agent.reindex.event_rows import KEPT_BYTES, Rejected, parquet_events, parse
from agent.reindex.inputs import for_hadoop
from agent.reindex.spark import storesource
from agent.reindex.spark.columns import ARROW, SCHEMA, batch
from agent.reindex.spark.files import emptied
from agent.reindex.spark.mentions import mentions
from nostr_client.store.event_lines import LINE_LIMIT
from nostr_client.store.tombstones import row_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from nostr_client.codecs.event import Event

    Batches = Iterator[pa.RecordBatch]

READ: Final = f"{SCHEMA}, mentions string, is_reply boolean, reason string, line binary"
"""The input schema, and what the tables for analysts read (`mentions`); for a line that is not an
event the reason, and the beginning of the line."""

_MORE: Final = (
    pa.field("mentions", pa.string()),
    pa.field("is_reply", pa.bool_()),
    pa.field("reason", pa.string()),
    pa.field("line", pa.binary()),
)
_ARROW: Final = pa.schema([*ARROW, *_MORE])

TOO_LONG: Final = "a line of more than 16 MiB"


def stage_store(
    spark: SparkSession, store: Path, next_seq: int, partitions: int, folders: Mapping[str, Path]
) -> tuple[int, int]:
    """Stage every event of a store before `next_seq` as SCHEMA, and what is grouped of them, in
    `folders` by table; how many events and tags."""
    for folder in folders.values():
        emptied(folder)
    write = storesource.staging(
        str(store), next_seq, partitions, {table: str(one) for table, one in folders.items()}
    )
    parts = spark.range(0, partitions, 1, partitions)
    done = parts.mapInArrow(write, storesource.STAGED).collect()
    return sum(row.events for row in done), sum(row.tags for row in done)


def from_jsonl(spark: SparkSession, paths: Sequence[str], *, verify: bool) -> DataFrame:
    """Every line of archives, as READ; gz and zst are unpacked by their names, a task a file.

    A line over the limit is passed to Python as its length alone.
    """
    reader = spark.read.option("recursiveFileLookup", "true").option("lineSep", "\n")
    lines = reader.text(list(map(for_hadoop, paths))).select(
        f.col("value").cast("binary").alias("line")
    )
    long = f.length("line") > LINE_LIMIT
    # Null marks what is too long: the line itself need not travel to Python.
    short = lines.select(f.when(~long, f.col("line")).alias("line"))
    return _numbered(short.mapInArrow(_parser(verify), READ))


def from_parquet(spark: SparkSession, paths: Sequence[str], *, verify: bool) -> DataFrame:
    """Every row of archives that `archive export` made, as READ."""
    rows = spark.read.option("recursiveFileLookup", "true").parquet(*map(for_hadoop, paths))
    return _numbered(rows.select(*COLUMNS).mapInArrow(_reader(verify), READ))


def _numbered(read: DataFrame) -> DataFrame:
    """Rows with a number each, `seq`; stage them, as each computation gives other numbers."""
    return read.withColumn("seq", f.monotonically_increasing_id())


def events(read: DataFrame) -> DataFrame:
    """The good rows; an event may come again."""
    return read.where("reason IS NULL").drop("reason", "line")


def rejects(read: DataFrame) -> DataFrame:
    """Lines that are not events: `reason`, and the beginning of the line."""
    return read.where("reason IS NOT NULL").select("reason", "line")


def _parser(verify: bool) -> Callable[[Batches], Batches]:
    def run(batches: Batches) -> Batches:
        for one in batches:
            lines = one.column(0).to_pylist()
            yield from _both(_parsed(lines, verify))

    return run


def _parsed(lines: Iterable[bytes | None], verify: bool) -> Iterator[Event | Rejected]:
    for line in lines:
        if line is None:
            yield Rejected(TOO_LONG, b"")
        elif line.strip(b" \t\r\n"):
            yield parse(line, verify)


def _reader(verify: bool) -> Callable[[Batches], Batches]:
    def run(batches: Batches) -> Batches:
        for one in batches:
            yield from _both(parquet_events(one.columns, verify))

    return run


def _both(found: Iterable[Event | Rejected]) -> Batches:
    """Events and rejected lines as batches of READ."""
    good, bad = [], []
    for one in found:
        if isinstance(one, Rejected):
            bad.append(one)
        else:
            good.append(one)
    if good:
        rows = batch(map(row_of, good))
        said, replies = zip(*map(mentions, good), strict=True)
        yield _batch([*rows.columns, pa.array(said, pa.string()), pa.array(replies)], len(good))
    if bad:
        nothing = [pa.nulls(len(bad), field.type) for field in list(_ARROW)[:-2]]
        reasons = pa.array([one.reason for one in bad], pa.string())
        lines = pa.array([one.line[:KEPT_BYTES] for one in bad], pa.binary())
        yield _batch([*nothing, reasons, lines])


def _batch(columns: list[Any], rows: int = 0) -> pa.RecordBatch:
    """Rows of READ; columns that are missing at the end are null."""
    missing = [pa.nulls(rows, field.type) for field in list(_ARROW)[len(columns) :]]
    return pa.RecordBatch.from_arrays([*columns, *missing], schema=_ARROW)


def listed(spark: SparkSession, source: inputs.Input) -> list[inputs.Listed]:
    """The files of an input that are not of this machine; no byte of them is read.

    Raises InvalidInput for a file that cannot be read, and what Spark raises.
    """
    paths = inputs.elsewhere(source)
    if not paths:
        return []
    reader = spark.read.format("binaryFile").option("recursiveFileLookup", "true")
    about = reader.load(paths).select("path", "length", f.unix_micros("modificationTime"))
    found = [inputs.Listed(*row) for row in about.collect()]
    for one in found:
        inputs.refuse_packed(one.path)
    return found
