"""Fetch, verify and store events of nostr-sdk's LocalRelay: our ingest against nostr-sdk.

The relay runs in a process of its own and holds the events in memory; both sides read them over
a WebSocket on loopback into a fresh store on disk, ours into SQLite, nostr-sdk's client into
NostrLmdb, and both are counted afterwards. Events of kinds that nothing replaces or deletes: all
of them must be there. The last rows say where our CPU time goes, event by event.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.dataset import cached
from bench.report import Report, arguments, cpu_seconds
from nostr_client.codecs import kinds
from nostr_client.codecs.event import has_valid_id, parse_event
from nostr_client.codecs.filters import Filter
from nostr_client.codecs.keys import VerifiedEvent, verify
from nostr_client.codecs.messages import parse_relay_message
from nostr_client.network.event_queue import Overflow
from nostr_client.network.ingest import Ingest
from nostr_client.network.pool import RelayPool
from nostr_client.options import Limits, Options
from nostr_client.store.sqlite import SqliteStore

if TYPE_CHECKING:
    from collections.abc import Sequence

EVENTS, QUICK = 20_000, 1_000
PEER = "nostr-sdk + NostrLmdb"
SAMPLE = 1_000
DEADLINE = 300.0

SERVER = """
import asyncio, sys
import nostr_sdk as sdk
async def main():
    database = sdk.NostrDatabase.lmdb(sys.argv[2])
    with open(sys.argv[1]) as lines:
        events = [sdk.Event.from_json(line) for line, _ in zip(lines, range(int(sys.argv[3])))]
    for at in range(0, len(events), 1000):
        await asyncio.gather(*map(database.save_event, events[at:at + 1000]))
    relay = sdk.LocalRelay(sdk.RelayBuilder().database(database))
    await relay.run()
    print(await relay.url(), await database.count(sdk.Filter()), flush=True)
    await asyncio.to_thread(sys.stdin.read)
asyncio.run(main())
"""


class Relay:
    """The LocalRelay's process; `url` and `held` once it serves."""

    url: str
    held: int

    def __init__(self, path: Path, folder: Path, count: int) -> None:
        self._arguments = (str(path), str(folder / "relay"), str(count))

    async def __aenter__(self) -> Relay:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", SERVER, *self._arguments,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        assert self._process.stdout is not None
        line = await asyncio.wait_for(self._process.stdout.readline(), DEADLINE)
        url, held = line.split()
        self.url, self.held = url.decode(), int(held)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._process.kill()
        await self._process.wait()


async def ours(url: str, path: Path, limit: int) -> int:
    """Events that are in the store at the end."""
    limits = Limits(queue=4_000)
    async with (
        await SqliteStore.open(path) as store,
        RelayPool(options=Options(limits=limits)) as pool,
        Ingest(store, verifier=pool.verifier, known=store.known) as ingest,
    ):
        wanted = Filter(limit=limit)
        async with pool.subscribe(wanted, [url], live=False, overflow=Overflow.WAIT) as events:
            await ingest.take(events)
        return (await store.stats()).events


async def theirs(url: str, path: Path, limit: int) -> int:
    """As `ours`, by nostr-sdk's client, which saves what it fetches into its database."""
    import nostr_sdk as sdk

    database = sdk.NostrDatabase.lmdb(str(path))
    client = sdk.ClientBuilder().database(database).build()
    await client.add_relay(sdk.RelayUrl.parse(url))
    await client.connect()
    wait = __import__("datetime").timedelta(seconds=DEADLINE)
    await client.fetch_events(sdk.Filter().limit(limit), wait)
    await client.shutdown()
    return int(await database.count(sdk.Filter()))


async def measure(run: Any, url: str, path: Path, limit: int) -> tuple[float, float, int]:
    """Seconds on the clock, CPU seconds of this process, events present."""
    clock, cpu = time.perf_counter(), time.process_time()
    present = await run(url, path, limit)
    return time.perf_counter() - clock, time.process_time() - cpu, present


def stages(report: Report, lines: Sequence[bytes]) -> None:
    """CPU microseconds an event for each step of our way."""
    frames = [b'["EVENT","s",' + line.strip() + b"]" for line in lines]
    events = [parse_event(line) for line in lines]

    def each(name: str, call: Any) -> None:
        report.figure(f"  {name}", cpu_seconds(call) / len(lines) * 1e6, "µs an event")

    each("parse a frame", lambda: [parse_relay_message(f, max_size=1 << 21) for f in frames])
    each("id", lambda: [has_valid_id(event) for event in events])
    each("structure, id and signature", lambda: [verify(event) for event in events])
    spent = asyncio.run(_save_seconds([VerifiedEvent(event) for event in events]))
    report.figure("  rules, rows and SQL", spent / len(lines) * 1e6, "µs an event")


async def _save_seconds(events: list[VerifiedEvent]) -> float:
    async with await SqliteStore.open(":memory:") as store:
        before = await store.database.maintain(lambda _: time.thread_time())
        await store.save(events)
        return await store.database.maintain(lambda _: time.thread_time()) - before


async def compare(report: Report, path: Path, count: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        async with Relay(path, folder, count) as relay:
            their = await measure(theirs, relay.url, folder / "theirs", count)
            our = await measure(ours, relay.url, folder / "ours.db", count)
            held = f"The relay held {relay.held:,} events."
            note = f"{held} Our store got {our[2]:,}, theirs {their[2]:,}."
    what = f"fetch, verify, store {count:,} events"
    cpu = (our[2] / our[1], their[2] / their[1])
    report.rate(f"{what}, by CPU", cpu[0], peer=PEER, theirs=cpu[1], at_least=2)
    report.rate(f"{what}, by the clock", our[2] / our[0], peer=PEER, theirs=their[2] / their[0])
    report.figure("events missing", relay.held - our[2], "events", at_most=0)
    report.note(note)


def main() -> None:
    options = arguments(__doc__)
    report = Report("ingest", options)
    report.versions("nostr-sdk")
    count = QUICK if options.quick else EVENTS
    with tempfile.NamedTemporaryFile(suffix=".jsonl") as file:
        lines = lasting(count)
        file.writelines(lines)
        file.flush()
        asyncio.run(compare(report, Path(file.name), count))
    stages(report, lines[:SAMPLE])
    report.finish()


def lasting(count: int) -> list[bytes]:
    """Events as lines, of kinds that are kept for ever, without requests to delete any."""
    with cached(2 * count).open("rb") as lines:
        kept = (line for line in lines if _lasts(parse_event(line).kind))
        return list(islice(kept, count))


def _lasts(kind: int) -> bool:
    return kinds.is_regular(kind) and kind != kinds.DELETION


if __name__ == "__main__":
    main()
