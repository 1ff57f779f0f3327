"""A store in and out of files: JSONL, zstd, Parquet and SQLite, and back with every event verified.

CPU time of the process with its threads, for a million events of the input. The garbage collector
and the page cache are set as `nostr-client store` sets them. Private kinds stay in the store, as in
`nostr-client store export`. The SQLite copy has all views as tables, their indexes and full text.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bench.dataset import cached
from bench.report import Report, arguments
from nostr_client.cli.gc_tuning import prepare_for_long_runs
from nostr_client.codecs.private_kinds import PublicEvents
from nostr_client.store.options import StoreOptions
from nostr_client.store.sql.copy import CopySelection, export_sqlite
from nostr_client.store.sqlite import SqliteStore
from nostr_client.sync.event_files import form_of, opened, writer
from nostr_client.sync.jsonl import CACHE_MB, import_jsonl

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from nostr_client.sync.jsonl import ImportReport

EVENTS, QUICK = 1_000_000, 2_000
NAMES = ("copy.sqlite", "copy.parquet", "copy.jsonl", "copy.jsonl.zst")
EXPORT_SECONDS = 60
IMPORT_SECONDS = 150
"""CPU seconds at most, for a million events."""


async def fill(store: Path, file: Path) -> ImportReport:
    """Import a file into a new store; every event is verified."""
    options = StoreOptions(cache_mb=CACHE_MB)
    with opened([file]) as lines:
        async with await SqliteStore.open(store, options=options) as one:
            return await import_jsonl(one, lines)


async def export(store: Path, target: Path) -> None:
    """Write the public events of a store in the form that the name says."""
    form = form_of(target.name, None)
    if form == "sqlite":
        export_sqlite(store, target, CopySelection(), int(time.time()))
        return
    async with await SqliteStore.open(store, read_only=True) as one:
        with writer(target, form) as write:
            async for event in PublicEvents(one.export([]), (), include_private=False):
                write(event)


def bytes_of(target: Path) -> int:
    """The size of a file, or of the files in a folder."""
    files = target.iterdir() if target.is_dir() else [target]
    return sum(file.stat().st_size for file in files)


def spent(work: Coroutine[object, object, object]) -> float:
    """CPU seconds of a coroutine that runs alone, once."""
    before = time.process_time()
    asyncio.run(work)
    return time.process_time() - before


def measure(report: Report, count: int, folder: Path) -> None:
    source, store = cached(count), folder / "store.db"
    exports, imports = (None, None) if report.options.quick else (EXPORT_SECONDS, IMPORT_SECONDS)
    taken = spent(fill(store, source))
    report.figure(f"import of {count:,} events", taken, "s", at_most=imports)
    for name in NAMES:
        target, form = folder / name, name.partition(".")[2]
        taken = spent(export(store, target))
        report.figure(f"export to {form}", taken, "s", at_most=exports)
        report.figure(f"size of {form}", bytes_of(target) / 1e6, "MB")
        other = folder / f"{form}.db"
        taken = spent(fill(other, target))
        report.figure(f"import of {form}", taken, "s", at_most=imports)
        other.unlink()


def main() -> None:
    options = arguments(__doc__)
    report = Report("exchange", options)
    prepare_for_long_runs()
    with tempfile.TemporaryDirectory() as folder:
        measure(report, QUICK if options.quick else EVENTS, Path(folder))
    report.finish()


if __name__ == "__main__":
    main()
