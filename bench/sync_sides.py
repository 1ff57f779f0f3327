"""Both sides of a benchmark of syncs: sets of events, and the two clients with a store."""

from __future__ import annotations

import asyncio
import random
import time
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from bench import dataset
from bench.fresh import Spent
from nostr_client.codecs import kinds
from nostr_client.codecs.event import EventTemplate, parse_event
from nostr_client.codecs.filters import Filter
from nostr_client.codecs.keys import KeySigner, VerifiedEvent, verify
from nostr_client.network.relay import Relay
from nostr_client.store.sqlite import SqliteStore
from nostr_client.sync.direction import Direction
from nostr_client.sync.options import Mode
from nostr_client.sync.procedure import Syncer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    Opened = Callable[[str, Path], AbstractAsyncContextManager["SyncingClient"]]

SHARE = 0.05
SEED = 20_241
IDS = Mode(ids_only=True)
_UNEQUAL = frozenset({kinds.DELETION, kinds.VANISH})
"""Kinds of requests that make a relay hold less than it was given."""


class Sides(NamedTuple):
    """All events, the filter that matches them, and what each side has before."""

    events: list[VerifiedEvent]
    question: Filter
    ours: list[VerifiedEvent]
    theirs: list[VerifiedEvent]

    @property
    def ids(self) -> set[str]:
        return {one.event.id for one in self.events}


def split(events: list[VerifiedEvent]) -> Sides:
    """Give each side all events but half of SHARE."""
    mixed = random.Random(SEED).sample(events, len(events))
    differing = int(len(events) * SHARE)
    question = Filter(kinds=sorted({one.event.kind for one in events}))
    return Sides(
        events, question, mixed[differing // 2 :], mixed[: differing // 2] + mixed[differing:]
    )


def notes(count: int) -> Sides:
    """Short notes of one author."""
    signer = KeySigner(bytes(31) + b"\x17", rand=bytes)
    chance = random.Random(SEED)
    return split([
        signer.sign_now(
            EventTemplate(kind=1, content=chance.randbytes(90).hex(), created_at=1_700_000_000 + n)
        )
        for n in range(count)
    ])  # fmt: skip


async def varied(count: int) -> Sides:
    """The real events of the shared data, and generated ones of many kinds and authors.

    Without events that a relay replaces, deletes or hides.
    """
    real = [verify(parse_event(line)) for line in dataset.shared_lines(count // 3)]
    made = [*real, *dataset.load(count)][:count]
    async with await SqliteStore.open(":memory:") as store:
        await store.save(made)
        held = await store.query([Filter()])
    return split([VerifiedEvent(event) for event in held if _is_kept(event)])


def _is_kept(event: Any) -> bool:
    names = {tag[0] for tag in event.tags}
    return event.kind not in _UNEQUAL and names.isdisjoint({"-", "expiration"})


async def on_relay(url: str, question: Filter) -> int:
    """How many events a relay has, by a comparison of ids."""
    async with Relay(url) as relay:
        return (await Syncer(None).sync(question, [(url, relay)], IDS)).events or 0


def check(equal: bool, who: str) -> None:
    """A fast sync that loses events is none."""
    if not equal:
        raise SystemExit(f"{who} does not hold what both sides held together")


async def timed(call: Callable[[], Awaitable[Any]]) -> Spent:
    wall, cpu = time.perf_counter(), time.process_time()
    await call()
    return Spent(time.perf_counter() - wall, time.process_time() - cpu)


class SyncingClient(Protocol):
    """A client with a store that is connected to one relay."""

    name: str

    async def save(self, events: Sequence[VerifiedEvent]) -> None: ...

    async def sync(self, question: Filter, direction: Direction) -> None: ...

    async def ids(self, question: Filter) -> set[str]: ...


class OurClient:
    """Our store and Syncer."""

    name = "our store"

    def __init__(self, url: str, store: SqliteStore, relay: Relay) -> None:
        self._store = store
        self._relays = [(url, relay)]

    async def save(self, events: Sequence[VerifiedEvent]) -> None:
        await self._store.save(events)

    async def sync(self, question: Filter, direction: Direction) -> None:
        mode = Mode(direction, include_private=True, include_others=True)
        await Syncer(self._store).sync(question, self._relays, mode)

    async def ids(self, question: Filter) -> set[str]:
        return {event.id for event in await self._store.query([question])}


@asynccontextmanager
async def our_client(url: str, folder: Path) -> AsyncIterator[SyncingClient]:
    async with await SqliteStore.open(folder / "store.db") as store, Relay(url) as relay:
        await relay.connect()
        yield OurClient(url, store, relay)


class SdkClient:
    """nostr-sdk's client and NostrLmdb."""

    name = "nostr-sdk's database"

    def __init__(self, sdk: Any, database: Any, client: Any) -> None:
        self._sdk = sdk
        self._database = database
        self._client = client

    async def save(self, events: Sequence[VerifiedEvent]) -> None:
        for one in events:
            await self._database.save_event(self._sdk.Event.from_json(one.event.to_json()))

    async def sync(self, question: Filter, direction: Direction) -> None:
        way = self._sdk.SyncDirection
        chosen = way.BOTH if direction is Direction.BOTH else way.DOWN
        options = self._sdk.SyncOptions().direction(chosen)
        await self._client.sync(self._asked(question), options)

    async def ids(self, question: Filter) -> set[str]:
        found = (await self._database.query(self._asked(question))).to_vec()
        return {one.id().to_hex() for one in found}

    def _asked(self, question: Filter) -> Any:
        return self._sdk.Filter.from_json(question.to_json())


@asynccontextmanager
async def sdk_client(url: str, folder: Path) -> AsyncIterator[SyncingClient]:
    import nostr_sdk as sdk

    sdk.uniffi_set_event_loop(asyncio.get_running_loop())
    database = sdk.NostrDatabase.lmdb(str(folder / "lmdb"))
    client = sdk.ClientBuilder().database(database).build()
    await client.add_relay(sdk.RelayUrl.parse(url))
    await client.connect()
    await client.wait_for_connection(timedelta(seconds=10))
    yield SdkClient(sdk, database, client)
    await client.shutdown()
