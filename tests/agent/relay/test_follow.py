"""Subscribers hear of what others store, once, and not before it is committed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from agent.relay.server import following
from nostr_client.codecs.keys import VerifiedEvent
from tests.agent.relay.client import connect
from tests.agent.relay.kit import numbered, signed

if TYPE_CHECKING:
    from agent.relay.server import RelayServer
    from nostr_client.store.sqlite import SqliteStore


async def test_stored_by_another_way(store: SqliteStore, relay: RelayServer) -> None:
    first, second, third = numbered(3)
    async with following(store, relay), connect(relay.url) as client:
        await store.save([VerifiedEvent(first)])
        await client.send("REQ", "s", {"kinds": [1]})
        assert (await client.receive())[2]["id"] == first.id
        assert (await client.receive())[:2] == ["EOSE", "s"]
        await store.save([VerifiedEvent(second), VerifiedEvent(first)])
        assert (await client.receive())[2]["id"] == second.id
        await store.save([VerifiedEvent(third)])
        assert (await client.receive())[2]["id"] == third.id
        assert (await client.ask("COUNT", "q", {}))[2]["count"] == 3


async def test_what_the_relay_takes_is_announced_once(
    store: SqliteStore, relay: RelayServer
) -> None:
    async with following(store, relay), connect(relay.url) as reader, connect(relay.url) as writer:
        await reader.ask("REQ", "s", {"kinds": [1]})
        events = numbered(20)
        for event in events:
            await writer.publish(event)
        last = signed(kind=1, content="last")
        await store.save([VerifiedEvent(last)])
        heard = []
        while not heard or heard[-1] != last.id:
            heard.append((await reader.receive())[2]["id"])
        assert heard == [event.id for event in [*events, last]]


async def test_a_batch_that_is_undone_is_not_announced(
    store: SqliteStore, relay: RelayServer
) -> None:
    bad, good = numbered(2)

    def break_on_bad(_: object, batch: list[tuple[object, object]]) -> None:
        if any(event == bad for event, _ in batch):
            raise ZeroDivisionError

    async with following(store, relay), connect(relay.url) as client:
        await client.ask("REQ", "s", {"kinds": [1]})
        store.on_batch.append(break_on_bad)
        with pytest.raises(ZeroDivisionError):
            await store.save([VerifiedEvent(bad)])
        await store.save([VerifiedEvent(good)])
        assert (await client.receive())[2]["id"] == good.id


async def test_afterwards_nothing_is_left_behind(store: SqliteStore, relay: RelayServer) -> None:
    async with following(store, relay):
        assert len(store.on_batch) == 1
    assert store.on_batch == []
    await store.save([VerifiedEvent(signed())])
