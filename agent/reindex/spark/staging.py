"""Stores stages as Parquet folders with a mark of success, on any file system of Hadoop.

`<work>/<fingerprint>/<stage>/table=<table>`: a stage is done when it has its mark, which is written
last. The next run overwrites a half-written stage.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec
from pyspark.sql import Observation
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from agent.reindex.reporter import INTERVAL_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from agent.reindex.inputs import Settings
    from agent.reindex.reporter import Reporter

    Makers = Mapping[str, Callable[[], DataFrame]]
    Shown = Callable[[dict[str, int]], int]

DONE: Final = "_DONE"

NOW: Final = "_NOW"
"""What keeps the time at which the events of a folder were judged."""

KEPT_S: Final = 86_400
"""Seconds for which a run keeps the time of the run that it resumes."""


class Mark(msgspec.Struct, frozen=True):
    """The mark of a finished stage: rows and schema by table, and notes for later stages."""

    rows: dict[str, int]
    schemas: dict[str, str]
    notes: dict[str, int] = {}


def _all(rows: dict[str, int]) -> int:
    return sum(rows.values())


class Staging:
    """The stages of one work folder."""

    def __init__(self, spark: SparkSession, root: str, reporter: Reporter) -> None:
        self._spark = spark
        self._root = root
        self._reporter = reporter
        self._schemas: dict[tuple[str, str], StructType] = {}
        self.marks: dict[str, Mark] = {}
        self.on_table: Callable[[str, str], None] = lambda stage, table: None
        """Called for each staged table, once or twice."""

    def path(self, stage: str, table: str) -> str:
        """Where a table of a stage is."""
        return f"{self._root}/{stage}/table={table}"

    def read(self, stage: str, table: str) -> DataFrame:
        """A table that is staged."""
        schema = self._schemas[stage, table]
        return self._spark.read.schema(schema).parquet(self.path(stage, table))

    def as_of(self, settings: Settings, dependent: Sequence[str]) -> int:
        """The time that decides who is dead: the one of the run whose stages are here.

        If another time is asked for, or that one is a day old, the `dependent` stages run again.
        """
        text = self._get(f"{self._root}/{NOW}")
        kept = int(text) if text and text.isdigit() else None
        within = 0 if settings.fixed else KEPT_S
        if kept is not None and abs(settings.now - kept) <= within:
            return kept
        for stage in reversed(dependent):
            self._remove(f"{self._root}/{stage}/{DONE}")
        self._put(f"{self._root}/{NOW}", str(settings.now).encode())
        return settings.now

    def discard(self) -> None:
        """Remove all that is staged."""
        self._remove(self._root)

    def run(
        self,
        stage: str,
        tables: Makers,
        notes: Callable[[], dict[str, int]] | None = None,
        packed: Mapping[str, str] | None = None,
        shown: Shown = _all,
    ) -> Mark:
        """Write a stage's tables, in order, unless an earlier run did; `notes` are asked last.

        `packed` names the column that says how many rows one row of a table stands for; `shown`
        returns the number of rows to report.
        """

        def make() -> Mark:
            rows = {
                table: self._table(stage, table, maker, (packed or {}).get(table))
                for table, maker in tables.items()
            }
            return self._mark(stage, rows, {} if notes is None else notes())

        return self._once(stage, make, shown)

    def written(
        self,
        stage: str,
        schemas: Mapping[str, str],
        write: Callable[[], tuple[dict[str, int], dict[str, int]]],
    ) -> Mark:
        """As `run`, for tables that `write` writes itself; it returns their rows, and notes."""

        def make() -> Mark:
            for table, schema in schemas.items():
                self._schemas[stage, table] = cast("StructType", StructType.fromDDL(schema))
            return self._mark(stage, *write())

        return self._once(stage, make, _all)

    def split(self, stage: str, rows: DataFrame, number: str) -> int:
        """Write rows that the column `table` parts into the tables of a stage; return the sum of
        the column `number`, added up while they are written."""
        counted = Observation()
        observed = rows.observe(counted, f.coalesce(f.sum(number), f.lit(0)).alias("rows"))
        writer = observed.write.mode("overwrite").partitionBy("table")
        writer.parquet(f"{self._root}/{stage}")
        for of, table in self._schemas:
            if of == stage:  # Spark makes no folder for a table without rows
                files, place = self._files(self.path(stage, table))
                files.mkdirs(place)
        return int(counted.get["rows"])

    def _once(self, stage: str, make: Callable[[], Mark], shown: Shown) -> Mark:
        found = self._found(stage)
        if found is not None:
            for table, schema in found.schemas.items():
                self._schemas[stage, table] = StructType.fromJson(msgspec.json.decode(schema))
            self._reporter.skipped(stage, shown(found.rows))
        else:
            found = self._write(stage, make, shown)
        self.marks[stage] = found
        for table in found.schemas:
            self.on_table(stage, table)
        return found

    def _write(self, stage: str, make: Callable[[], Mark], shown: Shown) -> Mark:
        with self._reporter.stage(stage) as count, polled(self._spark, stage, self._reporter):
            mark = make()
            self._put(f"{self._root}/{stage}/{DONE}", msgspec.json.encode(mark))
            count(shown(mark.rows))
        return mark

    def _mark(self, stage: str, rows: dict[str, int], notes: dict[str, int]) -> Mark:
        schemas = {table: one.json() for (of, table), one in self._schemas.items() if of == stage}
        return Mark(rows, schemas, notes)

    def _table(
        self, stage: str, table: str, make: Callable[[], DataFrame], packed: str | None
    ) -> int:
        """Write one table; return its rows, counted while they are written."""
        made, counted = make(), Observation()
        number = f.count(f.lit(1)) if packed is None else f.coalesce(f.sum(packed), f.lit(0))
        observed = made.observe(counted, number.alias("rows"))
        observed.write.mode("overwrite").parquet(self.path(stage, table))
        self._schemas[stage, table] = made.schema
        self.on_table(stage, table)
        return int(counted.get["rows"])

    def _found(self, stage: str) -> Mark | None:
        text = self._get(f"{self._root}/{stage}/{DONE}")
        return None if text is None else msgspec.json.decode(text, type=Mark)

    def _get(self, path: str) -> str | None:
        files, place = self._files(path)
        if not files.exists(place):
            return None
        stream = files.open(place)
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def _put(self, path: str, data: bytes) -> None:
        files, place = self._files(path)
        stream = files.create(place, True)
        try:
            stream.write(data)
        finally:
            stream.close()

    def _remove(self, path: str) -> None:
        files, place = self._files(path)
        files.delete(place, True)

    def _files(self, path: str) -> tuple[Any, Any]:
        """Hadoop's file system of a path, and the path as it wants it."""
        place = self._jvm.org.apache.hadoop.fs.Path(path)
        context: Any = self._spark.sparkContext
        return place.getFileSystem(context._jsc.hadoopConfiguration()), place

    @property
    def _jvm(self) -> Any:
        return self._spark.sparkContext._jvm


@contextmanager
def polled(spark: SparkSession, stage: str, reporter: Reporter) -> Iterator[None]:
    """Report tasks done and tasks in all of what runs, as long as the block lasts."""
    ended = threading.Event()
    thread = threading.Thread(target=_poll, args=(spark, stage, reporter, ended), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(5.0)


def _poll(spark: SparkSession, stage: str, reporter: Reporter, ended: threading.Event) -> None:
    from py4j.protocol import Py4JError

    tracker = spark.sparkContext.statusTracker()
    while not ended.wait(INTERVAL_S):
        try:
            stages = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
        except (Py4JError, OSError):
            return  # Java has ended: the caller that waits for the job gets the error
        known = [one for one in stages if one is not None]
        if known:
            done, total = sum(s.numCompletedTasks for s in known), sum(s.numTasks for s in known)
            reporter.running(stage, done, total)
