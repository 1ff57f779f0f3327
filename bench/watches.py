"""A thousand watches over a hundred relays: what one round costs beside the network.

The relays are another process, over sockets, with signed events. A round's CPU is that of this
process, all threads. What the network has of it is measured by asking the very same questions
again, in the same order, with nothing around them: sockets, frames, signatures. The rest is ours:
choosing what is due, claims, merging, history, the store on the disk. There is no peer: no other
client keeps counts.

    python -m bench.watches [--quick]
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import tempfile
import time
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.report import Report, arguments, peak_rss_mib
from bench.watchrelays import START
from nostr_client.cli.gc_tuning import prepare_for_long_runs
from nostr_client.client.watches import AT_ONCE, TOTAL
from nostr_client.count.asking import CountOptions
from nostr_client.count.procedure import CountEngine
from nostr_client.network.outbox import RelayChoice, choose_many
from nostr_client.network.pool import RelayPool
from nostr_client.watch import Watch, WatchRepository
from nostr_client.watch.clock import SystemClock
from nostr_client.watch.engine import Engine
from nostr_client.watch.scheduler import LaneLimits, Moment
from nostr_client.watch.state import Merge, WatchSet
from nostr_client.watch.worker import LibraryLog, Worker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from nostr_client.codecs.filters import Filter
    from nostr_client.network.relay import Relay

WATCHES, RELAYS, EACH = 1000, 100, 4
INTERVAL = 600.0
ROUNDS = 3
SEED = 5
BESIDE_S, WHOLE_S = 0.7, 1.5
"""CPU seconds of a later round of 1,000 watches: beside the network, and in all."""

WHY = (
    "a round asks 4,000 questions, judges each answer by itself and stores it, and stores a number"
    " of each watch; by perf, four fifths of the CPU time is Python's and a twentieth is SQLite's"
)


def note(relay: Relay, asked: list[tuple[Relay, str, Filter]]) -> None:
    """Have a relay note what it is asked."""
    count, subscribe = relay.count, relay.subscribe

    def counted(filters: Sequence[Filter], timeout: float | None = None) -> Any:
        asked.append((relay, "count", filters[0]))
        return count(filters, timeout)

    def subscribed(filters: Sequence[Filter], **how: Any) -> Any:
        asked.append((relay, "read", filters[0]))
        return subscribe(filters, **how)

    vars(relay).update(count=counted, subscribe=subscribed)


class Relays:
    """The other process, and what was asked of it."""

    def __init__(self, process: asyncio.subprocess.Process, urls: list[str]) -> None:
        self.urls = urls
        self.asked: list[tuple[Relay, str, Filter]] = []
        self._process = process

    @classmethod
    @asynccontextmanager
    async def started(cls) -> AsyncIterator[Relays]:
        pipe = asyncio.subprocess.PIPE
        command = (sys.executable, "-m", "bench.watchrelays", str(RELAYS))
        process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)
        assert process.stdin is not None
        assert process.stdout is not None
        ports = json.loads(await process.stdout.readline())
        try:
            yield cls(process, [f"ws://127.0.0.1:{port}" for port in ports])
        finally:
            process.stdin.close()
            await process.wait()

    async def at(self, now: float) -> None:
        """Tell them the time."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(b"%d\n" % now)
        await self._process.stdin.drain()
        await self._process.stdout.readline()

    async def again(self) -> float:
        """Ask everything once more, with nothing around it; the CPU of that, in seconds.

        In the same order: as many watches at once, their relays beside each other, and what one
        relay was asked for one of them one after another.
        """
        askings: dict[str, dict[Relay, list[tuple[str, Filter]]]] = {}
        questions = [*self.asked]
        for relay, what, asked in questions:
            of_target = askings.setdefault(asked.tags[0][1][0], {})
            of_target.setdefault(relay, []).append((what, asked))
        room = asyncio.Semaphore(64)
        start = time.process_time()
        async with asyncio.TaskGroup() as group:
            for of_target in askings.values():
                group.create_task(_watch(room, of_target))
        spent = time.process_time() - start
        self.asked[:] = questions
        return spent


async def _watch(
    room: asyncio.Semaphore, questions: Mapping[Relay, list[tuple[str, Filter]]]
) -> None:
    async with room, asyncio.TaskGroup() as group:
        for relay, asked in questions.items():
            group.create_task(_ask(relay, asked))


async def _ask(relay: Relay, questions: list[tuple[str, Filter]]) -> None:
    for what, asked in questions:
        if what == "count":
            await relay.count([asked])
            continue
        async with relay.subscribe([asked], live=False) as page:
            while await page.batch():
                continue


def watches(urls: list[str], n: int) -> list[Watch]:
    """Watches of reactions, each on the relays that the cover gives it."""
    rng = random.Random(SEED)
    real = {f"wss://relay{i}.example.com": url for i, url in enumerate(urls)}
    weights = [1 / (1 + i / 10) for i in range(len(urls))]
    named = {f"w{i}": list(dict.fromkeys(rng.choices([*real], weights, k=6))) for i in range(n)}
    chosen = choose_many(named, RelayChoice(most=EACH))
    return [
        Watch(
            name=name,
            query="reactions",
            target=sha256(name.encode()).hexdigest(),
            relays=tuple(real[url] for url in chosen[name].relays),
            interval=f"{INTERVAL:g}s",
        )
        for name in named
    ]


class BenchClock(SystemClock):
    """A wall clock that is set between rounds; what a round takes does not move it."""

    def __init__(self) -> None:
        self.at = float(START)
        super().__init__(lambda: self.at)

    def moment(self) -> Moment:
        return Moment(self.at, self.at)  # a step of one clock alone would spread what is due


class Bench:
    """Rounds over a clock of their own."""

    def __init__(
        self, report: Report, relays: Relays, pool: RelayPool, book: WatchRepository
    ) -> None:
        self._report = report
        self._relays = relays
        self._clock = BenchClock()
        self._figures: dict[str, int | None] = {}
        worker = Worker(
            self._clock, LibraryLog(), LaneLimits(per_lane=AT_ONCE, total=TOTAL, catch_up=0)
        )
        counter = CountEngine(book=book.claims, now=self._clock.wall)
        self._engine = Engine(
            worker,
            LibraryLog(),
            pool,
            counter,
            CountOptions(),
            self._merged,
            history=book.database,
        )
        self._pool = pool

    async def _merged(self, merge: Merge) -> None:
        if merge.is_whole:
            self._figures[merge.watched.watch.name] = merge.result.value

    async def begin(self, made: Sequence[Watch]) -> None:
        """Have an engine that wants these watches."""
        for url in {url for one in made for url in one.relays}:
            note(self._pool.relay(url), self._relays.asked)
        self._engine.wanted = WatchSet({one.name: one for one in made})
        await self._engine.refresh()

    async def round(self, expected: int) -> float:
        """One round; its CPU, in seconds."""
        self._relays.asked.clear()
        self._figures.clear()
        worker = self._engine.worker
        start = time.process_time()
        working = asyncio.ensure_future(worker.run())
        await worker.settled()
        spent = time.process_time() - start
        working.cancel()
        await asyncio.wait([working])
        assert len(self._figures) == expected
        assert all(value and 100 < value < 260 for value in self._figures.values())
        return spent

    async def all(self, n: int) -> None:
        """The first round, and the cheapest of three later ones."""
        self._report.figure("first round, everything read: CPU", await self.round(n), "s")
        measured = []
        for _ in range(ROUNDS):
            self._clock.at += INTERVAL + 100
            await self._relays.at(self._clock.at)
            for name in self._engine.watches:
                self._engine.ask_now(name)
            spent = await self.round(n)
            measured.append((spent - await self._relays.again(), spent))
        ours, spent = min(measured)
        self._report.figure("a later round, all due: CPU", spent, "s", at_most=WHOLE_S, why=WHY)
        self._report.figure("of this the network", spent - ours, "s")
        self._report.figure("beside the network", ours, "s", at_most=BESIDE_S, why=WHY)
        self._report.figure("beside the network, a watch", ours / n, "s")
        self._report.note(f"A later round sends {len(self._relays.asked)} requests.")


async def run(report: Report, n: int, folder: Path) -> None:
    async with (
        Relays.started() as relays,
        RelayPool() as pool,
        await WatchRepository.open(folder / "store.db") as book,
    ):
        start = time.process_time()
        made = watches(relays.urls, n)
        spent = time.process_time() - start
        report.figure(f"relays of {n} watches by greedy cover: CPU", spent, "s")
        for watch in made:
            await book.add(watch)
        bench = Bench(report, relays, pool, book)
        await bench.begin(made)
        await bench.all(n)
        used = {url for watch in made for url in watch.relays}
        report.figure("relays in use", len(used), "", at_most=RELAYS)
        report.figure("connections", len(pool.relays), "", at_most=len(used))


def main() -> None:
    options = arguments(__doc__)
    report = Report("watches", options)
    n = 100 if options.quick else WATCHES
    prepare_for_long_runs()  # as the agent and `watch run` do
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(run(report, n, Path(folder)))
    report.figure("memory at its peak", peak_rss_mib(), "MiB", at_most=200)
    report.note(
        f"Each of {n} watches asks {EACH} of {RELAYS} relays. A fifth of the relays have no COUNT."
    )
    report.note("Between two rounds, about a tenth of the targets get new reactions.")
    report.finish()


if __name__ == "__main__":
    main()
