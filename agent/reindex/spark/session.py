"""Opens one Spark session: the user's settings stand, and measured ones fill the rest."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from agent.reindex import jvm
from agent.reindex.protocol import LOCAL, MEMORY
from nostr_client.errors import NostrTallyError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import SparkSession

ARROW_RECORDS: Final = 10_000
ARROW_BYTES: Final = 64 * 2**20
"""Records and bytes of one Arrow batch: what bounds a Python worker's memory."""


SPLIT_BYTES: Final = 64 * 2**20
"""Bytes of staged files that one task reads."""


COMPILER: Final = "-XX:TieredStopAtLevel=1"
"""Only Java's quick compiler: its thorough one took a quarter of all CPU seconds of a million
events, and found little to gain, as Java only moves what numpy works on."""


FRUGAL: Final = ("-XX:GCTimeRatio=9", "-XX:MinHeapFreeRatio=15", "-XX:MaxHeapFreeRatio=40")
"""Collect more often before the heap grows: Java would else take all of it for what it could
collect. The peak of all processes for an archive of 300,000 events falls from 3.9 to 3.2 GiB."""


ENDED: Final = "Java ended: it was killed, or ran out of memory; --memory gives it more"


class SparkFailed(NostrTallyError):
    """Spark could not be started, or a stage of it failed."""


@dataclass(frozen=True, slots=True)
class SparkOptions:
    """How to run Spark here. `submitted`: spark-submit gave master, memory and Java already."""

    work: Path | None = None
    """Spark's own files (shuffles, warehouse); None leaves them to the cluster."""
    master: str = LOCAL
    memory: str = MEMORY
    partitions: int = 8
    submitted: bool = False
    conf: tuple[tuple[str, str], ...] = ()
    """What the user set, beside `spark-defaults.conf`."""
    aot: Literal["train", "use", "off"] = "train"
    """Java's class cache: not used if `off`. Who runs the job trains it afterwards, if `train`."""
    keeps_tables: bool = False
    """Whether Spark's own tables outlive the run: their folder is then the user's, or Spark's."""
    serial_gc: bool = False
    """Fewer threads, for tests; in parallel otherwise."""


def open_session(options: SparkOptions) -> SparkSession:
    """Start Java and a session. Raises NoJava, SparkFailed.

    What the user set stands: by `--conf`, in `spark-defaults.conf`, or with the submission.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("nostr-tally reindex")
    if not options.submitted:
        flags = [] if options.master.startswith(CONNECT) else _prepare_java(options)
        settings = settings_of(options, flags, os.environ)
        if settings.get(REMOTE, settings.get(MASTER, "")).startswith("local"):
            os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
        for key, value in settings.items():
            builder = builder.config(key, value)
    try:
        session = builder.getOrCreate()
        _fill(session, options)
    except (PySparkException, Py4JError, OSError) as error:
        raise SparkFailed(f"Spark did not start: {short(error)}") from error
    return session


def settings_of(
    options: SparkOptions, flags: Sequence[str], environ: Mapping[str, str]
) -> dict[str, str]:
    """The settings of a session that is started here; `flags` are ours for Java.

    `--conf` comes before other options of the command, these before `spark-defaults.conf`.
    """
    given = {**_defaults(environ), **dict(_asked(options)), **dict(options.conf)}
    master = given.get(REMOTE, given.get(MASTER, options.master))
    if master.startswith(CONNECT):  # a server that somebody else has started
        return {**dict(_SQL), **given}
    own = given.get(JAVA, "")
    fitting = [flag for flag in flags if "GC" not in flag or "GC" not in own]
    given[JAVA] = " ".join(filter(None, (own, *fitting)))
    found = {**dict(_started(options, master)), **dict(_SQL), **given}
    if REMOTE in found:
        del found[MASTER]
    return found


JAVA: Final = "spark.driver.extraJavaOptions"

MASTER: Final = "spark.master"
REMOTE: Final = "spark.remote"
"""Where Spark Connect is: `sc://HOST:PORT`, or `local[N]` for a server that is started here."""

CONNECT: Final = "sc://"
"""How the address of a server of Spark Connect begins."""


def _asked(options: SparkOptions) -> Iterator[tuple[str, str]]:
    """What options of the command ask for; at their defaults they ask for nothing."""
    if options.master != LOCAL:
        yield REMOTE if options.master.startswith(CONNECT) else MASTER, options.master
    if options.memory != MEMORY:
        yield "spark.driver.memory", options.memory


def _defaults(environ: Mapping[str, str]) -> dict[str, str]:
    """What `spark-defaults.conf` sets, in the folder in which Spark looks for it."""
    home = environ.get("SPARK_HOME")
    folder = environ.get("SPARK_CONF_DIR") or (f"{home}/conf" if home else "")
    file = Path(folder) / "spark-defaults.conf"
    if not folder or not file.is_file():
        return {}
    lines = (line.strip() for line in file.read_text("utf-8").splitlines())
    parts = (re.split(r"\s*[=:\s]\s*", line, maxsplit=1) for line in lines if line[:1] != "#")
    return {part[0]: part[1] for part in parts if len(part) == 2}


def _fill(session: SparkSession, options: SparkOptions) -> None:
    """Set what nobody set, also of a session that somebody else started."""
    given = session.conf.getAll
    for key, value in (*_SQL, ("spark.sql.shuffle.partitions", str(options.partitions))):
        if key not in given:
            session.conf.set(key, value)


def short(error: Exception) -> str:
    """The line that matters of an error of Spark, which may be pages long."""
    first, *more = str(error).strip().splitlines() or [type(error).__name__]
    if first.startswith("An error occurred while calling"):
        first = more[0].removeprefix(": ") if more else ENDED
    return first[:500]


_SQL: Final = (
    ("spark.sql.session.timeZone", "UTC"),
    ("spark.sql.execution.arrow.maxRecordsPerBatch", str(ARROW_RECORDS)),
    ("spark.sql.execution.arrow.maxBytesPerBatch", str(ARROW_BYTES)),
    ("spark.sql.parquet.compression.codec", "lz4_raw"),
    ("parquet.enable.dictionary", "false"),
    ("spark.sql.files.maxPartitionBytes", str(SPLIT_BYTES)),
    ("spark.sql.sources.partitionOverwriteMode", "static"),
)
"""Settings that a running session takes too."""


def _started(options: SparkOptions, master: str) -> Iterator[tuple[str, str]]:
    """Settings of a session that is started here."""
    yield MASTER, master
    yield "spark.driver.memory", options.memory
    # A machine that is short of CPU must not lose its own executor.
    yield "spark.executor.heartbeatInterval", "60s"
    yield "spark.network.timeout", "600s"
    yield "spark.ui.enabled", "false"
    yield "spark.ui.showConsoleProgress", "false"
    yield "spark.log.level", "ERROR"
    yield "spark.python.worker.reuse", "true"
    if master.startswith("local"):  # the workers of other masters have to reach the driver
        yield "spark.driver.bindAddress", "127.0.0.1"
        yield "spark.driver.host", "127.0.0.1"
    if options.work is not None:
        yield "spark.local.dir", str(options.work / "spark")
        if not options.keeps_tables:
            yield "spark.sql.warehouse.dir", str(options.work / "warehouse")


def _prepare_java(options: SparkOptions) -> list[str]:
    """Set the environment for the Java that pyspark starts; its further options."""
    found = jvm.find(os.environ)
    folder = jvm.cache_folder(os.environ)
    os.environ["JAVA_HOME"] = str(jvm.home_for_spark(found, folder))
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        os.environ[name] = sys.executable
    os.environ["SPARK_LAUNCHER_OPTS"] = jvm.NO_COUNTERS
    flags = ["-XX:+UseSerialGC" if options.serial_gc else "-XX:+UseParallelGC", COMPILER, *FRUGAL]
    if options.work is not None:
        flags += jvm.kept_in(options.work / "tmp")
    cache = jvm.aot_file(found, folder) if options.aot != "off" else None
    if cache is not None and cache.exists():
        flags.append(jvm.using_flags(cache))
    return flags
