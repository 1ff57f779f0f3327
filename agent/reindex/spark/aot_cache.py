"""Trains Java's class cache (AOT cache) by one small rebuild: `-m … FILE`."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from agent.reindex import jvm
from agent.reindex.spark.ending import childless
from agent.reindex.tempdir import scratch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa
    from pyspark.sql import SparkSession


TRAINING_S: Final = 300.0
"""Seconds that the training of an AOT cache may take; a slow machine works without one."""


def train(cache: Path, report: Callable[[str], None]) -> bool:
    """Write the AOT cache by one small run in a process of its own; False where it fails.

    JAVA_HOME and the Python to use must be in the environment. Whatever ends this, no half cache
    is left, nor a process.
    """
    report("training Java's class cache: 30 to 60 s once, then Spark starts in a third of the time")
    with scratch(cache.parent) as folder, childless():
        part = folder / cache.name
        command = [sys.executable, "-m", "agent.reindex.spark.aot_cache", str(part)]
        try:
            done = subprocess.run(
                command,
                timeout=TRAINING_S,
                check=False,
                capture_output=True,
                stdin=subprocess.DEVNULL,
                env=os.environ | {"TMPDIR": str(folder)},
            )
        except subprocess.TimeoutExpired:
            report("the training took too long: going on without it")
            return False
        if done.returncode or not part.exists():
            report("the training failed: going on without it")
            return False
        part.replace(cache)
        for old in jvm.outdated(cache):
            old.unlink(missing_ok=True)
    return True


def main(file: Path) -> None:
    """Start, shuffle, read and write Parquet, pass Arrow to Python, end; all in `file`'s folder."""
    from pyspark.sql import SparkSession

    # A rebuild picks its collector too; a cache that was trained with another fits as well.
    flags = ["-XX:+UseParallelGC", *jvm.kept_in(file.parent / "tmp"), jvm.training_flags(file)]
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    for key, value in {
        "spark.driver.memory": "1g",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.local.dir": str(file.parent),
        "spark.sql.warehouse.dir": str(file.parent / "warehouse"),
        "spark.driver.extraJavaOptions": " ".join(flags),
    }.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    with tempfile.TemporaryDirectory() as folder:
        exercise(session, Path(folder))
    session.stop()


def exercise(session: SparkSession, folder: Path) -> int:
    """A shuffle, Parquet both ways, Arrow through Python; the rows that came out."""
    from pyspark.sql import functions as f

    numbers = session.range(20_000).withColumn("k", f.col("id") % 10)
    grouped = numbers.groupBy("k").agg(f.count("*").alias("n"), f.max("id").alias("most"))
    grouped.write.mode("overwrite").parquet(str(folder / "grouped"))
    back = session.read.parquet(str(folder / "grouped"))
    joined = numbers.join(back, "k").mapInArrow(_pass, "id long, k long, n long, most long")
    return joined.select("id").distinct().count()


def _pass(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


if __name__ == "__main__":
    main(Path(sys.argv[1]))
