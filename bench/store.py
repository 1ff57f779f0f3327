"""The event store against nostr-sdk's NostrLmdb on the same events: inserts, bytes, queries.

Inserts are timed by the CPU time of our writer thread, with every rule and index, search off,
events verified before; NostrLmdb, which takes one event a call, by the CPU time of the process.
Queries that have a target are timed inside a reader thread, to the finished events; beside the
peer stands the whole call on both sides, which for ours is a way into a thread and back.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from collections import Counter
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import dataset
from bench.dataset import cached
from bench.report import Report, arguments
from nostr_client.codecs.event import parse_event
from nostr_client.codecs.filters import Filter
from nostr_client.codecs.keys import VerifiedEvent
from nostr_client.store.query import aggregate, select
from nostr_client.store.sqlite import SqliteStore

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Awaitable, Callable, Iterator

    from nostr_client.store.base import SaveStatus

EVENTS, QUICK = 200_000, 6_000
REAL, REAL_QUICK = 10_000, 1_000
BATCH = 20_000
"""Events of one save: what an import gives at once."""

PEER = "NostrLmdb"
REPEAT = 7
CALLS = 5
"""Calls of one side before the other has its turn."""


def batches(path: Path) -> Iterator[list[bytes]]:
    with path.open("rb") as lines:
        while batch := list(islice(lines, BATCH)):
            yield batch


async def fill_ours(store: SqliteStore, path: Path) -> tuple[float, Counter[SaveStatus]]:
    """CPU seconds of the writer thread, and what became of the events."""
    statuses: Counter[SaveStatus] = Counter()
    spent = 0.0
    for batch in batches(path):
        events = [VerifiedEvent(parse_event(line)) for line in batch]
        before = await store.database.maintain(lambda _: time.thread_time())
        outcomes = await store.save(events)
        spent += await store.database.maintain(lambda _: time.thread_time()) - before
        statuses.update(outcome.status for outcome in outcomes)
    return spent, statuses


async def fill_peer(sdk: Any, database: Any, path: Path) -> float:
    """CPU seconds of the process for the same events, a thousand calls at once."""
    spent = 0.0
    for batch in batches(path):
        events = [sdk.Event.from_json(line.decode()) for line in batch]
        before = time.process_time()
        for start in range(0, len(events), 1_000):
            await asyncio.gather(*map(database.save_event, events[start : start + 1_000]))
        spent += time.process_time() - before
    return spent


async def probes(store: SqliteStore, path: Path) -> dict[str, tuple[Filter, float]]:
    """Filters by name, with the most milliseconds that ours may take."""
    rng = random.Random(1)
    ids: list[str] = []
    authors: Counter[str] = Counter()
    hot: dict[str, Counter[str]] = {"e": Counter(), "p": Counter()}
    with path.open("rb") as lines:
        for line in lines:
            event = parse_event(line)
            ids.append(event.id)
            authors[event.pubkey] += 1
            if event.kind == 7:
                for name, seen in hot.items():
                    seen.update(event.tag_values(name))
    keys = sorted(authors)
    some = [rng.sample(keys, min(n, len(keys))) for n in (1, 300, 1_000)]
    e, p = (_hot(hot[name]) for name in ("e", "p"))
    return {
        "author + kind, limit 20": (Filter(authors=some[0], kinds=[1], limit=20), 0.1),
        "300 authors, limit 100": (Filter(authors=some[1], limit=100), 1.0),
        "1000 authors, limit 100": (Filter(authors=some[2], limit=100), 2.0),
        "#p, 2 kinds, limit 20": (Filter(tags={"#p": [p]}, kinds=[1, 7], limit=20), 0.5),
        "500 ids": (Filter(ids=rng.sample(ids, min(500, len(ids)))), 4.0),
        "COUNT hot #e": (Filter(tags={"#e": [e]}, kinds=[7]), 0.5),
        "COUNT hot #p": (Filter(tags={"#p": [p]}, kinds=[7]), 0.5),
    }


def _hot(seen: Counter[str]) -> str:
    """The most frequent value that is not beyond what a very popular note has."""
    return next(value for value, number in seen.most_common() if number <= 5_000)


def best(call: Callable[[], object], clock: Callable[[], float] = time.thread_time) -> float:
    """Milliseconds of CPU of the fastest of a few runs, after one to warm up."""
    call()
    times = []
    for _ in range(REPEAT):
        start = clock()
        call()
        times.append(clock() - start)
    return min(times) * 1_000


async def whole(*calls: Callable[[], Awaitable[Any]]) -> list[float]:
    """Milliseconds of CPU of the process for one call of each, in turn, the best of some rounds."""
    rounds = [[await _of_many(call) for call in calls] for _ in range(REPEAT)]
    return [min(times) * 1_000 for times in zip(*rounds, strict=True)]


async def _of_many(call: Callable[[], Awaitable[Any]]) -> float:
    start = time.process_time()
    for _ in range(CALLS):
        await call()
    return (time.process_time() - start) / CALLS


async def query_rows(
    report: Report, store: SqliteStore, peer: Any, sdk: Any, path: Path, data: str = ""
) -> None:
    """One row for each question, and one beside the peer. `data` names a second set of events."""
    for name, (wanted, most) in (await probes(store, path)).items():
        counts = name.startswith("COUNT")
        inside = await store.database.read(_inside(store, wanted, counts))
        report.figure(f"{name}{data}", inside, "ms", at_most=most)
        if peer is None:
            continue
        theirs = sdk.Filter.from_json(wanted.to_json())
        if counts:
            ours, other = await whole(partial(store.count, [wanted]), partial(peer.count, theirs))
        else:
            ours, other = await whole(
                partial(store.query, [wanted]), partial(_read_all, peer, theirs)
            )
        report.time(
            f"{name}{data}: whole call", ours / 1_000, peer=PEER, theirs=other / 1_000, at_least=1.0
        )


async def scan_row(report: Report, store: SqliteStore) -> None:
    """What a sync reads of a store without fingerprints."""
    scan = await store.database.read(
        lambda conn: best(lambda: aggregate.negentropy_items(conn, store._context(), Filter()))
    )
    report.figure("full (created_at, id) scan", scan, "ms", at_most=400)


async def real_rows(report: Report, sdk: Any, folder: Path, most: int) -> None:
    """The same questions about the real events of the shared data."""
    lines = dataset.shared_lines(most)
    if not lines:
        report.note("The shared data are not here, so no real events are read.")
        return
    path = folder / "real.jsonl"
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    peer = None if sdk is None else sdk.NostrDatabase.lmdb(str(folder / "real-lmdb"))
    async with await SqliteStore.open(folder / "real.db") as store:
        await fill_ours(store, path)
        if peer is not None:
            await fill_peer(sdk, peer, path)
        await query_rows(report, store, peer, sdk, path, ", real events")


def _inside(
    store: SqliteStore, wanted: Filter, counts: bool
) -> Callable[[sqlite3.Connection], float]:
    """Times one query in the thread that runs it."""
    ask: Callable[..., object] = aggregate.count if counts else select.events
    context = store._context()
    return lambda conn: best(lambda: ask(conn, context, [wanted]))


async def _read_all(peer: Any, wanted: Any) -> Any:
    return (await peer.query(wanted)).to_vec()


async def main() -> None:
    options = arguments(__doc__)
    report = Report("store", options)
    report.versions("nostr-sdk")
    path = cached(QUICK if options.quick else EVENTS)
    with tempfile.TemporaryDirectory() as folder:
        sdk, peer = _peer(report, folder)
        ours = Path(folder) / "ours.db"
        async with await SqliteStore.open(ours) as store:
            spent, statuses = await fill_ours(store, path)
            given = sum(statuses.values())
            report.figure(
                f"inserts, writer thread, {given:,} events", given / spent, "/s", at_least=18_000
            )
            if peer is not None:
                theirs = await fill_peer(sdk, peer, path)
                report.rate("inserts", given / spent, peer=PEER, theirs=given / theirs)
            size = (await store.stats()).bytes / (await store.stats()).events
            report.figure("bytes an event on disk", size, "bytes", at_most=950)
            if peer is not None:
                report.note(
                    f"{PEER} needs {_lmdb_bytes(folder) / given:.0f} bytes an event on disk."
                )
            await query_rows(report, store, peer, sdk, path)
            await scan_row(report, store)
        await real_rows(report, sdk, Path(folder), REAL_QUICK if options.quick else REAL)
    told = ", ".join(f"{number:,} {status}" for status, number in statuses.items())
    report.note(f"Of the events, saved in batches of {BATCH:,}: {told}.")
    report.finish()


def _peer(report: Report, folder: str) -> tuple[Any, Any]:
    try:
        import nostr_sdk
    except ImportError:
        report.note("nostr-sdk is not installed, so there is no peer.")
        return None, None
    return nostr_sdk, nostr_sdk.NostrDatabase.lmdb(f"{folder}/lmdb")


def _lmdb_bytes(folder: str) -> int:
    """Blocks in use: the file itself is as large as its map."""
    return sum(file.stat().st_blocks * 512 for file in Path(folder, "lmdb").iterdir())


if __name__ == "__main__":
    asyncio.run(main())
