"""The local relay inside a running agent: what it takes, and what its subscribers hear of."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from agent.config.model import LocalRelaySection
from agent.service.relaying import relay_urls
from agent.specs import SyncSpec
from tests.agent.relay.client import connect
from tests.agent.relay.kit import signed
from tests.agent.service.kit import an_agent
from tests.faulty_relay import FaultyRelay
from tests.worlds import follow

if TYPE_CHECKING:
    from pathlib import Path


async def test_subscribers_hear_of_what_a_sync_stores(tmp_path: Path) -> None:
    events = [follow(i) for i in range(30)]
    async with (
        FaultyRelay(events=events) as relay,
        an_agent(tmp_path, [relay.url]) as agent,
        connect(agent.service.backend.relay_url) as client,
    ):
        assert await client.ask("REQ", "s", {"kinds": [3]}) == ["EOSE", "s", ["finish"]]
        await agent.client.add_sync(SyncSpec(name="all", filters=({"kinds": [3]},)))
        heard = {(await client.receive())[2]["id"] for _ in events}
        assert heard == {event.id for event in events}


async def test_only_what_watches_and_syncs_want(tmp_path: Path) -> None:
    only = {"relay": "only_wanted = true"}
    async with (
        an_agent(tmp_path, sections=only) as agent,
        connect(agent.service.backend.relay_url) as client,
    ):
        assert (await client.publish(signed(kind=7)))[3].startswith("blocked:")
        await agent.client.add_sync(SyncSpec(name="mine", filters=({"kinds": [7]},)))
        assert (await client.publish(signed(kind=7)))[2] is True
        assert (await client.publish(signed(kind=1)))[3].startswith("blocked:")


def test_the_store_answers_for_the_names_that_are_served() -> None:
    section = LocalRelaySection(
        tls_cert="c.pem",
        tls_key="k.pem",
        hosts=("Relay.Example",),
        urls=("wss://behind.example/nostr",),
    )
    found = relay_urls(section)
    assert "wss://behind.example/nostr" in found
    assert "wss://relay.example" in found
    assert "wss://127.0.0.1:4869" in found
    assert not [url for url in found if url.startswith("ws://")]
    assert relay_urls(LocalRelaySection(enabled=False)) == []


async def test_a_broken_ingest_ends_the_agent(tmp_path: Path) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    with pytest.RaisesGroup(ZeroDivisionError, flatten_subgroups=True, allow_unwrapped=True):
        async with (
            an_agent(tmp_path) as agent,
            connect(agent.service.backend.relay_url) as client,
        ):
            agent.service.agent.parts.store.on_batch.append(broken)
            await client.send("EVENT", signed(kind=1))
            async with asyncio.timeout(10):
                await agent.service.stopping.wait()
