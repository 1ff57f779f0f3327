"""EVENT, REQ and COUNT of the local relay against two others: requests per second of server CPU.

Each relay is a process of its own with the same events, asked the same questions by the same
client: nostr-sdk's LocalRelay (Rust, in memory), PyPI nostr-relay (Python, SQLite), and ours on a
SQLite file. CPU is that of the server's process, threads and kernel included; what the clock on
the wall said stands in the notes. nostr-relay does not answer COUNT. `relay_loads` has the two data
sets. Ours and LocalRelay answer parts of the requests in turn, and the middle one of three ratios
counts. A server of aiohttp that sends the same bytes without a store shows what the WebSocket
library costs.

Then, of the clock on the wall: COUNTs beside 2,000 EVENT a second; one COUNT of a post with 60,000
reactions, with registers, over the derived tables and without them; and a small REQ to ours while
64 connections ask for 120 events of 1 MB, eight times each, and read nothing, where the slowest
counts.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from hashlib import sha256
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import pytest

from agent.relay.server import serve
from bench.relay_latency import beside_writes
from bench.relay_loads import mixed, target, uniform
from bench.relay_servers import bare_server, local_relay, measure, nostr_relay, our_relay
from bench.report import Report, arguments
from nostr_client.codecs.event import Event
from nostr_client.codecs.keys import VerifiedEvent
from nostr_client.store.index.keeper import Index
from nostr_client.store.sqlite import SqliteStore
from tests.agent.relay.client import connect, deaf
from tests.agent.relay.deaf_readers import MOST_BYTES, large_store, relay_over

if TYPE_CHECKING:
    from collections.abc import Iterable
    from contextlib import AbstractAsyncContextManager

    from bench.relay_loads import RelayLoad
    from bench.relay_servers import Measured, RunningRelay

LEAST = {"EVENT": 0.7, "REQ": 0.6, "COUNT": 3.0}
"""Least ratio to LocalRelay, which is written in Rust and holds its events in memory."""

WHY = {
    "EVENT": "checking an event takes a third of the time, as `verify` shows, and storing it takes"
    " two fifths, as `store` shows; LocalRelay stores nothing on a disk",
    "REQ": "aiohttp alone needs two fifths of the time for the same bytes, as another row shows",
}

DEAF_REQS = 8
SMALL_REQS_S = 10.0
"""Seconds of small REQs, one after the other, while the readers' buffers fill and are full."""

SLOWEST_S = 0.5
"""What a small REQ may take beside readers that ask for everything and take nothing."""

HOT_S = 0.005
"""What a COUNT of a target with many events may take: a client asks for a screen of them."""


async def compare(report: Report, load: RelayLoad, rounds: int) -> None:
    """Ours and LocalRelay in turn, `rounds` times. Of the ratios, the middle one counts."""
    pairs = [await together(load, our_relay(), local_relay()) for _ in range(rounds)]
    for what, least in LEAST.items():
        ratios = sorted(
            (our.cpu[what] / their.cpu[what], n) for n, (our, their) in enumerate(pairs)
        )
        our, their = pairs[ratios[len(ratios) // 2][1]]
        report.rate(
            f"{what}{load.name}", our.cpu[what], peer="LocalRelay", theirs=their.cpu[what],
            unit="/s CPU", at_least=least, why=WHY.get(what, ""),
        )  # fmt: skip
        report.note(f"The ratios of {what}{load.name} were {_all(ratio for ratio, _ in ratios)}.")
    our, their = pairs[-1]
    report.note(f"By wall time, our relay answered{load.name} {_per_second(our)}.")
    report.note(f"By wall time, LocalRelay answered{load.name} {_per_second(their)}.")


async def together(
    load: RelayLoad, *relays: AbstractAsyncContextManager[RunningRelay]
) -> list[Measured]:
    """Start relays, and measure them in turn."""
    async with AsyncExitStack() as stack:
        started = [await stack.enter_async_context(one) for one in relays]
        return await measure(started, load)


async def others(report: Report, load: RelayLoad) -> None:
    """nostr-relay, and aiohttp without a relay, once each."""
    (floor,) = await together(load, bare_server())
    for what, rate in floor.cpu.items():
        report.figure(f"{what}, aiohttp alone with the same bytes", rate, "/s CPU")
    try:
        mine, theirs = await together(load, our_relay(), nostr_relay())
    except pytest.skip.Exception as reason:
        report.note(f"nostr-relay was not measured: {reason}")
        return
    report.note(f"By wall time, nostr-relay answered {_per_second(theirs)}.")
    for what, rate in theirs.cpu.items():
        report.rate(what, mine.cpu[what], peer="nostr-relay", theirs=rate, unit="/s CPU")


async def hot(report: Report, reactions: int) -> None:
    """The middle of twenty COUNTs of one target, over an agent's derived tables and without."""
    times: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        async with await SqliteStore.open(Path(folder) / "store.db") as store:
            for first in range(0, reactions, 2_000):
                await store.save([*map(_reaction, range(first, min(first + 2_000, reactions)))])
            times["without derived tables"] = await _count_seconds(store, reactions)
            await Index.open(store)
            times["over derived tables"] = await _count_seconds(store, reactions)
    for how, seconds in times.items():
        most = HOT_S * 1e3 if how.startswith("over") else None
        report.figure(f"COUNT of {reactions:,} reactions {how}", seconds * 1e3, "ms", at_most=most)


def _reaction(n: int) -> VerifiedEvent:
    """A reaction that nobody signed: this measures no signatures."""
    id_, pubkey = (sha256(f"{what} {n}".encode()).hexdigest() for what in ("id", "author"))
    tags = (("e", target(0)),)
    return VerifiedEvent(Event(id_, pubkey, 1_750_000_000 + n, 7, tags, "+", "00" * 64))


async def _count_seconds(store: SqliteStore, reactions: int) -> float:
    times = []
    async with serve(store, port=0) as relay, connect(relay.url) as client:
        for _ in range(20):
            start = time.perf_counter()
            answer = await client.ask("COUNT", "c", {"kinds": [7], "#e": [target(0)]})
            times.append(time.perf_counter() - start)
            assert answer[2]["count"] == reactions
            assert "hll" in answer[2]
    return median(times)


async def crowd(report: Report, connections: int, events: int, seconds: float) -> None:
    """A small REQ while others ask for everything and read nothing, and the relay's memory then."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store.db"
        await large_store(path, events)
        frames = [json.dumps(["REQ", f"s{n}", {}]) for n in range(DEAF_REQS)]
        async with relay_over(path) as relay, AsyncExitStack() as stack:
            for _ in range(connections):
                await stack.enter_async_context(deaf(relay.url, *frames))
            times, memory = [], 0
            async with connect(relay.url) as client:
                end = time.perf_counter() + seconds
                while (start := time.perf_counter()) < end:
                    await client.stored({"kinds": [7]})
                    times.append(time.perf_counter() - start)
                    memory = max(memory, await relay.memory())
    beside = f"beside {connections} deaf readers of {events} MB"
    report.figure(f"slowest small REQ {beside}", max(times), "s", at_most=SLOWEST_S)
    report.figure(f"memory {beside}", memory / 1e6, "MB", at_most=MOST_BYTES / 1e6)
    report.note(f"The median of {len(times):,} small REQs was {median(times) * 1e3:.1f} ms.")


def _per_second(found: Measured) -> str:
    rates = ", ".join(f"{what} {rate:,.0f}/s" for what, rate in found.wall.items())
    return f"{rates}; it refused {found.refused} events" if found.refused else rates


def _all(ratios: Iterable[float]) -> str:
    return ", ".join(f"{ratio:.2f}" for ratio in ratios)


def main() -> None:
    """Print the table and write bench/results/relay.json."""
    options = arguments(__doc__)
    report = Report("relay", options)
    report.versions("nostr-sdk")
    if sys.platform == "linux":
        asyncio.run(_of_processes(report, quick=options.quick))
    else:
        report.note(
            "This benchmark needs Linux: it reads the CPU time of another process from /proc."
        )
    asyncio.run(hot(report, 1_000 if options.quick else 60_000))
    report.finish()


async def _of_processes(report: Report, *, quick: bool) -> None:
    size, rounds = (300, 1) if quick else (10_000, 3)
    first = uniform(size)
    for load in (first, mixed(size)):
        await compare(report, load, rounds)
    await others(report, first)
    await beside_writes(report, size, 0.5 if quick else 10.0)
    await crowd(report, *((4, 10, 1.0) if quick else (64, 120, SMALL_REQS_S)))


if __name__ == "__main__":
    main()
