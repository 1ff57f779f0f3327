"""Cards (NIP-85) of a whole store: found, signed, recorded and sent to a relay of this machine.

The store has a note of each author, so each author gives two cards. The first run signs all of
them. Then everybody gains a follower: the second run finds the cards of people among all, and
signs and sends these. The third run finds no change. Rates are by the CPU time of this process,
threads included; the relay works in a process of its own, and the notes have the clock on the wall.
Memory is that of this process.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.relay_servers import running
from bench.report import Report, arguments, cpu_of, peak_rss_mib
from nostr_client.assertions import ASSERTIONS, CardOptions
from nostr_client.assertions.relays import CardRelays
from nostr_client.assertions.run import AssertionPlan, publish
from nostr_client.cli.gc_tuning import prepare_for_long_runs
from nostr_client.codecs.event import EventTemplate
from nostr_client.codecs.keys import KeySigner
from nostr_client.count.claims import CLAIMS
from nostr_client.count.wallets.rows import WALLETS
from nostr_client.options import Options
from nostr_client.store.sqlite import SqliteStore
from nostr_client.watch.repository import WATCHES
from tests.peers.servers import local_relay

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from contextlib import AbstractAsyncContextManager

    from nostr_client.assertions import Publisher, PublishReport
    from nostr_client.codecs.keys import VerifiedEvent

PROVIDER = KeySigner(bytes([9]) * 32)
MIGRATIONS = [CLAIMS, WALLETS, WATCHES, ASSERTIONS]
AT = 1_750_000_000
RATE = 2_000.0
"""Cards a second, found, signed and published (issue 27)."""

MEMORY_MB = 300.0
"""What this process may take for 40,000 cards."""

SEND_S = 3_600.0


def authors(count: int) -> Iterator[KeySigner]:
    """Return a key for each author."""
    return (KeySigner((n + 1).to_bytes(32, "big"), rand=bytes) for n in range(count))


def notes(count: int) -> Iterator[VerifiedEvent]:
    """Yield one note of each author."""
    for n, signer in enumerate(authors(count)):
        yield signer.sign_now(EventTemplate(kind=1, content=f"note {n}", created_at=AT + n))


def follows(count: int) -> VerifiedEvent:
    """Return the follow list of one key that follows everybody."""
    tags = tuple(("p", one.pubkey) for one in authors(count))
    fan = KeySigner(bytes([8]) * 32)
    return fan.sign_now(EventTemplate(kind=3, tags=tags, created_at=AT))


async def fill(store: SqliteStore, count: int) -> None:
    """Save the notes."""
    some: list[VerifiedEvent] = []
    for one in notes(count):
        some.append(one)
        if len(some) == 2_000:
            await store.save(some)
            some = []
    await store.save(some)


@dataclass
class RunTimes:
    """Seconds of a run: of CPU of this process, on the wall, and on the wall while it sends."""

    cpu: float = 0.0
    wall: float = 0.0
    sending: float = 0.0


class TimedRelays(CardRelays):
    """Card relays that note how long they are sent to, on the wall."""

    spent: RunTimes

    async def send(self, publisher: Publisher, unknown: Mapping[str, str]) -> None:
        start = time.perf_counter()
        await super().send(publisher, unknown)
        self.spent.sending = time.perf_counter() - start


async def run(store: SqliteStore, url: str) -> tuple[PublishReport, RunTimes]:
    """Publish everything to one relay."""
    relays, spent = TimedRelays([url], Options(), SEND_S), RunTimes()
    relays.spent = spent
    wall, cpu = time.perf_counter(), time.process_time()
    plan = AssertionPlan(everything=True)
    report = await publish(store, PROVIDER, plan, CardOptions(), relays, now=time.time)
    spent.wall, spent.cpu = time.perf_counter() - wall, time.process_time() - cpu
    return report, spent


async def measure(report: Report, name: str, url: str, count: int) -> None:
    """Three runs to one relay."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store.db"
        async with await SqliteStore.open(path, migrations=MIGRATIONS) as store:
            await fill(store, count)
            for what in ("first run", "run after a change", "run without a change"):
                if what == "run after a change":
                    await store.save([follows(count)])
                show(report, f"{name}, {what}", *await run(store, url))


def show(report: Report, what: str, found: PublishReport, spent: RunTimes) -> None:
    """Add the rate of a run, and a note with the rest."""
    (delivery,) = found.relays.values()
    report.note(
        f"{what}: {found.signed:,} signed, {found.unchanged:,} unchanged, {delivery.taken:,} taken,"
        f" {delivery.left:,} left {delivery.error}; {spent.wall:.1f} s on the wall, of which"
        f" {spent.sending:.1f} s sending"
    )
    if found.signed > 1:
        report.figure(what, found.signed / spent.cpu, "cards/s CPU", at_least=RATE)
    else:
        report.figure(what, found.unchanged / spent.cpu, "cards compared/s CPU")


def ours(folder: str) -> AbstractAsyncContextManager[tuple[int, str]]:
    """Return our relay on a file."""
    command = [sys.executable, "-m", "agent", "relay", "--json", "--listen", "127.0.0.1:0"]
    command += ["--store", f"{folder}/relay.db"]
    return running(command, lambda line: str(json.loads(line)["url"]))


async def compare(report: Report, count: int) -> None:
    """Publish to our relay and to nostr-sdk's."""
    with tempfile.TemporaryDirectory() as folder:
        async with ours(folder) as (pid, url):
            await measure(report, "our relay", url, count)
            report.note(f"Our relay used {cpu_of(pid):.1f} s of CPU time.")
    async with local_relay() as url:
        await measure(report, "LocalRelay", url, count)


def main() -> None:
    """Print the table and write bench/results/assertions.json."""
    options = arguments(__doc__)
    report = Report("assertions", options)
    report.versions("nostr-sdk")
    prepare_for_long_runs()  # as the command and the agent do
    asyncio.run(compare(report, 1_000 if options.quick else 20_000))
    report.figure("memory", peak_rss_mib(), "MiB", at_most=MEMORY_MB)
    report.finish()


if __name__ == "__main__":
    main()
