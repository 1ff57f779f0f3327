"""A whole rebuild by Spark beside the plain engine in the same run, and DuckDB and polars beside
both on the same tables. On one machine those two are several times faster than Spark: what speaks
for Spark is bounded memory, signatures in parallel, and the cluster.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from agent.reindex import inputs, reference, run
from agent.reindex.parquet import COLUMNS
from agent.reindex.protocol import STAGES, Stage
from agent.reindex.reporter import tree, tree_cpu
from bench.reindex_events import store_of
from bench.report import Report, arguments
from nostr_client.store.index_schema import IndexedState
from nostr_client.store.tombstones import from_store

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


def rebuild(store: Path, engine: EngineName) -> tuple[Watched, dict[str, Stage]]:
    """One whole rebuild by its child, as the command does it; the index it makes is thrown away."""
    stages: dict[str, Stage] = {}

    def tell(message: object) -> None:
        if isinstance(message, Stage) and message.state == "done":
            stages[message.name] = message

    def call() -> None:
        source = inputs.Input(kind="store", paths=(str(store),))
        job, why = run.make_job(source, engine=engine, memory="4g", master="local[2]")
        result = asyncio.run(run.build(job, why, tell))
        run.discard(Path(result.built.path))

    work = store.with_name(f"{store.stem}.reindex")
    subprocess.run(["rm", "-rf", str(work)], check=True)
    try:
        return Watched(call), stages
    finally:
        subprocess.run(["rm", "-rf", str(work)], check=True)


class Registers(NamedTuple):
    """CPU and wall seconds of numpy in one process: events to the table, and its last step."""

    wall: float
    cpu: float
    narrow: float


def numpy_registers(store: Path) -> Registers:
    """From a store's events to hot targets, their authors and registers as Parquet, as Spark's
    stages events, tags and registers do it; `narrow` is from sorted keys on, nothing written."""
    start, cpu = time.monotonic(), time.process_time()
    with closing(inputs.open_store(store)) as conn:
        read = from_store(conn, IndexedState.of_store(conn).next_seq)
        made = reference.from_store_rows(read, inputs.Settings(now=0))
    before = time.process_time()
    tables = {name: list(made.rows(name)) for name in ("hot", "hot_author")}
    narrow = time.process_time() - before
    with tempfile.TemporaryDirectory() as name:
        for table, found in tables.items():
            _write(found, COLUMNS[table], Path(name) / f"{table}.parquet")
    return Registers(time.monotonic() - start, time.process_time() - cpu, narrow)


def _write(found: list[tuple[Any, ...]], columns: tuple[str, ...], file: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table(dict(zip(columns, zip(*found, strict=True), strict=True)))
    pq.write_table(table, file, compression="lz4", use_dictionary=False)


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


def peers(report: Report, store: Path, millions: float) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file = parquet_of(store, folder)
        for peer in ("duckdb", "polars"):
            command = [sys.executable, "-m", "bench.reindex_peers", peer, str(file), str(folder)]
            try:
                done = Watched(partial(subprocess.run, command, check=True, capture_output=True))
            except subprocess.CalledProcessError as error:
                report.note(f"{peer} is not here or failed: {error.stderr[-200:]!r}")
                continue
            report.figure(f"{peer}: wall", done.wall, "s")
            report.figure(f"{peer}: CPU per million events", done.cpu / millions, "s")
            report.figure(f"{peer}: memory", done.peak / GIB, "GiB")


def spark_beside(
    report: Report, store: Path, millions: float, plain: Watched, numpy: Registers
) -> None:
    """A whole rebuild by Spark beside the plain engine's."""
    spark, stages = rebuild(store, "spark")
    peer = "plain engine"
    report.time("rebuild, wall", spark.wall, peer=peer, theirs=plain.wall, at_least=1 / 1.2)
    report.time("rebuild, CPU", spark.cpu, peer=peer, theirs=plain.cpu)
    parts = [stages[name] for name in ("events", "tags", "registers")]
    seconds, cpu = sum(one.seconds for one in parts), sum(one.cpu for one in parts)
    what = "store to registers"
    report.time(f"{what}, wall", seconds, peer="numpy", theirs=numpy.wall, at_least=1.0)
    report.time(f"{what}, CPU", cpu, peer="numpy", theirs=numpy.cpu)
    registers = stages["registers"].cpu
    report.time("registers alone, CPU", registers, peer="numpy, in memory", theirs=numpy.narrow)
    for name in ("start", *STAGES, "publish"):
        report.figure(f"{name}: CPU per million events", stages[name].cpu / millions, "s")
    report.figure("memory of the process tree", spark.peak / GIB, "GiB", at_most=6.0)
    report.figure("tags that tables count", stages["tags"].rows, "tags")
    report.note(f"{what}: Spark's stages events, tags and registers; numpy in one process")


def main() -> None:
    options = arguments(__doc__)
    count = int(os.environ.get("REINDEX_EVENTS", 20_000 if options.quick else 1_000_000))
    report, millions = Report("reindex", options), count / 1e6
    report.versions("pyspark", "duckdb", "polars")
    store = store_of(count)
    plain, stages = rebuild(store, "reference")
    for name, stage in stages.items():
        report.figure(f"plain {name}: CPU per million events", stage.cpu / millions, "s")
    report.figure("memory of the plain engine", plain.peak / GIB, "GiB")
    numpy = numpy_registers(store)
    if options.quick:
        report.note("the quick form leaves Spark out: Java alone would take most of its time")
    else:
        spark_beside(report, store, millions, plain, numpy)
    peers(report, store, millions)
    report.note(
        f"{count:,} events, 9.2 tags each; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    )
    report.finish()


if __name__ == "__main__":
    main()
