"""Runs a rebuild by Spark, from its job to its last message."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Observation
from pyspark.sql import functions as f

from agent.reindex import inputs, jvm
from agent.reindex.protocol import STAGES, Built
from agent.reindex.single import about, check_built
from agent.reindex.spark import catalog, plan
from agent.reindex.spark.archives import ArchiveReader
from agent.reindex.spark.ending import childless, closed
from agent.reindex.spark.publishing import IndexPublisher
from agent.reindex.spark.readers import listed
from agent.reindex.spark.session import CONNECT, SparkFailed, SparkOptions, open_session, short
from agent.reindex.spark.stages import MENTIONS, Stages
from agent.reindex.spark.staging import Staging, polled
from agent.reindex.spark.tables import PLACES
from agent.reindex.spark.training import start_training
from agent.reindex.tempdir import scratch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from agent.reindex.protocol import Job
    from agent.reindex.reporter import Reporter

TABLES: Final = "tables"
"""The stage that writes the tables of archives as Parquet; it is made again by each run."""


def run_job(job: Job, reporter: Reporter) -> None:
    """Start Spark, stage, publish; then compare if asked. Raises SparkFailed, StoreError.

    A submitted job uses the cluster's folders. Else all that is not staged is in one folder that is
    removed with the run, with the files of Java and Python.
    """
    if job.submitted:
        _in_session(job, reporter, None)
        return
    apart = inputs.is_url(job.work)
    given = dict(os.environ)  # the session names another Java, and so another cache
    with scratch(jvm.cache_folder(os.environ) if apart else Path(job.work)) as folder, childless():
        os.environ["TMPDIR"] = tempfile.tempdir = str(folder)
        _in_session(job, reporter, folder)
    here = not job.master.startswith(CONNECT)
    if here and job.aot == "train" and start_training(given):
        reporter.talk("training Java's class cache in the background: later runs start faster")


def _in_session(job: Job, reporter: Reporter, folder: Path | None) -> None:
    options = SparkOptions(
        work=folder,
        master=job.master,
        memory=job.memory,
        partitions=job.partitions,
        submitted=job.submitted,
        conf=job.conf,
        aot=job.aot,
        keeps_tables=bool(job.catalog),
    )
    start = time.monotonic()
    with reporter.stage("start"):
        spark = open_session(options)
    with closed(spark):
        rebuild(spark, job, reporter, start)


def rebuild(spark: SparkSession, job: Job, reporter: Reporter, start: float | None = None) -> None:
    """All stages on an open session, and the result of them; its seconds are those since `start`,
    of the monotonic clock."""
    start = time.monotonic() if start is None else start
    if job.catalog:
        catalog.check_kept(spark, job.catalog)
    before = inputs.mark_of(job.source.store) if job.source.kind == "store" else None
    try:
        files = listed(spark, job.source)
        name = inputs.fingerprint(job.source, job.settings, before, files)
        staging = Staging(spark, f"{job.work}/{name}", reporter)
        try:
            job = _judged(job, staging, reporter)
            archive = (
                _archive(spark, job, staging, name, files, reporter) if before is None else None
            )
            stages = Stages(spark, staging, job, before, archive)
            fields, path = _run(spark, staging, stages, job, name, reporter)
        finally:
            if name.startswith(inputs.ONCE):
                staging.discard()
    except (PySparkException, Py4JError) as error:
        raise SparkFailed(short(error)) from error
    if job.check and path is not None:
        check_built(job, path, reporter)
    seconds = round(time.monotonic() - start, 3)
    reporter.send(Built(**fields, path="" if path is None else str(path), seconds=seconds))


def _archive(
    spark: SparkSession,
    job: Job,
    staging: Staging,
    name: str,
    files: list[inputs.Listed],
    reporter: Reporter,
) -> ArchiveReader:
    """The reader of archives, whose rows are there for other runs unless this is the only one."""
    if not name.startswith(inputs.ONCE):
        place = inputs.reading(job.source, job.settings)
        staging = Staging(spark, f"{job.work}/{place}", reporter)
    return ArchiveReader(spark, staging, job, files, reporter)


def _judged(job: Job, staging: Staging, reporter: Reporter) -> Job:
    """The job with the time of the stages that it resumes; a store has judged its own events."""
    if job.source.kind == "store":
        return job
    now = staging.as_of(job.settings, [*STAGES[1:], MENTIONS])
    if now != job.settings.now:
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(now))
        reporter.talk(f"going on with an earlier run: expiry is judged as of {when} UTC")
    settings = msgspec.structs.replace(job.settings, now=now)
    return msgspec.structs.replace(job, settings=settings)


def _run(
    spark: SparkSession, staging: Staging, stages: Stages, job: Job, name: str, reporter: Reporter
) -> tuple[dict[str, Any], Path | None]:
    """Run all stages; return the fields of `Built`, and the index file.

    Archives get Parquet tables too; on a URL only those, and the file is None.
    """
    if inputs.is_url(job.work):
        stages.run()
        more = _write_tables(spark, staging, stages, job, reporter)
        with reporter.stage("publish"):
            return _fields(staging, stages, name, more), None
    with IndexPublisher(job, name, f"{job.work}/{name}", stages.mark, reporter) as index:
        staging.on_table = index.staged
        stages.run()
        more = {}
        if stages.archive is not None:
            more = _write_tables(spark, staging, stages, job, reporter)
        with reporter.stage("publish", with_aside=True) as count:
            fields = _fields(staging, stages, name, more)
            done = index.finish()
            count(sum(done.rows.values()))
    return fields, done.path


def _write_tables(
    spark: SparkSession, staging: Staging, stages: Stages, job: Job, reporter: Reporter
) -> dict[str, int]:
    """The tables as Parquet, `<out>/tables/<table>`: the product on a cluster; return the rows of
    those for analysts.

    Between its two times of writing, `about` has no row: what is mixed is seen as such.
    """
    out = job.out.rstrip("/")
    details = spark.createDataFrame([about(job)], "as_of long, hot long").coalesce(1)
    with reporter.stage(TABLES) as count, polled(spark, TABLES, reporter):
        details.limit(0).write.mode("overwrite").parquet(f"{out}/tables/about")
        _copy_tables(staging, out)
        rows = {
            name: _write_table(f"{out}/tables/{name}", table)
            for name, table in stages.tables().items()
        }
        stages.rejects().write.mode("overwrite").parquet(f"{out}/rejects")
        details.write.mode("overwrite").parquet(f"{out}/tables/about")
        if job.catalog:
            names = (*PLACES, *rows, "about")
            catalog.write_into(spark, job.catalog, f"{out}/tables", names)
        count(sum(rows.values()))
    return rows


def _copy_tables(staging: Staging, out: str) -> None:
    """The tables that an index has too."""
    for table, (stage, staged) in PLACES.items():
        rows = staging.read(stage, staged)
        if table == "hot_author":
            rows = plan.hot_authors(rows)
        rows.write.mode("overwrite").option("compression", "zstd").parquet(f"{out}/tables/{table}")


def _write_table(path: str, table: DataFrame) -> int:
    """Write a table to a folder; return its rows."""
    counted = Observation()
    rows = table.observe(counted, f.count(f.lit(1)).alias("rows"))
    writer = rows.write.mode("overwrite")
    writer.options(compression="zstd", **{"parquet.enable.dictionary": "true"}).parquet(path)
    return int(counted.get["rows"])


def _fields(staging: Staging, stages: Stages, name: str, more: dict[str, int]) -> dict[str, Any]:
    """The fields of `Built` except the path of the index and the seconds; `more` are the rows of
    further tables."""
    rows = {
        table: staging.marks[stage].rows[staged]
        for table, (stage, staged) in PLACES.items()
        if table != "status"
    }
    statuses = {row[0]: row[1] for row in staging.read("dead", "status").collect()}
    apart = _of_archive(staging, stages.archive)
    mark = stages.mark()
    return {
        "fingerprint": name,
        "next_seq": mark.next_seq,
        "removals": mark.removals,
        "rows": rows | more,
        "statuses": statuses | apart["statuses"],
        "rejects": apart["rejects"],
    }


def _of_archive(staging: Staging, archive: ArchiveReader | None) -> dict[str, dict[str, int]]:
    """What only archives have: events that came again, and the most frequent reasons."""
    if archive is None:
        return {"statuses": {}, "rejects": {}}
    again = archive.read - archive.rejected - staging.marks["dead"].rows["judged"]
    counted = archive.rejects().groupBy("reason").count().orderBy("count", ascending=False)
    reasons = {row[0]: row[1] for row in counted.limit(20).collect()}
    return {"statuses": {"duplicate": again}, "rejects": reasons}
