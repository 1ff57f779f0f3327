"""A two-way sync with rust-nostr's LocalRelay against nostr-sdk's own sync, in the same run.

20,000 events, 5 % of which one side lacks, half on each. Both clients keep their events in a file
(SQLite, LMDB), both relays are fresh and the same, runs alternate. Timed is the call on the clock
on the wall, as it waits for a relay in another process; the best run counts. Every run ends with a
comparison of both sides, event by event.

Then what a store of many events spends before its first message, and on 10,000 newest events that
the other side lacks: over the fingerprints that it keeps, beside a scan of all ids. By CPU time.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import random
import tempfile
import time
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import aiohttp

from bench.report import Report, arguments
from nostr_client.codecs.event import Event, EventTemplate
from nostr_client.codecs.filters import Filter
from nostr_client.codecs.keys import KeySigner, VerifiedEvent
from nostr_client.negentropy.reconcile import Initiator, Responder
from nostr_client.negentropy.storage import seal_columns
from nostr_client.network.relay import Relay
from nostr_client.store.sqlite import SqliteStore
from nostr_client.sync.options import Direction, Mode
from nostr_client.sync.procedure import Syncer
from tests.peers.servers import local_relay

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from nostr_client.negentropy.storage import Storage

EVENTS, QUICK = 20_000, 1_000
KEPT, KEPT_QUICK = 400_000, 5_000
MISSING = 10_000
SHARE = 0.05
ROUNDS = 3
SEED = 20_241
PEER = "nostr-sdk"
ALL, EVERYTHING = Filter(kinds=[1]), Filter()
IDS = Mode(ids_only=True)
BOTH = Mode(Direction.BOTH)


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
        spent = await timed(lambda: Syncer(store).sync(ALL, [(url, relay)], BOTH))
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
    report.note("After every run, both sides had the same events.")


def unsigned(number: int) -> VerifiedEvent:
    """A store asks for no signature, and signing is not what is measured."""
    key = sha256(b"%d" % number).hexdigest()
    author = f"{number % 200:02x}" * 32
    return VerifiedEvent(Event(key, author, 1_600_000_000 + number, 1, (), "x" * 100, "0" * 128))


async def kept(report: Report, count: int) -> None:
    """Fingerprints that the store keeps, against reading every id."""
    missing = min(MISSING, count // 10)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store.db"
        async with await SqliteStore.open(path) as store:
            for at in range(0, count, 5_000):
                await store.save([unsigned(n) for n in range(at, min(at + 5_000, count))])
            await store.fingerprints.register()
            await store.save([unsigned(n) for n in range(count, count + missing)])
            folding = time.process_time()
            await store.fingerprints.folded(EVERYTHING)
            folding = time.process_time() - folding
        async with await SqliteStore.open(path) as store:
            begun = time.process_time()
            heads = await store.fingerprints.folded(EVERYTHING)
            assert heads is not None
            with store.fingerprints.storage(heads) as storage:
                asking = Initiator(storage)
                first = asking.initiate()
                start = time.process_time() - begun
                stamps, ids = await store.negentropy_items(EVERYTHING)
                search = reconciled(asking, first, seal_columns(stamps[:count], ids[:count]))
            begun = time.process_time()
            Initiator(seal_columns(*await store.negentropy_items(EVERYTHING))).initiate()
            scan = time.process_time() - begun
    what = f"{count:,} events held"
    report.time(f"{what}: first message", start, peer="scan and seal", theirs=scan)
    report.figure(f"{what}: {missing:,} newest missing, our side", search * 1000, "ms")
    report.figure(f"{what}: {missing:,} events folded in", folding * 1000, "ms")


def reconciled(asking: Initiator, first: bytes, theirs: Storage) -> float:
    """CPU seconds of our side of one session."""
    answering = Responder(theirs)
    message: bytes | None = first
    spent = 0.0
    while message is not None:
        answer = answering.reconcile(message)
        begun = time.process_time()
        message = asking.reconcile(answer).message
        spent += time.process_time() - begun
    return spent


def main() -> None:
    options = arguments(__doc__)
    report = Report("sync", options)
    asyncio.run(measure(report, QUICK if options.quick else EVENTS, 1 if options.quick else ROUNDS))
    asyncio.run(kept(report, KEPT_QUICK if options.quick else KEPT))
    report.finish()


if __name__ == "__main__":
    main()
