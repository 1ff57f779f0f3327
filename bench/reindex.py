"""A whole rebuild by Spark beside the plain engine in the same run, of an archive and of a store,
and DuckDB and polars beside both on the same tables. What speaks for Spark is bounded memory,
signatures in parallel, and the cluster.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from agent.reindex import inputs, run
from agent.reindex.protocol import Stage
from agent.reindex.reporter import tree, tree_cpu
from bench.reindex_events import archive_of, store_of
from bench.report import Report, arguments

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent.reindex.protocol import EngineName

GIB = 2**30


def tree_memory(root: int) -> int:
    """Bytes that a process and its descendants hold, shared pages by share; 0 without /proc."""
    total = 0
    for pid in tree(root):
        try:
            text = (Path("/proc") / str(pid) / "smaps_rollup").read_text("ascii")
        except OSError:
            continue
        for line in text.splitlines():
            if line.startswith("Pss:"):
                total += int(line.split()[1]) * 1024
    return total


class Watched:
    """Wall and CPU seconds and the most memory of a run and all its processes."""

    def __init__(self, call: Callable[[], object]) -> None:
        self.peak = 0
        ended = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(ended,), daemon=True)
        start, cpu = time.monotonic(), tree_cpu()
        watcher.start()
        try:
            call()
        finally:
            ended.set()
            watcher.join()
        self.wall, self.cpu = time.monotonic() - start, tree_cpu() - cpu

    def _watch(self, ended: threading.Event) -> None:
        while not ended.wait(0.5):
            self.peak = max(self.peak, tree_memory(os.getpid()))


def rebuild(source: inputs.Input, engine: EngineName) -> tuple[Watched, dict[str, Stage]]:
    """One whole rebuild by its child, as the command does it; what it makes is thrown away."""
    stages: dict[str, Stage] = {}

    def tell(message: object) -> None:
        if isinstance(message, Stage) and message.state == "done":
            stages[message.name] = message

    with tempfile.TemporaryDirectory() as name:
        out = "" if source.kind == "store" else name

        def call() -> None:
            job, why = run.make_job(source, engine=engine, out=out, master="local[2]")
            shutil.rmtree(job.work, ignore_errors=True)
            result = asyncio.run(run.build(job, why, tell))
            run.discard(Path(result.built.path))
            shutil.rmtree(job.work, ignore_errors=True)

        return Watched(call), stages


def parquet_of(store: Path, folder: Path) -> Path:
    """The events as Parquet, for peers that read no SQLite."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema(
        [("id", pa.binary()), ("pubkey", pa.binary()), ("created_at", pa.int64()),
         ("kind", pa.int32()), ("tags", pa.string())]
    )  # fmt: skip
    file = folder / "events.parquet"
    sql = "SELECT e.id, u.pubkey, e.created_at, e.kind, e.tags FROM event e JOIN author u USING (a)"
    with closing(inputs.open_store(store)) as conn, pq.ParquetWriter(file, schema) as out:
        cursor = conn.execute(sql)
        while found := cursor.fetchmany(50_000):
            columns = list(zip(*found, strict=True))
            columns[4] = tuple(tags.decode() for tags in columns[4])
            arrays = [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)]
            out.write_table(pa.table(arrays, schema=schema))
    return file


def peers(report: Report, name: str, file: Path, millions: float) -> None:
    """DuckDB, and polars from Parquet, on the same events; they check no id."""
    for peer in ("duckdb", "polars") if file.suffix == ".parquet" else ("duckdb",):
        with tempfile.TemporaryDirectory() as out:
            command = [sys.executable, "-m", "bench.reindex_peers", peer, str(file), out]
            try:
                done = Watched(partial(subprocess.run, command, check=True, capture_output=True))
            except subprocess.CalledProcessError as error:
                report.note(f"{peer} is not installed or failed: {error.stderr[-200:]!r}")
                continue
        report.figure(f"{name}, {peer}: wall", done.wall, "s")
        report.figure(f"{name}, {peer}: CPU per million events", done.cpu / millions, "s")
        report.figure(f"{name}, {peer}: memory", done.peak / GIB, "GiB")


def engines(
    report: Report, name: str, source: inputs.Input, millions: float, *, spark: bool
) -> None:
    """Whole rebuilds of one input by both engines, one after the other."""
    plain, stages = rebuild(source, "reference")
    for stage in stages.values():
        cpu = stage.cpu / millions
        report.figure(f"{name}, plain {stage.name}: CPU per million events", cpu, "s")
    report.figure(f"{name}, memory of the plain engine", plain.peak / GIB, "GiB")
    if not spark:
        return
    ours, stages = rebuild(source, "spark")
    peer = "plain engine"
    report.time(f"{name}, wall", ours.wall, peer=peer, theirs=plain.wall, at_least=1 / 1.1)
    report.time(f"{name}, CPU", ours.cpu, peer=peer, theirs=plain.cpu, at_least=1 / 1.6)
    for stage in stages.values():
        cpu = stage.cpu / millions
        report.figure(f"{name}, {stage.name}: CPU per million events", cpu, "s")
    report.figure(f"{name}, memory of the process tree", ours.peak / GIB, "GiB", at_most=6.0)


def main() -> None:
    options = arguments(__doc__)
    count = int(os.environ.get("REINDEX_EVENTS", 20_000 if options.quick else 1_000_000))
    report, millions = Report("reindex", options), count / 1e6
    report.versions("pyspark", "duckdb", "polars")
    if options.quick:
        report.note("The quick run omits Spark, because starting Java takes most of the time.")
    archive, store = archive_of(count), store_of(count)
    with_spark = not options.quick
    source = inputs.archive("jsonl", [str(archive)])
    engines(report, "archive", source, millions, spark=with_spark)
    peers(report, "archive", archive, millions)
    source = inputs.Input(kind="store", paths=(str(store),))
    engines(report, "store", source, millions, spark=with_spark)
    with tempfile.TemporaryDirectory() as name:
        peers(report, "store", parquet_of(store, Path(name)), millions)
    report.note(f"The data are {count:,} events with 9.2 tags each.")
    report.finish()


if __name__ == "__main__":
    main()
