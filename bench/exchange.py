"""A store in and out of files: JSONL, zstd, Parquet and SQLite, and back with every event verified.

After each import the new store is compared with the first one, event by event.

CPU time of the process with its threads, for a million events of the input. The garbage collector
and the page cache are set as `nostr-client store` sets them. Private kinds stay in the store, as in
`nostr-client store export`. The SQLite copy has all views as tables, their indexes and full text.
"""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from bench.dataset import cached
from bench.report import Report, arguments
from nostr_client.cli.gc_tuning import prepare_for_long_runs
from nostr_client.codecs.private_kinds import PublicEvents
from nostr_client.store.file.connect import file_uri
from nostr_client.store.options import StoreOptions
from nostr_client.store.sql.copy import CopySelection, export_sqlite
from nostr_client.store.sqlite import SqliteStore
from nostr_client.sync.files.event_files import form_of, opened, writer
from nostr_client.sync.files.jsonl import CACHE_MB, import_jsonl

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from nostr_client.sync.files.jsonl import ImportReport

EVENTS, QUICK = 60_000, 2_000
NAMES = ("copy.sqlite", "copy.parquet", "copy.jsonl", "copy.jsonl.zst")
EXPORT_SECONDS = 60
IMPORT_SECONDS = 150
"""CPU seconds at most for a million events; all figures are for a million."""


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


async def public_ids(store: Path) -> set[bytes]:
    """The ids of the events that an export writes."""
    async with await SqliteStore.open(store, read_only=True) as one:
        events = PublicEvents(one.export([]), (), include_private=False)
        return {bytes.fromhex(event.id) async for event in events}


def differing(store: Path, other: Path, public: set[bytes]) -> int:
    """How many public events `other` lacks or has in another form, and how many others it has."""
    with closing(sqlite3.connect(file_uri(store, "ro"), uri=True)) as conn:
        conn.execute("ATTACH ? AS other", (file_uri(other, "ro"),))
        (unlike,) = conn.execute(_UNLIKE).fetchone()
        found = {id_ for (id_,) in conn.execute("SELECT id FROM other.event")}
    return int(unlike) + len(found ^ public)


_COLUMNS = "{0}u.pubkey, {0}.created_at, {0}.kind, {0}.tags, {0}.content, {0}.sig"
_UNLIKE = f"""
SELECT count(*) FROM other.event o JOIN other.author ou ON ou.a = o.a
JOIN main.event s ON s.id = o.id JOIN main.author su ON su.a = s.a
WHERE ({_COLUMNS.format("o")}) IS NOT ({_COLUMNS.format("s")})
"""


def bytes_of(target: Path) -> int:
    """The size of a file, or of the files in a folder."""
    files = target.iterdir() if target.is_dir() else [target]
    return sum(file.stat().st_size for file in files)


def spent(work: Coroutine[object, object, object], count: int) -> float:
    """CPU seconds of a coroutine that runs alone, once, for a million of its `count` events."""
    before = time.process_time()
    asyncio.run(work)
    return (time.process_time() - before) * 1_000_000 / count


def measure(report: Report, count: int, folder: Path) -> None:
    source, store = cached(count), folder / "store.db"
    exports, imports = (None, None) if report.options.quick else (EXPORT_SECONDS, IMPORT_SECONDS)
    taken = spent(fill(store, source), count)
    report.figure("import of JSONL", taken, "s", at_most=imports)
    public = asyncio.run(public_ids(store))
    for name in NAMES:
        target, form = folder / name, name.partition(".")[2]
        taken = spent(export(store, target), count)
        report.figure(f"export to {form}", taken, "s", at_most=exports)
        report.figure(f"size of {form}", bytes_of(target) / count, "bytes an event")
        other = folder / f"{form}.db"
        taken = spent(fill(other, target), count)
        report.figure(f"import of this {form}", taken, "s", at_most=imports)
        unlike = differing(store, other, public)
        report.figure(f"events that differ after {form}", unlike, "events", at_most=0)
        other.unlink()
    report.note(f"The times are for a million events, of {count:,}.")


def main() -> None:
    options = arguments(__doc__)
    report = Report("exchange", options)
    prepare_for_long_runs()
    with tempfile.TemporaryDirectory() as folder:
        measure(report, QUICK if options.quick else EVENTS, Path(folder))
    report.finish()


if __name__ == "__main__":
    main()
