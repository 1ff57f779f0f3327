"""The local relay inside a running agent: what it takes, and what its subscribers hear of."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
        assert await client.ask("REQ", "s", {"kinds": [3]}) == ["EOSE", "s"]
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
