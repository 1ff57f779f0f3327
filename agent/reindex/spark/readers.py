"""Reads a store, JSONL or Parquet into the plan's one input schema.

Archives are parsed by the strict parser of the SDK in the workers, which checks every id: Spark's
own JSON reader makes null of what it cannot read, text of numbers, and `?` of halves of characters.
A line that is not an event becomes a row with a reason.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import functions as f

from agent.reindex import event_rows, inputs
from agent.reindex.event_rows import ARCHIVE_COLUMNS as COLUMNS
from agent.reindex.event_rows import DAMAGED, KEPT_BYTES, Rejected, parquet_events, parse
from agent.reindex.inputs import for_hadoop
from agent.reindex.parquet import arrow
from agent.reindex.spark import storesource
from agent.reindex.spark.columns import SCHEMA, batch
from agent.reindex.spark.mentions import mentions
from nostr_client.store.event_lines import LINE_LIMIT
from nostr_client.store.tombstones import row_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import Column, DataFrame, SparkSession

    from nostr_client.codecs.event import Event

    Batches = Iterator[pa.RecordBatch]
    Read = tuple[Event | Rejected, str | None]
    """What a line or a row is, and the relay that had it."""

READ: Final = (
    f"{SCHEMA}, mentions string, is_reply boolean, relay string, reason string, line binary"
)
"""The input schema, and what the tables for analysts read (`mentions`); the relay that had the
event, where that is known; for a line that is not an event the reason, and how the line begins."""

_ARROW: Final = arrow(READ)

LOST: Final = "reason string, line binary"

DAMAGED_FILE: Final = "FAILED_READ_FILE"
"""What Spark's error says of a file that it cannot read."""

TOO_LONG: Final = "a line of more than 16 MiB"

RELAY: Final = "relay"
"""The column of a Parquet archive that names the relay of each event, and the name of a folder,
`relay=NAME`, that names the relay of all events in it."""


def stage_store(
    spark: SparkSession, store: Path, next_seq: int, partitions: int, folders: Mapping[str, Path]
) -> tuple[int, int]:
    """Stage every event of a store before `next_seq` as SCHEMA, and what is grouped of them, in
    `folders` by table; how many events and tags."""
    for folder in folders.values():
        shutil.rmtree(folder, ignore_errors=True)  # what an earlier run left half done
        folder.mkdir(parents=True)
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
    texts = _texts(spark, paths)
    lines = texts.select(f.col("value").cast("binary").alias("line"), _relay(texts))
    long = f.length("line") > LINE_LIMIT
    # Null marks what is too long: the line itself need not travel to Python.
    short = lines.select(f.when(~long, f.col("line")).alias("line"), RELAY)
    return short.mapInArrow(_parser(verify), READ)


def _from_parquet(spark: SparkSession, paths: Sequence[str], verify: bool) -> DataFrame:
    """Rows that `archive export` made."""
    return _rows(spark, paths).mapInArrow(_reader(verify), READ)


def _texts(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    reader = spark.read.option("recursiveFileLookup", "true").option("lineSep", "\n")
    return reader.text(list(map(for_hadoop, paths)))


def _rows(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    reader = spark.read.option("recursiveFileLookup", "true")
    rows = reader.parquet(*map(for_hadoop, paths))
    return rows.select(*COLUMNS, _relay(rows))


def _relay(rows: DataFrame) -> Column:
    """The relay of each row, null where neither its file nor its path says it."""
    said = [f.col(RELAY)] if RELAY in rows.columns else []
    if any(f"/{RELAY}=" in one for one in rows.inputFiles()):
        said.append(_named_by_folder())
    return f.coalesce(*said, f.lit(None)).cast("string").alias(RELAY)


def _named_by_folder() -> Column:
    """The innermost folder `relay=NAME` of a row's file. As for all folders that Spark names by a
    column, characters that a path cannot have are escaped in the name, `/` as `%2F`."""
    folder = f.regexp_extract("_metadata.file_path", f".*/{RELAY}=([^/]+)/", 1)
    name = f.url_decode(f.replace(folder, f.lit("+"), f.lit("%2B")))
    escaped = f.replace(name, f.lit("+"), f.lit("%2B"))
    return f.when(folder != "", f.coalesce(f.try_url_decode(escaped), name))


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
            lines, relays = (column.to_pylist() for column in one.columns)
            yield from _both(_parsed(lines, relays, verify))

    return run


def _parsed(
    lines: Iterable[bytes | None], relays: Iterable[str | None], verify: bool
) -> Iterator[Read]:
    for line, relay in zip(lines, relays, strict=True):
        if line is None:
            yield Rejected(TOO_LONG, b""), relay
        elif line.strip(b" \t\r\n"):
            yield parse(line, verify), relay


def _reader(verify: bool) -> Callable[[Batches], Batches]:
    def run(batches: Batches) -> Batches:
        for one in batches:
            *columns, relays = one.columns
            found = parquet_events(columns, verify)
            yield from _both(zip(found, relays.to_pylist(), strict=True))

    return run


def _both(found: Iterable[Read]) -> Batches:
    """Events and rejected lines as batches of READ."""
    good, relays, bad = [], [], []
    for one, relay in found:
        if isinstance(one, Rejected):
            bad.append(one)
        else:
            good.append(one)
            relays.append(relay)
    if good:
        rows = batch(map(row_of, good))
        said, replies = zip(*map(mentions, good), strict=True)
        more = [pa.array(said, pa.string()), pa.array(replies), pa.array(relays, pa.string())]
        yield _batch([*rows.columns, *more], len(good))
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
