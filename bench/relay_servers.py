"""Relays as processes of their own, and the CPU that each takes for one `RelayLoad`."""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import aiohttp

from bench.report import cpu_of
from tests.peers.install import environment

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from bench.relay_loads import RelayLoad, Request

PEERS = Path(__file__).parents[1] / "tests" / "peers"
WINDOW = {"EVENT": 100, "REQ": 16, "COUNT": 16}
"""Requests in flight of the one client: events as an upload sends them; subscriptions as the
screens of a client have them open (nostr-relay takes 32 at most)."""

ENDS = {"EVENT": "OK", "REQ": "EOSE", "COUNT": "COUNT"}
"""The label of the frame that ends a request."""

PART = 250
"""Requests to one relay before another relay has its turn."""

DEADLINE_S = 60.0
START_S = 60.0


@dataclass
class Measured:
    """Requests per second, of CPU and of wall, by kind of request."""

    cpu: dict[str, float] = field(default_factory=dict)
    wall: dict[str, float] = field(default_factory=dict)
    refused: int = 0
    """Events that the relay did not store: mostly older versions."""


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


async def ask(ws: aiohttp.ClientWebSocketResponse, label: str, asked: Sequence[Request]) -> int:
    """Send every request, a window of them in flight, and see each of them ended.

    Returns how many events were refused.
    """
    waiting, open_ids, refused = iter(asked), set[str](), 0
    for _ in asked:
        while len(open_ids) < WINDOW[label] and (following := next(waiting, None)):
            open_ids.add(following[0])
            await ws.send_str(following[1])
        parts = await _end(ws, ENDS[label], open_ids)
        open_ids.discard(parts[1])
        if label == "REQ":
            await ws.send_str(json.dumps(["CLOSE", parts[1]]))
        refused += label == "EVENT" and not parts[2]
    return refused


async def _end(ws: aiohttp.ClientWebSocketResponse, end: str, open_ids: set[str]) -> list[Any]:
    """The next frame that ends one of the requests."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            parts: list[Any] = json.loads((await ws.receive()).data)
            if parts[0] == end and parts[1] in open_ids:
                return parts
            if parts[0] not in ("EVENT", end):
                raise RuntimeError(str(parts)[:200])


async def measure(relays: Sequence[RunningRelay], load: RelayLoad) -> list[Measured]:
    """Publish, then read, then count, a part at each relay in turn, so that a busy second of the
    machine hits all of them.

    A relay waits while others work, so the CPU of its process is that of its own requests.
    """
    found = [Measured() for _ in relays]
    work = {"EVENT": load.events, "REQ": load.reqs, "COUNT": load.counts}
    async with aiohttp.ClientSession() as http, AsyncExitStack() as stack:
        sockets = [
            await stack.enter_async_context(http.ws_connect(one.url, max_msg_size=0))
            for one in relays
        ]
        for label, asked in work.items():
            some = [n for n, one in enumerate(relays) if label != "COUNT" or one.counts]
            cpu = [cpu_of(one.pid) for one in relays]
            wall = [0.0] * len(relays)
            for first in range(0, len(asked), PART):
                for n in some:
                    start = time.perf_counter()
                    part = asked[first : first + PART]
                    found[n].refused += await ask(sockets[n], label, part)
                    wall[n] += time.perf_counter() - start
            for n in some:
                found[n].wall[label] = len(asked) / wall[n]
                found[n].cpu[label] = len(asked) / (cpu_of(relays[n].pid) - cpu[n])
    return found


class RunningRelay(NamedTuple):
    """A relay in a process of its own. `counts`: it answers COUNT."""

    pid: int
    url: str
    counts: bool = True


@asynccontextmanager
async def our_relay() -> AsyncIterator[RunningRelay]:
    """Our relay on a new file."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "agent", "relay", "--json", "--listen", "127.0.0.1:0"]
        command += ["--store", f"{folder}/store.db"]
        async with running(command, lambda line: str(json.loads(line)["url"])) as (pid, url):
            yield RunningRelay(pid, url)


@asynccontextmanager
async def local_relay() -> AsyncIterator[RunningRelay]:
    """nostr-sdk's LocalRelay."""
    command = [sys.executable, str(PEERS / "run_local_relay.py")]
    async with running(command, _after_listening) as (pid, url):
        yield RunningRelay(pid, url)


@asynccontextmanager
async def nostr_relay() -> AsyncIterator[RunningRelay]:
    """PyPI nostr-relay, in an environment of its own. It does not answer COUNT."""
    python = environment("nostr-relay")
    with tempfile.TemporaryDirectory() as folder:
        command = [str(python), str(PEERS / "run_nostr_relay.py"), folder]
        async with running(command, _after_listening) as (pid, url):
            yield RunningRelay(pid, url, counts=False)


@asynccontextmanager
async def bare_server() -> AsyncIterator[RunningRelay]:
    """aiohttp alone, which sends an OK or twenty notes without reading the request."""
    command = [sys.executable, "-m", "bench.relay_floor"]
    async with running(command, _after_listening) as (pid, url):
        yield RunningRelay(pid, url, counts=False)


def _after_listening(line: str) -> str:
    return line.split()[1] if line.startswith("LISTENING ") else ""
