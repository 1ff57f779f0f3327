"""Trains Java's class cache (AOT cache) in the background after a rebuild, by one small run.

`-m agent.reindex.spark.training CACHE` trains it; with a second argument it is the small run.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Final

from agent.reindex import jvm
from agent.reindex.tempdir import scratch

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa
    from pyspark.sql import SparkSession


LOOK_S: Final = 1.0

TRAINING_S: Final = 900.0
"""Seconds that the training may take; a slow machine works without a cache."""


def start_training(environ: Mapping[str, str]) -> bool:
    """Start a process that trains the cache, unless it is there or its training failed before."""
    cache = jvm.aot_file(jvm.find(environ), jvm.cache_folder(environ))
    wanted = environ.get("NOSTR_TALLY_JVM_TRAIN") != "no"
    if not wanted or cache is None or cache.exists() or _failed(cache).exists():
        return False
    subprocess.Popen(
        [sys.executable, "-m", "agent.reindex.spark.training", str(cache)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={name: value for name, value in environ.items() if name != "TMPDIR"},
        start_new_session=True,  # it outlives the rebuild that it follows
    )
    return True


def train(cache: Path) -> bool:
    """Train the cache, 30 to 60 s; False where that fails, which is remembered.

    Whatever ends this, no half cache is left, nor a process.
    """
    with scratch(cache.parent) as folder:
        part = folder / cache.name
        command = [sys.executable, "-m", "agent.reindex.spark.training", str(part), "part"]
        if not _succeeds(command, folder) or not part.exists():
            _failed(cache).touch()
            return False
        part.replace(cache)
        for old in jvm.outdated(cache):
            old.unlink(missing_ok=True)
    return True


def _succeeds(command: list[str], folder: Path) -> bool:
    """Whether a command ends well in time; no process that it started, Java too, is left then."""
    child = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,  # Java holds it open until the cache is written
        stderr=subprocess.STDOUT,
        env=_environment(folder),
        start_new_session=True,
    )
    try:
        child.communicate(timeout=TRAINING_S)
    except subprocess.TimeoutExpired:
        return False
    finally:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    return not child.returncode


def _environment(folder: Path) -> dict[str, str]:
    """What a Spark of this Python needs, with temporary files in `folder`."""
    home = jvm.home_for_spark(jvm.find(os.environ), folder.parent)
    ours = {"TMPDIR": str(folder), "JAVA_HOME": str(home), "PYSPARK_PYTHON": sys.executable}
    return os.environ | ours


def _failed(cache: Path) -> Path:
    """The file that says that the cache could not be trained."""
    return cache.with_suffix(".failed")


def learn(file: Path) -> None:
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


def _end_with(parent: int) -> None:
    """End this group of processes, Java too, once the process that started it is gone."""
    while os.getppid() == parent:
        time.sleep(LOOK_S)
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    if len(sys.argv) > 2:
        Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
        learn(Path(sys.argv[1]))
    else:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
        os.nice(10)
        train(Path(sys.argv[1]))
