"""Opens one Spark session with the measured settings, on this machine or as submitted."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from agent.reindex import jvm
from agent.reindex.protocol import LOCAL
from agent.reindex.spark.aot_cache import train
from nostr_client.errors import NostrTallyError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

ARROW_RECORDS: Final = 10_000
ARROW_BYTES: Final = 64 * 2**20
"""Records and bytes of one Arrow batch: what bounds a Python worker's memory."""


SPLIT_BYTES: Final = 64 * 2**20
"""Bytes of staged files that one task reads."""


COMPILER: Final = "-XX:TieredStopAtLevel=1"
"""Only Java's quick compiler: its thorough one took a quarter of all CPU seconds of a million
events, and found little to gain, as Java only moves what numpy works on."""


class SparkFailed(NostrTallyError):
    """Spark could not be started, or a stage of it failed."""


@dataclass(frozen=True, slots=True)
class SparkOptions:
    """How to run Spark here. `submitted`: spark-submit gave master, memory and Java already."""

    work: Path | None = None
    """Spark's own files (shuffles, warehouse); None leaves them to the cluster."""
    master: str = LOCAL
    memory: str = "4g"
    partitions: int = 8
    submitted: bool = False
    aot: Literal["train", "use", "off"] = "train"
    """Java's class cache: make it if it is missing, use it if it exists, or neither."""
    serial_gc: bool = False
    """Fewer threads, for tests; in parallel otherwise."""

    @property
    def local(self) -> bool:
        return self.master.startswith("local")


def open_session(options: SparkOptions, report: Callable[[str], None]) -> SparkSession:
    """Start Java and a session; `report` gets texts on slow steps. Raises NoJava, SparkFailed."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("nostr-tally reindex")
    settings = dict(_settings(options))
    if not options.submitted:
        flags = _prepare_java(options, report)
        settings["spark.driver.extraJavaOptions"] = " ".join(flags)
    for key, value in settings.items():
        builder = builder.config(key, value)
    try:
        session = builder.getOrCreate()
    except (PySparkException, Py4JError, OSError) as error:
        raise SparkFailed(f"Spark did not start: {short(error)}") from error
    session.sparkContext.setLogLevel("ERROR")
    return session


def short(error: Exception) -> str:
    """The line that matters of an error of Spark, which may be pages long."""
    first, *more = str(error).strip().splitlines() or [type(error).__name__]
    if first.startswith("An error occurred while calling"):
        first = (
            more[0].removeprefix(": ") if more else "Java ended: it was killed, or had no memory"
        )
    return first[:500]


def _settings(options: SparkOptions) -> Iterator[tuple[str, str]]:
    yield "spark.sql.session.timeZone", "UTC"
    yield "spark.sql.shuffle.partitions", str(options.partitions)
    yield "spark.sql.execution.arrow.maxRecordsPerBatch", str(ARROW_RECORDS)
    yield "spark.sql.execution.arrow.maxBytesPerBatch", str(ARROW_BYTES)
    yield "spark.sql.parquet.compression.codec", "lz4_raw"
    yield "spark.hadoop.parquet.enable.dictionary", "false"
    yield "spark.sql.files.maxPartitionBytes", str(SPLIT_BYTES)
    yield "spark.sql.sources.partitionOverwriteMode", "static"
    # A machine that is short of CPU must not lose its own executor.
    yield "spark.executor.heartbeatInterval", "60s"
    yield "spark.network.timeout", "600s"
    yield "spark.sql.catalogImplementation", "in-memory"
    if options.submitted:
        return
    yield "spark.master", options.master
    yield "spark.driver.memory", options.memory
    yield "spark.ui.enabled", "false"
    yield "spark.ui.showConsoleProgress", "false"
    yield "spark.log.level", "ERROR"
    yield "spark.driver.bindAddress", "127.0.0.1"
    yield "spark.driver.host", "127.0.0.1"
    yield "spark.python.worker.reuse", "true"
    if options.work is not None:
        yield "spark.local.dir", str(options.work / "spark")
        yield "spark.sql.warehouse.dir", str(options.work / "warehouse")


def _prepare_java(options: SparkOptions, report: Callable[[str], None]) -> list[str]:
    """Set the environment for the Java that pyspark starts; its further options."""
    found = jvm.find(os.environ)
    folder = jvm.cache_folder(os.environ)
    os.environ["JAVA_HOME"] = str(jvm.home_for_spark(found, folder))
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        os.environ[name] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["SPARK_LAUNCHER_OPTS"] = jvm.NO_COUNTERS
    flags = ["-XX:+UseSerialGC" if options.serial_gc else "-XX:+UseParallelGC", COMPILER]
    if options.work is not None:
        flags += jvm.kept_in(options.work / "tmp")
    cache = jvm.aot_file(found, folder) if options.aot != "off" else None
    may_train = options.aot == "train" and os.environ.get("NOSTR_TALLY_JVM_TRAIN") != "no"
    if cache is not None and (cache.exists() or (may_train and train(cache, report))):
        flags.append(jvm.using_flags(cache))
    return flags
