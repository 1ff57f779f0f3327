"""A two-way sync with rust-nostr's LocalRelay against nostr-sdk's own sync, in the same run.

20,000 events, 5 % of which one side lacks, half on each. Both clients keep their events in a file
(SQLite, LMDB), both relays are fresh and the same, runs alternate. Timed is the call on the clock
on the wall, as it waits for a relay in another process; the best run counts. Every run ends with a
comparison of both sides, event by event.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import random
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import aiohttp

from bench.report import Report, arguments
from nostr_client.event import EventTemplate
from nostr_client.filters import Filter
from nostr_client.keys import KeySigner
from nostr_client.relay import Relay
from nostr_client.store.sqlite import SqliteStore
from nostr_client.sync.mode import Mode
from nostr_client.sync.procedure import Syncer
from tests.peers.servers import local_relay

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from nostr_client.keys import VerifiedEvent

EVENTS, QUICK = 20_000, 1_000
SHARE = 0.05
ROUNDS = 3
SEED = 20_241
PEER = "nostr-sdk"
ALL = Filter(kinds=[1])
IDS = Mode(ids_only=True)


class Spent(NamedTuple):
    """Seconds of one sync: on the wall, and of CPU in this process."""

    wall: float
    cpu: float


class Sides(NamedTuple):
    """All events, and what each side has before."""

    events: list[VerifiedEvent]
    ours: list[VerifiedEvent]
    theirs: list[VerifiedEvent]

    @property
    def ids(self) -> set[str]:
        return {one.event.id for one in self.events}


def made(count: int) -> Sides:
    signer = KeySigner(bytes(31) + b"\x17", rand=bytes)
    chance = random.Random(SEED)
    events = [
        signer.sign_now(
            EventTemplate(kind=1, content=chance.randbytes(90).hex(), created_at=1_700_000_000 + n)
        )
        for n in range(count)
    ]
    mixed = chance.sample(events, count)
    differing = int(count * SHARE)
    return Sides(events, mixed[differing // 2 :], mixed[: differing // 2] + mixed[differing:])


async def load(url: str, events: Sequence[VerifiedEvent]) -> None:
    async with aiohttp.ClientSession() as session, session.ws_connect(url) as socket:

        async def send() -> None:
            for one in events:
                await socket.send_str(f'["EVENT",{one.event.to_json()}]')

        sending = asyncio.create_task(send())
        left = len(events)
        while left:
            left -= '"OK"' in (await socket.receive(timeout=60)).data
        await sending


async def timed(call: Callable[[], Awaitable[Any]]) -> Spent:
    wall, cpu = time.perf_counter(), time.process_time()
    await call()
    return Spent(time.perf_counter() - wall, time.process_time() - cpu)


async def our_run(url: str, sides: Sides, folder: Path) -> Spent:
    async with await SqliteStore.open(folder / "store.db") as store, Relay(url) as relay:
        await store.save(sides.ours)
        await relay.connect()
        spent = await timed(lambda: Syncer(store).sync(ALL, [(url, relay)]))
        held = {event.id for event in await store.query([ALL])}
    check(held == sides.ids, "our store")
    return spent


async def their_run(url: str, sides: Sides, folder: Path) -> Spent:
    import nostr_sdk as sdk

    sdk.uniffi_set_event_loop(asyncio.get_running_loop())
    database = sdk.NostrDatabase.lmdb(str(folder / "lmdb"))
    for one in sides.ours:
        await database.save_event(sdk.Event.from_json(one.event.to_json()))
    client = sdk.ClientBuilder().database(database).build()
    await client.add_relay(sdk.RelayUrl.parse(url))
    await client.connect()
    await client.wait_for_connection(timedelta(seconds=10))
    asked = sdk.Filter().kinds([sdk.Kind(1)])
    options = sdk.SyncOptions().direction(sdk.SyncDirection.BOTH)
    spent = await timed(lambda: client.sync(asked, options))
    held = {one.id().to_hex() for one in (await database.query(asked)).to_vec()}
    await client.shutdown()
    check(held == sides.ids, f"{PEER}'s database")
    return spent


async def on_fresh_relay(
    run: Callable[[str, Sides, Path], Awaitable[Spent]], sides: Sides
) -> Spent:
    with tempfile.TemporaryDirectory() as folder:
        async with local_relay() as url:
            await load(url, sides.theirs)
            spent = await run(url, sides, Path(folder))
            async with Relay(url) as relay:
                report = await Syncer(None).sync(ALL, [(url, relay)], IDS)
            check(report.events == len(sides.events), "the relay")
            return spent


def check(equal: bool, who: str) -> None:
    """A fast sync that loses events is none."""
    if not equal:
        raise SystemExit(f"{who} does not hold what both sides held together")


async def measure(report: Report, count: int, rounds: int) -> None:
    sides = made(count)
    ours: list[Spent] = []
    theirs: list[Spent] = []
    for _ in range(rounds):
        theirs.append(await on_fresh_relay(their_run, sides))
        ours.append(await on_fresh_relay(our_run, sides))
    version = importlib.metadata.version(PEER)
    what = f"{count:,} events, {SHARE:.0%} differing, both ways"
    report.time(
        f"{what}: wall",
        min(one.wall for one in ours),
        peer=f"{PEER} {version}",
        theirs=min(one.wall for one in theirs),
        at_least=1.0,
    )
    report.time(
        f"{what}: CPU of the client",
        min(one.cpu for one in ours),
        peer=f"{PEER} {version}",
        theirs=min(one.cpu for one in theirs),
    )
    report.note("both sides were equal, event by event, after every run")


def main() -> None:
    options = arguments(__doc__)
    report = Report("sync", options)
    asyncio.run(measure(report, QUICK if options.quick else EVENTS, 1 if options.quick else ROUNDS))
    report.finish()


if __name__ == "__main__":
    main()
