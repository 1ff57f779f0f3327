"""What `nostr-client count` costs beside the import of aiohttp, by the CPU time of fresh processes.

One COUNT with registers of one local relay, by a name of a question, by a filter, and with a store.
The processes run in turn, and the best run of each counts. Every program with a WebSocket pays for
aiohttp, so the ratio shows what the rest of the start costs.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

from agent.relay.server import serve
from bench.dataset import load
from bench.fresh import CLIENT, Program, best, modules_of
from bench.report import Report, arguments
from nostr_client.codecs.kinds import REACTION
from nostr_client.store.sqlite import SqliteStore

EVENTS = 2_000
ROUNDS, QUICK = 7, 2
MOST = 1.5
"""CPU of a count beside the import of aiohttp, at most."""

AIOHTTP = (sys.executable, "-c", "import aiohttp")


def questions(url: str, target: str, folder: Path) -> dict[str, list[str]]:
    """Words of commands, by what they ask."""
    asked = ["-r", url, "--json"]
    return {
        "a named question": ["count", "reactions", target, *asked],
        "a filter": ["count", "--kind", "1", *asked],
        "a named question, with a store": [
            *("count", "reactions", target, *asked, "--store", str(folder / "store.db"))
        ],
    }


def measure(report: Report, url: str, target: str, folder: Path, rounds: int) -> None:
    asked = questions(url, target, folder)
    programs = [Program((*CLIENT, *words), folder) for words in asked.values()]
    aiohttp, *counts = best(rounds, Program(AIOHTTP, folder), *programs)
    for (what, words), spent in zip(asked.items(), counts, strict=True):
        report.time(
            f"count by {what}: CPU", spent.cpu, peer="import aiohttp", theirs=aiohttp.cpu,
            at_least=1 / MOST,
        )  # fmt: skip
        report.figure(f"count by {what}: modules", len(modules_of(words, folder)), "")


async def main() -> None:
    """Print the table and write bench/results/start.json."""
    options = arguments(__doc__)
    report = Report("start", options)
    report.versions("aiohttp")
    events = load(EVENTS)
    reaction = next(one.event for one in events if one.event.kind == REACTION)
    with tempfile.TemporaryDirectory() as name:
        async with await SqliteStore.open(":memory:") as store, serve(store, port=0) as relay:
            await store.save(events)
            target = reaction.first_tag("e") or ""
            rounds = QUICK if options.quick else ROUNDS
            await asyncio.to_thread(measure, report, relay.url, target, Path(name), rounds)
    report.finish()


if __name__ == "__main__":
    asyncio.run(main())
