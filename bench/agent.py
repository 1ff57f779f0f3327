"""What an idle agent costs: 100 watches over 30 relays, and nothing happens.

CPU and memory of the agent's process while its watches have been counted and wait for their turn,
and what its start costs until `/healthz` answers; then how long after an event its number has
moved. No peer does this: targets stand beside it.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import statistics
import sys
import tempfile
import time
import urllib.error
import urllib.request
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from agent.relay.server import serve
from bench.report import Report, arguments, cpu_of, memory_mib
from nostr_client import hll
from nostr_client.codecs.event import EventTemplate
from nostr_client.codecs.keys import KeySigner
from nostr_client.network.pool import RelayPool
from nostr_client.store.sqlite import SqliteStore

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[1]
WATCHES = 100
RELAYS = 30
TARGET_CORE = 0.01
TARGET_MB = 150.0
TARGET_START_S = 1.0
TARGET_READY_S = 3.0
TARGET_MOVED_S = 2.0
REACTIONS = 10
PORT = 48_717


def config(folder: str, urls: list[str]) -> str:
    """A hundred watches, three relays each."""
    parts = [
        f'[store]\npath = "{folder}/store.db"\n[relay]\nlisten = "127.0.0.1:0"\n'
        f'[api]\nlisten = "127.0.0.1:{PORT}"\ntoken_file = "{folder}/token"\n'
    ]
    for n in range(WATCHES):
        relays = ", ".join(f'"{urls[(n + k * 7) % len(urls)]}"' for k in range(3))
        target = f"{n:064x}"
        parts.append(
            f'[[watches]]\nname = "w{n}"\nfilters = [{{ kinds = [7], "#e" = ["{target}"] }}]\n'
            f"relays = [{relays}]\n"
        )
    return "".join(parts)


def answered(path: str, token: str = "") -> bytes | None:
    """The body of an answer, or None while there is none."""
    headers = {"Authorization": f"Bearer {token}"}
    request = urllib.request.Request(f"http://127.0.0.1:{PORT}{path}", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=5) as response:
            body: bytes = response.read()
    except (OSError, urllib.error.URLError):
        return None
    return body


async def until(
    path: str, good: Callable[[str], bool], token: str = "", tick: float = 0.01
) -> None:
    """Ask until the answer is good."""
    async with asyncio.timeout(120):
        while True:
            body = await asyncio.to_thread(answered, path, token)
            if body is not None and good(body.decode()):
                return
            await asyncio.sleep(tick)


def all_counted(text: str) -> bool:
    """Whether every watch was answered by each of its relays."""
    watches = json.loads(text)["watches"]
    return len(watches) == WATCHES and all(watch["answered"] == 3 for watch in watches)


async def started(folder: str, file: Path) -> asyncio.subprocess.Process:
    """An agent that is starting; it has its bytecode in the folder, as an installed one has."""
    environ = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "agent", "run", "--config", str(file)),
        cwd=ROOT,
        env=environ | {"STATE_DIRECTORY": folder, "PYTHONPYCACHEPREFIX": f"{folder}/bytecode"},
        stderr=asyncio.subprocess.DEVNULL,
    )


async def first_start(folder: str, file: Path) -> None:
    """A start that makes the bytecode, which installing a package does."""
    process = await started(folder, file)
    await until("/readyz", lambda text: "ready" in text)
    process.terminate()
    await process.wait()


def people(target: str, n: int) -> list[KeySigner]:
    """People whom a sketch of the target tells apart: no two fall into one register."""
    found: list[KeySigner] = []
    place = hll.offset({"#e": [target]})
    assert place is not None
    for secret in itertools.count(1):
        one = KeySigner(secret.to_bytes(32, "big"))
        sketch = hll.from_pubkeys([*(other.pubkey for other in found), one.pubkey], place)
        if round(hll.estimate(sketch)) > len(found):
            found.append(one)
        if len(found) == n:
            break
    return found


async def moved(relays: list[str], token: str, reactions: int) -> list[float]:
    """Seconds from a reaction, published to one relay of a watch, to the number in the API; one
    after the other."""
    took = []
    target = f"{0:064x}"
    async with RelayPool() as pool:
        for n, one in enumerate(people(target, reactions), 1):
            template = EventTemplate(
                kind=7, content="+", tags=(("e", target),), created_at=int(time.time())
            )
            published = time.monotonic()
            await pool.publish(one.sign_now(template), relays)
            await until("/v1/watches/w0", partial(counts, n), token, 0.05)
            took.append(time.monotonic() - published)
    return took


def counts(n: int, text: str) -> bool:
    """Whether a watch says a number."""
    return bool(json.loads(text)["figure"]["value"] == n)


async def measure(rest: float, seconds: float, reactions: int) -> dict[str, float]:
    """Start relays and an agent, wait until all is counted and for a rest, then watch it do nothing
    for some seconds, and count reactions."""
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        urls = []
        for _ in range(RELAYS):
            store = await stack.enter_async_context(await SqliteStore.open(":memory:"))
            urls.append((await stack.enter_async_context(serve(store, port=0))).url)
        file = Path(folder) / "agent.toml"
        file.write_text(config(folder, urls))
        await first_start(folder, file)
        began = time.monotonic()
        process = await started(folder, file)
        try:
            await until("/healthz", lambda text: "alive" in text)
            start_s, start_cpu = time.monotonic() - began, cpu_of(process.pid)
            await until("/readyz", lambda text: "ready" in text)
            ready_s, ready_cpu = time.monotonic() - began, cpu_of(process.pid)
            token = (Path(folder) / "token").read_text().strip()
            await until("/v1/watches", all_counted, token, 1.0)
            await asyncio.sleep(rest)
            before, at = cpu_of(process.pid), time.monotonic()
            await asyncio.sleep(seconds)
            used = (cpu_of(process.pid) - before) / (time.monotonic() - at)
            memory = memory_mib(process.pid)
            took = await moved(urls[:1], token, reactions)
        finally:
            process.terminate()
            await process.wait()
    return {
        "idle_core": used,
        "memory_mb": memory,
        "start_s": start_s,
        "start_cpu_s": start_cpu,
        "ready_s": ready_s,
        "ready_cpu_s": ready_cpu,
        "moved_s": statistics.median(took),
        "last_moved_s": max(took),
    }


def main() -> None:
    """Print the figures and write bench/results/agent.json."""
    options = arguments(__doc__)
    report = Report("agent", options)
    if sys.platform == "linux":
        found = asyncio.run(measure(*((0.5, 1, 2) if options.quick else (5, 60, REACTIONS))))
        report.figure("idle, cores", found["idle_core"], "", at_most=TARGET_CORE)
        report.figure("memory", found["memory_mb"], "MB", at_most=TARGET_MB)
        report.figure("start to /healthz", found["start_s"], "s", at_most=TARGET_START_S)
        report.figure("the same, CPU", found["start_cpu_s"], "s", at_most=TARGET_START_S)
        report.figure("start to ready", found["ready_s"], "s", at_most=TARGET_READY_S)
        report.figure("the same, CPU", found["ready_cpu_s"], "s", at_most=TARGET_READY_S)
        report.figure("an event to its number, median", found["moved_s"], "s")
        report.figure(
            f"the same, slowest of {REACTIONS}", found["last_moved_s"], "s", at_most=TARGET_MOVED_S
        )
    else:
        report.note(
            "This benchmark needs Linux: it reads the CPU time of another process from /proc."
        )
    report.finish()


if __name__ == "__main__":
    main()
