"""Runs a rebuild by the reference engine, from its job to its last message."""

from __future__ import annotations

import sqlite3
import tempfile
import time
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from agent.reindex import event_rows, inputs
from agent.reindex.check import check
from agent.reindex.parquet import write_tables
from agent.reindex.protocol import Built
from agent.reindex.publish import NewNumbers, of_keys, publish, store_numbers
from agent.reindex.reference import from_archive, from_store_rows
from nostr_client.store.file.faults import store_error
from nostr_client.store.index.schema import IndexedState
from nostr_client.store.tombstones import from_store, row_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from agent.reindex.protocol import Job
    from agent.reindex.publish import PublishedIndex, RowsOf
    from agent.reindex.reference import Accumulator
    from agent.reindex.reporter import Reporter
    from nostr_client.store.tombstones import EventRow

ARCHIVED = IndexedState(1, 0)
"""The mark of tables whose events are in no store."""


def run_job(job: Job, reporter: Reporter) -> None:
    """Read, count, publish; then compare if asked."""
    start = time.monotonic()
    rejects = event_rows.Rejects()
    if job.source.kind == "store":
        tables, mark = _from_store(job, reporter)
    else:
        tables, mark = _from_archive(job, reporter, rejects), ARCHIVED
    name = inputs.fingerprint(job.source, job.settings, mark if mark != ARCHIVED else None)
    with reporter.stage("publish") as count:
        progress = partial(reporter.running, "publish")
        made = publish_index(job, name, mark, of_keys(tables), progress)
        if job.source.kind != "store":
            _as_parquet(job, tables, reporter)
        count(sum(made.rows.values()))
    if job.check:
        check_built(job, made.path, reporter)
    sizes = {**made.rows, "kinds": sum(1 for _ in tables.rows("kinds"))}
    reporter.send(
        Built(
            path=str(made.path),
            fingerprint=name,
            next_seq=mark.next_seq,
            removals=mark.removals,
            rows=sizes,
            statuses=dict(tables.statuses),
            rejects=dict(rejects.reasons),
            seconds=round(time.monotonic() - start, 3),
        )
    )


def _as_parquet(job: Job, tables: Accumulator, reporter: Reporter) -> None:
    why_not = write_tables(tables, Path(job.out), about(job))
    if why_not is not None:
        reporter.talk(f"{why_not}; without it {job.out} has index.db, and no tables to load")


def about(job: Job) -> dict[str, int]:
    """What tables say of themselves; a store's have no time, as it judges its own events."""
    if job.source.kind == "store":
        return {"hot": job.settings.hot}
    return {"as_of": job.settings.now, "hot": job.settings.hot}


def publish_index(
    job: Job,
    name: str,
    mark: IndexedState,
    rows_of: RowsOf,
    progress: Callable[[int], None],
    ready: Callable[[], None] = lambda: None,
) -> PublishedIndex:
    """Write what either engine made as the job's index file; `progress` and `ready`
    are as for `publish`. Raises StoreError and its kinds."""
    store = job.source.kind == "store"
    numbers = store_numbers(job.source.store) if store else NewNumbers()
    target = _index_target(job, name)
    return publish(rows_of, target, mark, numbers, progress, about(job), ready)


def _index_target(job: Job, name: str) -> Path:
    """The path of the index file: beside its store, or in the folder of the archives' tables."""
    if job.source.kind == "store":
        return job.source.store.with_name(f"index.db.{name}")
    folder = Path(job.out)
    folder.mkdir(parents=True, exist_ok=True)
    return folder / "index.db"


def check_built(job: Job, built: Path, reporter: Reporter) -> None:
    """Compare the built tables with the live ones and report the result."""
    with reporter.stage("check"):
        found = check(job.source.store, built, job.settings)
    reporter.send(found)


def _from_store(job: Job, reporter: Reporter) -> tuple[Accumulator, IndexedState]:
    try:
        with closing(inputs.open_store(job.source.store)) as conn:
            conn.execute("BEGIN")
            mark = IndexedState.of_store(conn)
            with reporter.stage("events") as count:
                read = _with_progress(from_store(conn, mark.next_seq), reporter, mark.next_seq - 1)
                tables = from_store_rows(read, job.settings)
                count(sum(tables.statuses.values()))
    except sqlite3.Error as error:
        raise store_error(error) from error
    return tables, mark


def _from_archive(job: Job, reporter: Reporter, rejects: event_rows.Rejects) -> Accumulator:
    work = Path(job.work)
    work.mkdir(parents=True, exist_ok=True)
    with reporter.stage("events") as count, rejects.kept_in(Path(job.out)):
        source = job.source if job.settings.strict else _whole_files(job.source, rejects)
        with tempfile.TemporaryDirectory(dir=work) as folder:
            spool = event_rows.Spool(Path(folder) / "rows")
            read = event_rows.events_of(source, job.settings.verify, rejects)
            spool.fill(_with_progress((row_of(event) for event in read), reporter, 0))
            tables = from_archive(spool.rows, job.settings)
        count(sum(tables.statuses.values()))
    return tables


def _whole_files(source: inputs.Input, rejects: event_rows.Rejects) -> inputs.Input:
    """An input without its damaged files, which are counted and named as rejected."""
    damaged = event_rows.damaged_files(source)
    for name in damaged:
        rejects.note(event_rows.Rejected(event_rows.DAMAGED, name.encode()))
    return inputs.without(source, damaged)


def _with_progress(found: Iterable[EventRow], reporter: Reporter, total: int) -> Iterator[EventRow]:
    for n, row in enumerate(found):
        if not n % 5_000:
            reporter.running("events", n, total)
        yield row
