"""nostr-sdk's client, unmodified, against our relay."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

import nostr_sdk as sdk
import pytest

from agent.relay.server import serve
from nostr_client.codecs.filters import Filter
from nostr_client.codecs.keys import VerifiedEvent
from nostr_client.store.sqlite import SqliteStore
from tests.agent.relay.kit import NOW, key, signed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable
    from pathlib import Path

    from agent.relay.server import RelayServer
    from nostr_client.codecs.event import Event

pytestmark = pytest.mark.interop

WAIT = timedelta(seconds=10)
TARGET = "ab" * 32


@pytest.fixture(autouse=True)
async def _loop() -> None:
    """nostr-sdk calls back into the event loop that it was told of."""
    sdk.uniffi_set_event_loop(asyncio.get_running_loop())


@pytest.fixture
async def store() -> AsyncIterator[SqliteStore]:
    async with await SqliteStore.open(":memory:") as opened:
        yield opened


@pytest.fixture
async def relay(store: SqliteStore) -> AsyncIterator[RelayServer]:
    async with serve(store, port=0) as server:
        yield server


@asynccontextmanager
async def client_of(
    relay: RelayServer, *, seed: int | None = None, database: sdk.NostrDatabase | None = None
) -> AsyncIterator[sdk.Client]:
    """A connected client, with a key and a database where it needs them."""
    builder = sdk.ClientBuilder()
    if seed is not None:
        keys = sdk.Keys(sdk.SecretKey.parse(key(seed)._secret.secret.hex()))
        builder = builder.signer(sdk.NostrSigner.keys(keys))
    if database is not None:
        builder = builder.database(database)
    client = builder.build()
    await client.add_relay(sdk.RelayUrl.parse(relay.url))
    await client.connect()
    await client.wait_for_connection(WAIT)
    try:
        yield client
    finally:
        await client.shutdown()


def theirs(event: Event) -> sdk.Event:
    return sdk.Event.from_json(event.to_json())


def wanted(**fields: object) -> sdk.Filter:
    return sdk.Filter.from_json(Filter(**fields).to_json())


async def fill(store: SqliteStore, events: Iterable[Event]) -> None:
    await store.save([VerifiedEvent(event) for event in events])


async def the_relay(client: sdk.Client, server: RelayServer) -> sdk.Relay:
    return await client.relay(sdk.RelayUrl.parse(server.url))


async def test_publish_and_fetch(relay: RelayServer) -> None:
    events = [signed(1, 1, content=str(i), created_at=NOW + i) for i in range(20)]
    async with client_of(relay) as client:
        for event in events:
            output = await client.send_event(theirs(event))
            assert len(output.success) == 1
        found = await client.fetch_events(wanted(kinds=[1], limit=5), WAIT)
        assert [e.id().to_hex() for e in found.to_vec()] == [e.id for e in events[:-6:-1]]


async def test_a_refused_event_is_a_failure_with_its_reason(relay: RelayServer) -> None:
    async with client_of(relay) as client:
        output = await client.send_event(theirs(signed(1, 1, [["expiration", "1"]])))
        assert not output.success
        assert "invalid:" in str(output.failed)


async def test_subscribe_live(relay: RelayServer) -> None:
    loop = asyncio.get_running_loop()
    seen: asyncio.Queue[str] = asyncio.Queue()

    class Listener(sdk.HandleNotification):
        async def handle(self, relay_url: object, subscription_id: str, event: sdk.Event) -> None:
            loop.call_soon_threadsafe(seen.put_nowait, event.id().to_hex())

        async def handle_msg(self, relay_url: object, msg: object) -> None:
            return

    event = signed(1, 1)
    async with client_of(relay) as reader, client_of(relay) as writer:
        listening = asyncio.ensure_future(reader.handle_notifications(Listener()))
        await reader.subscribe(wanted(kinds=[1]))
        async with asyncio.timeout(20):
            while not relay.subscriptions:
                await writer.fetch_events(wanted(kinds=[0]), WAIT)
            await writer.send_event(theirs(event))
            assert await seen.get() == event.id
        listening.cancel()


async def test_count(store: SqliteStore, relay: RelayServer) -> None:
    await fill(store, [signed(seed, 7, [["e", TARGET]]) for seed in range(1, 30)])
    async with client_of(relay) as client:
        peer = await the_relay(client, relay)
        query = wanted(kinds=[7], tags={"#e": [TARGET]})
        assert await peer.count_events(query, WAIT) == 29


async def test_auth_on_demand(store: SqliteStore, relay: RelayServer) -> None:
    message = signed(1, 1059, [["p", key(2).pubkey]])
    await fill(store, [message])
    query = wanted(kinds=[1059], tags={"#p": [key(2).pubkey]})
    async with client_of(relay, seed=2) as party:
        found = await party.fetch_events(query, WAIT)
        assert [e.id().to_hex() for e in found.to_vec()] == [message.id]
    async with client_of(relay, seed=3) as stranger:
        assert (await stranger.fetch_events(query, WAIT)).is_empty()


async def test_protected_events_by_their_author(relay: RelayServer) -> None:
    event = theirs(signed(2, 1, [["-"]]))
    async with client_of(relay, seed=2) as author, client_of(relay, seed=3) as other:
        assert len((await author.send_event(event)).success) == 1
        assert not (await other.send_event(theirs(signed(2, 1, [["-"]], "x")))).success


@pytest.mark.parametrize("direction", ["UP", "DOWN", "BOTH"])
async def test_negentropy_sync(
    store: SqliteStore, relay: RelayServer, tmp_path: Path, direction: str
) -> None:
    events = [signed(1, 1, content=str(i), created_at=NOW + i // 3) for i in range(600)]
    await fill(store, events[:500])
    database = sdk.NostrDatabase.lmdb(str(tmp_path / "lmdb"))
    for event in events[100:]:
        await database.save_event(theirs(event))
    options = sdk.SyncOptions().direction(getattr(sdk.SyncDirection, direction))
    async with client_of(relay, database=database) as client:
        await client.sync(wanted(kinds=[1]), options)
        held = {e.id().to_hex() for e in (await database.query(wanted(kinds=[1]))).to_vec()}
        stored = {event.id for event in await store.query([Filter(kinds=[1])])}
    ids = [event.id for event in events]
    assert held == set(ids if direction != "UP" else ids[100:])
    assert stored == set(ids if direction != "DOWN" else ids[:500])
