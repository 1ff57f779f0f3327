"""A store of ten million events: what a sync costs before its first message, and a search in it.

The directory of kept fingerprints is made from random items directly, without events: signing ten
million would take hours and changes nothing of what is measured. The peer is what a store without
it must do at least, which is to sum up all ids, already in memory. By CPU time.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bench.report import Report, arguments, peak_rss_mib
from nostr_client.codecs.filters import Filter
from nostr_client.negentropy.reconcile import Initiator, Responder
from nostr_client.negentropy.storage import seal_columns
from nostr_client.store import fingerprint_tables
from nostr_client.store.sqlite import SqliteStore
from nostr_client.sync.job import prepared

if TYPE_CHECKING:
    import sqlite3

    from nostr_client.negentropy.storage import Storage

ITEMS, QUICK = 10_000_000, 20_000
MISSING = 10_000
WINDOW = 25_000
SEED = 20_242
EVERYTHING = Filter()


def columns(count: int) -> tuple[Any, Any]:
    """Random items, a second apart: uint64 timestamps and (n, 32) ids."""
    stamps = np.arange(1_600_000_000, 1_600_000_000 + count, dtype=np.uint64)
    return stamps, np.random.default_rng(SEED).integers(0, 256, (count, 32), dtype=np.uint8)


def log_came(conn: sqlite3.Connection, stamps: Any, ids: Any) -> None:
    """Write of these events that they came."""
    rows = zip(stamps.tolist(), map(bytes, ids), strict=True)
    conn.executemany("INSERT INTO neg_log (ts, id, gone) VALUES (?, ?, 0)", rows)


async def measure(report: Report, count: int) -> None:
    stamps, ids = columns(count)
    fresh = min(MISSING, count // 10)
    old = count - fresh
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store.db"
        async with await SqliteStore.open(path) as store:
            await store.database.write(
                lambda conn: fingerprint_tables.create(
                    conn, EVERYTHING, stamps[:old], ids[:old].tobytes()
                )
            )
            await store.database.write(lambda conn: log_came(conn, stamps[old:], ids[old:]))
            folding = await cpu(store.fingerprints.folded(EVERYTHING))
        sealing = time.process_time()
        theirs = seal_columns(stamps[:old], ids[:old])
        Initiator(theirs).initiate()
        sealing = time.process_time() - sealing
        async with await SqliteStore.open(path) as store:
            begun = time.process_time()
            heads = await store.fingerprints.folded(EVERYTHING)
            assert heads is not None
            with store.fingerprints.storage(heads) as storage:
                asking = Initiator(storage)
                first = asking.initiate()
                start = time.process_time() - begun
                search, found = reconciled(asking, first, theirs)
            assert found == fresh
            windows = await cpu(planned(store))
        size = path.stat().st_size / 2**20
    what = f"{count:,} events held"
    report.time(f"{what}: first message of one session", start, peer="sealing", theirs=sealing)
    report.time(f"{what}: windows of a sync", windows, peer="sealing", theirs=sealing)
    report.figure(f"{what}: {fresh:,} newest missing, our side", search * 1000, "ms")
    report.figure(f"{what}: {fresh:,} events folded in", folding * 1000, "ms")
    report.figure(f"{what}: the directory's file", size, "MiB")
    report.figure("peak memory of the bench, both sides", peak_rss_mib(), "MiB")


async def cpu(work: Any) -> float:
    """CPU seconds of this process while it waits for something."""
    begun = time.process_time()
    await work
    return time.process_time() - begun


async def planned(store: SqliteStore) -> None:
    async with prepared(store, [EVERYTHING], None, WINDOW) as job:
        Initiator(job.windows[-1].items.seal(), frame_limit=50_000).initiate()


def reconciled(asking: Initiator, first: bytes, theirs: Storage) -> tuple[float, int]:
    """CPU seconds of our side of one session, and how many events the other side lacks."""
    answering = Responder(theirs)
    message: bytes | None = first
    spent, have = 0.0, 0
    while message is not None:
        answer = answering.reconcile(message)
        begun = time.process_time()
        round_ = asking.reconcile(answer)
        spent += time.process_time() - begun
        have += len(round_.have)
        message = round_.message
    return spent, have


def main() -> None:
    options = arguments(__doc__)
    report = Report("kept", options)
    asyncio.run(measure(report, QUICK if options.quick else ITEMS))
    report.finish()


if __name__ == "__main__":
    main()
