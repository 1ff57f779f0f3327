"""A store at 100,000, a million and ten million events: inserts, questions, a sync and memory.

One store grows, with every rule and index, and is measured at three sizes. The events have the
sizes and tags of notes, reactions, reposts and zap receipts; nobody signed them, because a store
asks for no signature. At each size the same people write and answer as often, so that an answer
has as many events in a large store as in a small one, and a question's time shows the store alone.

The sync compares the store, over the fingerprints that it keeps, with a side that lacks the newest
events. Its peer is what a store without fingerprints has to do before its first message: read all
ids and sum them up. Times are CPU time.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from itertools import islice
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

from bench.dataset import START, WORDS
from bench.report import Report, arguments, memory_mib
from nostr_client.codecs.event import Event
from nostr_client.codecs.filters import Filter
from nostr_client.codecs.keys import VerifiedEvent
from nostr_client.negentropy.reconcile import Initiator, Responder
from nostr_client.negentropy.storage import seal_columns
from nostr_client.store.query import aggregate, select
from nostr_client.store.sqlite import SqliteStore

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterator, Sequence

    from nostr_client.negentropy.storage import Storage

SIZES, QUICK = (100_000, 1_000_000, 10_000_000), (2_000, 4_000, 8_000)
SEED = 20_243
BATCH = 20_000
"""Events of one save: what an import gives at once."""

MEASURED = 5
"""Batches before each size whose inserts are timed."""

QUESTIONS = 200
"""Filters of each form, about events of all ages."""

DIFFERENCES = (100, 10_000)
"""How many of the newest events the other side of a sync lacks."""

PER_AUTHOR = 30
RECENT = 5_000
"""Notes that get answers: the newest ones."""

KINDS = (1, 1, 1, 1, 7, 7, 7, 7, 6, 9735)
EVERYTHING = Filter()
LEAST_RATE = 0.8
"""Rate of inserts at the largest size beside the middle one."""

MOST_GROWTH = 1.25
"""Time of a question, of a sync, and memory, at the largest size beside the middle one."""


class Asked(NamedTuple):
    """A stored event that questions are about. `target`: the note that it answers, or itself."""

    id: str
    author: str
    target: str


class Writers:
    """Makes unsigned events, a second apart."""

    def __init__(self) -> None:
        self._rng = random.Random(SEED)
        self._authors: list[str] = []
        self._notes = [(self._rng.randbytes(32).hex(), self._rng.randbytes(32).hex())]
        self._texts = [" ".join(self._rng.choices(WORDS, k=25)) for _ in range(500)]

    def __iter__(self) -> Iterator[VerifiedEvent]:
        rng, number = self._rng, 0
        while True:
            if number % PER_AUTHOR == 0:
                self._authors.append(rng.randbytes(32).hex())
            author = self._authors[-1 - int(rng.random() * min(len(self._authors), RECENT))]
            kind = KINDS[number % len(KINDS)]
            id_ = rng.randbytes(32).hex()
            tags, text = self._parts(kind)
            if kind == 1:
                self._remember(id_, author, number)
            yield VerifiedEvent(Event(id_, author, START + number, kind, tags, text, "0" * 128))
            number += 1

    def _remember(self, id_: str, author: str, number: int) -> None:
        if len(self._notes) < RECENT:
            self._notes.append((id_, author))
        else:
            self._notes[number % RECENT] = (id_, author)

    def _parts(self, kind: int) -> tuple[tuple[tuple[str, ...], ...], str]:
        note, author = self._rng.choice(self._notes)
        named = (("e", note), ("p", author))
        if kind == 1:
            return (named if self._rng.random() < 0.5 else ()), self._rng.choice(self._texts)
        if kind == 9735:
            return (*named, ("bolt11", f"lnbc{self._rng.getrandbits(500):x}")), ""
        return (*named, ("k", "1")), "+"


class Growing:
    """One store that grows, with a sample of its events."""

    def __init__(self, store: SqliteStore, rng: random.Random) -> None:
        self._store = store
        self._events = iter(Writers())
        self._rng = rng
        self._sample: list[Asked] = []
        self.size = 0

    async def grow(self, size: int) -> float:
        """Save events until there are `size`, as syncs bring them. Return how many the writer
        thread saves a second, by its CPU time, in the last batches.

        A sync of each batch also folds its events into the fingerprints.
        """
        await self._store.fingerprints.register()
        spent: list[float] = []
        while self.size < size:
            batch = list(islice(self._events, min(BATCH, size - self.size)))
            before = await self._thread()
            await self._store.save(batch)
            await self._store.fingerprints.folded(EVERYTHING)
            spent.append((await self._thread() - before) / len(batch))
            self.size += len(batch)
            for one in self._rng.sample(batch, max(20, len(batch) // 500)):
                event = one.event
                target = event.first_tag("e") or event.id
                self._sample.append(Asked(event.id, event.pubkey, target))
        return 1 / median(spent[-MEASURED:])

    async def _thread(self) -> float:
        return await self._store.database.maintain(lambda _: time.thread_time())

    async def questions(self) -> dict[str, float]:
        """Seconds of the reader's thread for the middle one of many questions, by their form."""
        some = self._rng.sample(self._sample, min(QUESTIONS, len(self._sample)))
        return {
            "author + kind, limit 20": await self._read(
                [Filter(authors=[one.author], kinds=[1], limit=20) for one in some]
            ),
            "an event's answers, limit 20": await self._read(
                [Filter(tags={"#e": [one.target]}, kinds=[1, 7], limit=20) for one in some]
            ),
            "20 ids": await self._read(
                [Filter(ids=[one.id for one in self._rng.sample(some, 20)]) for _ in some]
            ),
            "the newest 20": await self._read([Filter(limit=20) for _ in some]),
            "COUNT of an event's reactions": await self._read(
                [Filter(tags={"#e": [one.target]}, kinds=[7]) for one in some], aggregate.count
            ),
        }

    async def _read(
        self, asked: Sequence[Filter], ask: Callable[..., object] = select.events
    ) -> float:
        context = self._store._context()
        return await self._store.database.read(lambda conn: _middle(conn, context, asked, ask))

    async def syncs(self, differences: Sequence[int]) -> tuple[list[float], float]:
        """CPU seconds of our side of a sync for each number of differences, and of a scan with its
        sum."""
        spent: list[float] = []
        begun = time.process_time()
        stamps, ids = await self._store.negentropy_items(EVERYTHING)
        Initiator(seal_columns(stamps, ids)).initiate()
        scan = time.process_time() - begun
        for missing in differences:
            theirs = self.size - min(missing, self.size // 10)
            spent.append(await self._session(seal_columns(stamps[:theirs], ids[:theirs])))
        return spent, scan

    async def _session(self, theirs: Storage) -> float:
        begun = time.process_time()
        heads = await self._store.fingerprints.folded(EVERYTHING)
        assert heads is not None
        with self._store.fingerprints.storage(heads) as storage:
            asking = Initiator(storage)
            first = asking.initiate()
            start = time.process_time() - begun
            return start + reconciled(asking, first, theirs)


def _middle(
    conn: sqlite3.Connection, context: Any, asked: Sequence[Filter], ask: Callable[..., object]
) -> float:
    """The middle time of one question each, after one round to warm up."""
    times = []
    for one in (*asked, *asked):
        start = time.thread_time()
        ask(conn, context, [one])
        times.append(time.thread_time() - start)
    return median(times[len(asked) :])


def reconciled(asking: Initiator, first: bytes, theirs: Storage) -> float:
    """CPU seconds of our side of one session."""
    answering = Responder(theirs)
    message: bytes | None = first
    spent = 0.0
    while message is not None:
        answer = answering.reconcile(message)
        begun = time.process_time()
        message = asking.reconcile(answer).message
        spent += time.process_time() - begun
    return spent


class Figures(NamedTuple):
    """What one size has shown."""

    size: int
    rate: float
    questions: dict[str, float]
    syncs: list[float]
    scan: float
    memory: float


async def measured(growing: Growing, size: int) -> Figures:
    rate = await growing.grow(size)
    memory = memory_mib()
    questions = await growing.questions()
    syncs, scan = await growing.syncs(DIFFERENCES)
    return Figures(size, rate, questions, syncs, scan, memory)


def rows(report: Report, one: Figures) -> None:
    at = f"{one.size:,} events"
    report.figure(f"{at}: inserts and folding, writer thread", one.rate, "/s")
    for what, seconds in one.questions.items():
        report.figure(f"{at}: {what}", seconds, "s")
    for missing, seconds in zip(DIFFERENCES, one.syncs, strict=True):
        what = f"{at}: sync, {missing:,} newest missing on the other side"
        report.time(what, seconds, peer="scan and seal", theirs=one.scan)
    report.figure(f"{at}: memory while it grows", one.memory, "MiB")


def growth(report: Report, middle: Figures, largest: Figures) -> None:
    """The largest size beside the middle one."""
    beside = f"{largest.size:,} events beside {middle.size:,}"
    report.figure(
        f"{beside}: rate of inserts and folding", largest.rate / middle.rate, "x",
        at_least=LEAST_RATE,
    )  # fmt: skip
    pairs = {
        **{what: (middle.questions[what], spent) for what, spent in largest.questions.items()},
        **{
            f"sync, {missing:,} missing": pair
            for missing, *pair in zip(DIFFERENCES, middle.syncs, largest.syncs, strict=True)
        },
        "memory": (middle.memory, largest.memory),
    }
    for what, (before, after) in pairs.items():
        report.figure(f"{beside}: {what}", after / before, "x", at_most=MOST_GROWTH)


async def main() -> None:
    """Print the table and write bench/results/growth.json."""
    options = arguments(__doc__)
    report = Report("growth", options)
    found: list[Figures] = []
    with tempfile.TemporaryDirectory() as folder:
        async with await SqliteStore.open(Path(folder) / "store.db") as store:
            growing = Growing(store, random.Random(SEED))
            for size in QUICK if options.quick else SIZES:
                found.append(await measured(growing, size))
                rows(report, found[-1])
            growth(report, found[-2], found[-1])
            on_disk = (await store.stats()).bytes / growing.size
            report.figure("bytes an event on disk", on_disk, "bytes")
    report.finish()


if __name__ == "__main__":
    asyncio.run(main())
