"""Stages the lines or rows of archives, each file once: a later run reads the files that are new.

What a run reads is a batch, `<work>/read-<settings>/events/batch=<n>`, whose mark has the files. If
one of those has changed or is gone, all are read again: nobody knows which rows came of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import functions as f

from agent.reindex import inputs
from agent.reindex.spark import readers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

    from agent.reindex.protocol import Job
    from agent.reindex.reporter import Reporter
    from agent.reindex.spark.staging import Mark, Staging

EVENTS: Final = "events"

BATCH_BITS: Final = 52
"""Bits of a row's number within its batch: those that Spark gives to tasks and rows of half a
million tasks."""

COUNTED: Final = {"read": "count(1)", "rejected": "count(reason)", "placed": "count(relay)"}
"""What is counted of a batch: all rows, those that are not events, those whose relay is known."""

MOST_BATCHES: Final = 1 << (63 - BATCH_BITS)


class ArchiveReader:
    """Reads one job's archives; `listed` are their files on other file systems."""

    def __init__(
        self,
        spark: SparkSession,
        staging: Staging,
        job: Job,
        listed: Sequence[inputs.Listed],
        reporter: Reporter,
    ) -> None:
        self._spark, self._staging, self._job = spark, staging, job
        self._remote = [one.path for one in listed]
        self._files = inputs.identities(job.source, listed) or {}
        self._reporter = reporter
        self._batches: list[Mark] = []

    def run(self) -> None:
        """Read what is new. Raises what Spark raises."""
        self._batches = self._of_earlier_runs()
        known = {one for mark in self._batches for one in mark.files}
        if self._batches and known == self._files.keys():
            self._reporter.skipped(EVENTS, self.read - self.rejected)
            return
        before = [path for one, path in self._files.items() if one in known]
        self._read_whole(inputs.without(self._job.source, before, self._remote))

    @property
    def read(self) -> int:
        """Lines or rows of all files."""
        return sum(mark.rows["read"] for mark in self._batches)

    @property
    def rejected(self) -> int:
        """Those that are not events."""
        return sum(mark.rows["rejected"] for mark in self._batches)

    def copies(self) -> DataFrame:
        """The good rows of known relays; no file is read if no relay is known."""
        known = sum(mark.rows["placed"] for mark in self._batches)
        copies = self.events().where("relay IS NOT NULL")
        return copies if known else copies.limit(0)

    def events(self) -> DataFrame:
        """The good rows, each event as often as it came."""
        return readers.events(self._rows())

    def rejects(self) -> DataFrame:
        """What is not an event: `reason`, and the beginning of the line."""
        return readers.rejects(self._rows())

    def _rows(self) -> DataFrame:
        paths = [self._staging.path(_stage(n), "read") for n in range(len(self._batches))]
        return self._spark.read.schema(readers.READ).parquet(*paths)

    def _of_earlier_runs(self) -> list[Mark]:
        found: list[Mark] = []
        while (mark := self._staging.found(_stage(len(found)))) is not None:
            found.append(mark)
        known = {one for mark in found for one in mark.files}
        if known <= self._files.keys() and len(found) < MOST_BATCHES:
            return found
        self._staging.discard()
        return []

    def _read_whole(self, source: inputs.Input) -> None:
        """Read all files; where one is damaged, without the damaged ones, unless that is strict.

        They are looked for only then: it means to unpack every packed file once more.
        """
        try:
            self._batch(source, [])
        except (PySparkException, Py4JError) as error:
            if self._job.settings.strict or readers.DAMAGED_FILE not in str(error):
                raise
            damaged = readers.damaged_files(self._spark, source, self._remote)
            if not damaged:
                raise
            self._batch(inputs.without(source, damaged, self._remote), damaged)

    def _batch(self, source: inputs.Input, damaged: Sequence[str]) -> None:
        number, earlier = len(self._batches), self.read - self.rejected
        verify = self._job.settings.verify

        def read() -> DataFrame:
            rows = readers.archives(self._spark, source, damaged, verify=verify)
            return rows.withColumn("seq", f.col("seq") + (number << BATCH_BITS))

        mark = self._staging.run(
            _stage(number),
            {"read": read},
            counted={"read": COUNTED},
            shown=lambda rows: earlier + rows["read"] - rows["rejected"],
            files=tuple(self._files),
        )
        self._batches.append(mark)


def _stage(batch: int) -> str:
    return f"{EVENTS}/batch={batch}"
