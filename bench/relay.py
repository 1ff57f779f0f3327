"""EVENT, REQ and COUNT of the local relay against two others: requests per second of server CPU.

Each relay is a process of its own with the same events, asked the same questions by the same
client: nostr-sdk's LocalRelay (Rust, in memory), PyPI nostr-relay (Python, SQLite), and ours on a
SQLite file. CPU is that of the server's process, threads and kernel included; what the clock on
the wall said stands in the notes. nostr-relay does not answer COUNT.

Then one COUNT of a post with 60,000 reactions, with registers, over the derived tables and without
them, of the clock on the wall. Then the time of a small REQ to ours while 64 connections ask for
120 events of 1 MB, eight times each, and read nothing; this one is of the clock on the wall, and
the slowest counts.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
import time
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import aiohttp
import pytest

from agent.relay.server import serve
from bench.report import Report, arguments
from nostr_client.codecs.event import Event, EventTemplate
from nostr_client.codecs.keys import KeySigner, VerifiedEvent
from nostr_client.store.index import Index
from nostr_client.store.sqlite import SqliteStore
from tests.agent.relay.client import connect, deaf
from tests.agent.relay.deaf_readers import MOST_BYTES, large_store, relay_over
from tests.peers.install import environment

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

PEERS = Path(__file__).parents[1] / "tests" / "peers"
SIGNERS = 50
TARGETS = 20
WINDOW = {"EVENT": 100, "REQ": 16, "COUNT": 16}
"""Requests in flight of the one client: events as an upload sends them; subscriptions as the
screens of a client have them open (nostr-relay takes 32 at most)."""

DEAF_REQS = 8
SMALL_REQS_S = 10.0
"""Seconds of small REQs, one after the other, while the readers' buffers fill and are full."""

SLOWEST_S = 0.5
"""What a small REQ may take beside readers that ask for everything and take nothing."""

HOT_S = 0.005
"""What a COUNT of a target with many events may take: a client asks for a screen of them."""

DEADLINE_S = 60.0
START_S = 60.0


@dataclass
class Measured:
    """Requests per second, of CPU and of wall, by kind of request."""

    cpu: dict[str, float] = field(default_factory=dict)
    wall: dict[str, float] = field(default_factory=dict)


def make_events(count: int) -> list[tuple[str, str]]:
    """Id and EVENT frame of signed events: notes of 200 characters and reactions, half and half."""
    signers = [KeySigner(bytes([1]) * 31 + bytes([n + 1]), rand=bytes) for n in range(SIGNERS)]
    made = []
    for n in range(count):
        kind = 7 if n % 2 else 1
        tags = (("e", target(n // 2)),) if n % 2 else (("t", f"topic{n % 7}"),)
        text = "+" if n % 2 else f"note {n} ".ljust(200, ".")
        template = EventTemplate(kind=kind, content=text, tags=tags, created_at=1_750_000_000 + n)
        event = signers[n % SIGNERS].sign_now(template).event
        made.append((event.id, f'["EVENT",{event.to_json()}]'))
    return made


def target(n: int) -> str:
    """One of the ids that reactions are about."""
    return f"{n % TARGETS:064x}"


def author(n: int) -> str:
    """The public key of one of the signers."""
    return KeySigner(bytes([1]) * 31 + bytes([n % SIGNERS + 1])).pubkey


def reqs(count: int) -> list[tuple[str, str]]:
    """Id and frame of queries as a client's screen makes them: one author's newest twenty notes."""
    authors = [author(n) for n in range(SIGNERS)]
    return [
        (f"r{n}", json.dumps(
            ["REQ", f"r{n}", {"authors": [authors[n % SIGNERS]], "kinds": [1], "limit": 20}]
        ))
        for n in range(count)
    ]  # fmt: skip


def counts(count: int) -> list[tuple[str, str]]:
    """Id and frame of COUNTs of reactions."""
    return [
        (f"c{n}", json.dumps(["COUNT", f"c{n}", {"kinds": [7], "#e": [target(n)]}]))
        for n in range(count)
    ]


@asynccontextmanager
async def running(
    command: Sequence[str], read_url: Callable[[str], str]
) -> AsyncIterator[tuple[int, str]]:
    """A relay's process id and URL, once it has said the URL."""
    process = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        async with asyncio.timeout(START_S):
            while not (url := read_url((await process.stdout.readline()).decode())):
                if process.returncode is not None:
                    raise RuntimeError(f"{command[-1]} did not start")
        draining = asyncio.create_task(process.stdout.read())
        yield process.pid, url
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
    await draining


def cpu_of(pid: int) -> float:
    """CPU seconds of a running process so far, user and system, all threads (Linux)."""
    fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def pipeline(
    ws: aiohttp.ClientWebSocketResponse,
    requests: list[tuple[str, str]],
    ends: Sequence[str],
    window: int,
) -> None:
    """Send every request, `window` of them in flight, and see each of them ended."""
    waiting = iter(requests)
    open_ids: set[str] = set()
    done = 0
    while done < len(requests):
        while len(open_ids) < window and (following := next(waiting, None)):
            open_ids.add(following[0])
            await ws.send_str(following[1])
        async with asyncio.timeout(DEADLINE_S):
            parts = json.loads((await ws.receive()).data)
        if parts[0] in ends and parts[1] in open_ids:
            if parts[0] == "OK" and not parts[2]:
                raise RuntimeError(str(parts))
            open_ids.discard(parts[1])
            done += 1
            if parts[0] == "EOSE":
                await ws.send_str(json.dumps(["CLOSE", parts[1]]))


async def measure(pid: int, url: str, size: int, *, with_count: bool) -> Measured:
    """Publish, then read, then count."""
    found = Measured()
    work = {"EVENT": (make_events(size), ("OK",)), "REQ": (reqs(size // 2), ("EOSE",))}
    if with_count:
        work["COUNT"] = (counts(size // 2), ("COUNT",))
    async with aiohttp.ClientSession() as http, http.ws_connect(url, max_msg_size=0) as ws:
        for name, (requests, ends) in work.items():
            cpu, wall = cpu_of(pid), time.perf_counter()
            await pipeline(ws, requests, ends, WINDOW[name])
            found.wall[name] = len(requests) / (time.perf_counter() - wall)
            found.cpu[name] = len(requests) / max(cpu_of(pid) - cpu, 0.01)
    return found


async def ours(size: int) -> Measured:
    """Our relay on a file."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "agent", "relay", "--json", "--listen", "127.0.0.1:0"]
        command += ["--store", f"{folder}/store.db"]
        async with running(command, lambda line: json.loads(line)["url"]) as (pid, url):
            return await measure(pid, url, size, with_count=True)


async def local_relay(size: int) -> Measured:
    """nostr-sdk's LocalRelay."""
    command = [sys.executable, str(PEERS / "run_local_relay.py")]
    async with running(command, _after_listening) as (pid, url):
        return await measure(pid, url, size, with_count=True)


async def nostr_relay(size: int) -> Measured:
    """PyPI nostr-relay, in an environment of its own."""
    python = environment("nostr-relay")
    with tempfile.TemporaryDirectory() as folder:
        command = [str(python), str(PEERS / "run_nostr_relay.py"), folder]
        async with running(command, _after_listening) as (pid, url):
            return await measure(pid, url, size, with_count=False)


def _after_listening(line: str) -> str:
    return line.split()[1] if line.startswith("LISTENING ") else ""


async def compare(report: Report, size: int) -> None:
    """All three, one after the other."""
    mine = await ours(size)
    report.note(f"By wall time, our relay answered {_per_second(mine.wall)}.")
    for name, run in (("LocalRelay", local_relay), ("nostr-relay", nostr_relay)):
        try:
            theirs = await run(size)
        except pytest.skip.Exception as reason:
            report.note(f"{name} was not measured: {reason}")
            continue
        report.note(f"By wall time, {name} answered {_per_second(theirs.wall)}.")
        for what, rate in theirs.cpu.items():
            report.rate(what, mine.cpu[what], peer=name, theirs=rate, unit="/s CPU")


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


async def crowd(report: Report, connections: int, events: int) -> None:
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
                end = time.perf_counter() + SMALL_REQS_S
                while (start := time.perf_counter()) < end:
                    await client.stored({"kinds": [7]})
                    times.append(time.perf_counter() - start)
                    memory = max(memory, await relay.memory())
    beside = f"beside {connections} deaf readers of {events} MB"
    report.figure(f"slowest small REQ {beside}", max(times), "s", at_most=SLOWEST_S)
    report.figure(f"memory {beside}", memory / 1e6, "MB", at_most=MOST_BYTES / 1e6)
    report.note(f"The median of {len(times):,} small REQs was {median(times) * 1e3:.1f} ms.")


def _per_second(rates: dict[str, float]) -> str:
    return ", ".join(f"{what} {rate:,.0f}/s" for what, rate in rates.items())


def main() -> None:
    """Print the table and write bench/results/relay.json."""
    options = arguments(__doc__)
    report = Report("relay", options)
    report.versions("nostr-sdk")
    if sys.platform == "linux":
        asyncio.run(compare(report, 1_000 if options.quick else 10_000))
        asyncio.run(crowd(report, *((16, 40) if options.quick else (64, 120))))
    else:
        report.note(
            "This benchmark needs Linux: it reads the CPU time of another process from /proc."
        )
    asyncio.run(hot(report, 6_000 if options.quick else 60_000))
    report.finish()


if __name__ == "__main__":
    main()
