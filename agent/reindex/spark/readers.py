"""Reads a store, JSONL or Parquet into the plan's one input schema.

Archives are parsed by the strict parser of the SDK in the workers, which checks every id: Spark's
own JSON reader makes null of what it cannot read, text of numbers, and `?` of halves of characters.
A line that is not an event becomes a row with a reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import functions as f

from agent.reindex import event_rows, inputs
from agent.reindex.event_rows import ARCHIVE_COLUMNS as COLUMNS
from agent.reindex.event_rows import DAMAGED, KEPT_BYTES, Rejected, parquet_events, parse
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

LOST: Final = "reason string, line binary"

DAMAGED_FILE: Final = "FAILED_READ_FILE"
"""What Spark's error says of a file that it cannot read."""

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


def archives(
    spark: SparkSession, source: inputs.Input, damaged: Sequence[str] = (), *, verify: bool
) -> DataFrame:
    """Every line or row of archives, as READ, with a number each, `seq`; `damaged` are files that
    are not read, a rejected row each.

    Stage the result: each computation gives other numbers.
    """
    if source.paths:
        reader = _from_jsonl if source.kind == "jsonl" else _from_parquet
        found = reader(spark, source.paths, verify)
    else:
        found = spark.createDataFrame([], READ)
    if damaged:
        lost = spark.createDataFrame([(DAMAGED, name.encode()) for name in damaged], LOST)
        found = found.unionByName(lost, allowMissingColumns=True)
    return found.withColumn("seq", f.monotonically_increasing_id())


def _from_jsonl(spark: SparkSession, paths: Sequence[str], verify: bool) -> DataFrame:
    """gz and zst are unpacked by their names, a task a file. A line over the limit is passed to
    Python as its length alone."""
    lines = _texts(spark, paths).select(f.col("value").cast("binary").alias("line"))
    long = f.length("line") > LINE_LIMIT
    # Null marks what is too long: the line itself need not travel to Python.
    short = lines.select(f.when(~long, f.col("line")).alias("line"))
    return short.mapInArrow(_parser(verify), READ)


def _from_parquet(spark: SparkSession, paths: Sequence[str], verify: bool) -> DataFrame:
    """Rows that `archive export` made."""
    return _rows(spark, paths).mapInArrow(_reader(verify), READ)


def _texts(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    reader = spark.read.option("recursiveFileLookup", "true").option("lineSep", "\n")
    return reader.text(list(map(for_hadoop, paths)))


def _rows(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    reader = spark.read.option("recursiveFileLookup", "true")
    return reader.parquet(*map(for_hadoop, paths)).select(*COLUMNS)


def damaged_files(spark: SparkSession, source: inputs.Input, remote: Sequence[str]) -> list[str]:
    """Files of archives that cannot be read to their end; `remote` are those elsewhere."""
    look = _texts if source.kind == "jsonl" else _rows
    damaged = event_rows.damaged_files(source)
    for name in remote:
        try:
            look(spark, [name]).write.format("noop").mode("overwrite").save()
        except (PySparkException, Py4JError):
            damaged.append(name)
    return damaged


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
