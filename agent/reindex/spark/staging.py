"""Stores stages as Parquet folders with a mark of success, on any file system that Spark writes.

`<work>/<fingerprint>/<stage>/table=<table>`: a stage is done when it has its mark, which is written
last. The next run overwrites a half-written stage.
"""

from __future__ import annotations

import secrets
import threading
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import Observation
from pyspark.sql import functions as f
from pyspark.sql.types import StructType
from pyspark.sql.utils import is_remote

from agent.reindex import inputs
from agent.reindex.reporter import INTERVAL_S
from nostr_client.paths import new_file, remove

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from agent.reindex.inputs import Settings
    from agent.reindex.reporter import Reporter

    Makers = Mapping[str, Callable[[], DataFrame]]
    Shown = Callable[[dict[str, int]], int]

DONE: Final = "done"

NOW: Final = "now"
"""What keeps the time at which the events of a folder were judged."""

KEPT_S: Final = 86_400
"""Seconds for which a run keeps the time of the run that it resumes."""


class Mark(msgspec.Struct, frozen=True):
    """The mark of a finished stage: rows and schema by table, notes for later stages, and the
    files of archives whose rows are in it or in a batch before it."""

    rows: dict[str, int]
    schemas: dict[str, str]
    notes: dict[str, int] = {}
    files: tuple[str, ...] = ()


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
            self._put(f"{self._root}/{stage}/{DONE}")
        self._put(f"{self._root}/{NOW}", str(settings.now))
        return settings.now

    def discard(self) -> None:
        """Remove all that is staged, and its folder.

        Elsewhere Spark's SQL can remove a folder only as that of a database, with the database. A
        catalog that refuses it leaves an empty folder.
        """
        self._put(self._root)
        if inputs.local(self._root) is None:
            name = f"spark_catalog.discarded_{secrets.token_hex(8)}"
            with suppress(PySparkException):
                self._spark.sql(f"CREATE DATABASE {name} LOCATION {{folder}}", folder=self._root)
                self._spark.sql(f"DROP DATABASE {name} CASCADE")

    def found(self, stage: str) -> Mark | None:
        """The mark of a stage that a run has finished."""
        text = self._get(f"{self._root}/{stage}/{DONE}")
        return None if text is None else msgspec.json.decode(text, type=Mark)

    def run(
        self,
        stage: str,
        tables: Makers,
        counted: Mapping[str, Mapping[str, str]] | None = None,
        shown: Shown = _all,
        files: tuple[str, ...] = (),
    ) -> Mark:
        """Write a stage's tables, in order, unless an earlier run did.

        `counted` has, for a table whose rows are not what is counted, the SQL of each number;
        `shown` returns the number of rows to report. `files` are kept with the mark.
        """

        def make() -> Mark:
            rows: dict[str, int] = {}
            for table, maker in tables.items():
                numbers = (counted or {}).get(table, {table: "count(1)"})
                rows |= self._table(stage, table, maker(), numbers)
            return self._mark(stage, rows, {}, files)

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

    def _once(self, stage: str, make: Callable[[], Mark], shown: Shown) -> Mark:
        found = self.found(stage)
        if found is not None:
            for table, schema in found.schemas.items():
                self._schemas[stage, table] = StructType.fromJson(msgspec.json.decode(schema))
            self._reporter.skipped(_named(stage), shown(found.rows))
        else:
            found = self._write(stage, make, shown)
        self.marks[stage] = found
        for table in found.schemas:
            self.on_table(stage, table)
        return found

    def _write(self, stage: str, make: Callable[[], Mark], shown: Shown) -> Mark:
        name = _named(stage)
        with self._reporter.stage(name) as count, polled(self._spark, name, self._reporter):
            mark = make()
            self._put(f"{self._root}/{stage}/{DONE}", msgspec.json.encode(mark).decode())
            count(shown(mark.rows))
        return mark

    def _mark(
        self,
        stage: str,
        rows: dict[str, int],
        notes: dict[str, int],
        files: tuple[str, ...] = (),
    ) -> Mark:
        schemas = {table: one.json() for (of, table), one in self._schemas.items() if of == stage}
        return Mark(rows, schemas, notes, files)

    def _table(
        self, stage: str, table: str, made: DataFrame, numbers: Mapping[str, str]
    ) -> dict[str, int]:
        """Write one table; return its numbers, counted while it is written."""
        counted = Observation()
        observed = made.observe(
            counted, *(f.expr(sql).alias(name) for name, sql in numbers.items())
        )
        observed.write.mode("overwrite").parquet(self.path(stage, table))
        self._schemas[stage, table] = made.schema
        self.on_table(stage, table)
        return {name: int(number or 0) for name, number in counted.get.items()}

    def _get(self, path: str) -> str | None:
        """A text that was put there; None if there is none, or an empty one."""
        place = inputs.local(path)
        if place is not None:
            return place.read_text("utf-8") if place.is_file() else None
        try:
            rows = self._spark.read.text(path).collect()
        except AnalysisException as error:
            if error.getCondition() == "PATH_NOT_FOUND":
                return None
            raise
        return rows[0][0] if rows else None

    def _put(self, path: str, text: str = "") -> None:
        """Write a text, or nothing, instead of all that is there.

        On this machine without Spark, whose first jobs take a second.
        """
        place = inputs.local(path)
        if place is not None:
            remove(place)
            if text:
                place.parent.mkdir(parents=True, exist_ok=True)
                with new_file(place) as part:
                    part.write_text(text, "utf-8")
            return
        rows = self._spark.createDataFrame([(text,)] if text else [], "value string")
        rows.coalesce(1).write.mode("overwrite").text(path)


def _named(stage: str) -> str:
    """The stage that a batch is of."""
    return stage.partition("/")[0]


@contextmanager
def polled(spark: SparkSession, stage: str, reporter: Reporter) -> Iterator[None]:
    """Report tasks done and tasks in all of what runs, as long as the block lasts."""
    if is_remote():
        show: Any = partial(_show, stage, reporter)
        spark.registerProgressHandler(show)
        try:
            yield
        finally:
            spark.removeProgressHandler(show)
        return
    ended = threading.Event()
    thread = threading.Thread(target=_poll, args=(spark, stage, reporter, ended), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(5.0)


def _show(stage: str, reporter: Reporter, stages: Any, **_: object) -> None:
    """What Spark Connect says of a running query."""
    known = list(stages or ())
    if known:
        done, total = sum(s.num_completed_tasks for s in known), sum(s.num_tasks for s in known)
        reporter.running(stage, done, total)


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
