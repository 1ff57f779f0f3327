"""An agent counts what its store takes in, where a configured stream asks for it."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from agent.api import schema
from agent.specs import SyncSpec
from nostr_client.counters.ingest import relay_token
from nostr_client.watch.definition import Watch
from tests.agent.relay.client import connect
from tests.agent.relay.kit import signed
from tests.agent.service.kit import an_agent, eventually
from tests.faulty_relay import FaultyRelay
from tests.worlds import follow, reaction

if TYPE_CHECKING:
    from pathlib import Path

STREAM = """
[[counters.streams]]
name = "ingest"
subjects = ["events.*", "relay.*.received"]
"""


async def test_what_a_sync_brings_is_counted_by_kind_once(tmp_path: Path) -> None:
    events = [follow(i) for i in range(20)] + [reaction(i) for i in range(7)]
    async with (
        FaultyRelay(events=events) as relay,
        an_agent(tmp_path, [relay.url], STREAM) as agent,
    ):
        for name in ("one", "two"):
            filters = ({"kinds": [3, 7]},)
            await agent.client.add_sync(SyncSpec(name=name, filters=filters))

            async def ended(name: str = name) -> bool:
                return bool((await agent.client.sync(name)).outcome)

            await eventually(ended, 30)
        found = (await agent.client.counters("ingest", ">")).counters
        assert {one.subject: one.value for one in found} == {
            "events.3": "20",
            "events.7": "7",
            f"relay.{relay_token(relay.url)}.received": "27",
        }


async def test_what_clients_of_the_local_relay_bring_is_counted_as_its_own(
    tmp_path: Path,
) -> None:
    async with an_agent(tmp_path, more=STREAM) as agent:
        url = agent.service.backend.relay_url
        async with connect(url) as client:
            for n in range(5):
                assert (await client.publish(signed(content=str(n % 4))))[2] is True
        found = (await agent.client.counters("ingest", "relay.*.received")).counters
        subject = f"relay.{relay_token(url)}.received"
        assert {one.subject: one.value for one in found} == {subject: "4"}


async def test_what_live_watches_keep_is_stored_and_counted(tmp_path: Path) -> None:
    async with (
        FaultyRelay(events=[]) as relay,
        an_agent(tmp_path, [relay.url], STREAM) as agent,
    ):
        for name, kind in (("kept", 3), ("heard", 7)):
            await agent.client.add_watch(
                Watch(name=name, filters=({"kinds": [kind]},), keep=kind == 3)
            )
        await agent.until(lambda w: w.answered == 1, "heard")

        async def listening() -> bool:
            filters = [f for m in relay.received if m[0] == "REQ" for f in m[2:]]
            return {3, 7} <= {kind for f in filters if "since" in f for kind in f["kinds"]}

        await eventually(listening)
        for n in range(4):
            for kind in (3, 7):
                await relay.broadcast(signed(n + 1, kind, created_at=int(time.time()) + 1))

        async def heard() -> bool:
            live = agent.service.agent.engine.live
            return (live.kept, live.received) == (4, 8)

        await eventually(heard)
        assert (await agent.client.store()).kinds == {3: 4}
        found = (await agent.client.counters("ingest", ">")).counters
        assert {one.subject: one.value for one in found} == {
            "events.3": "4",
            f"relay.{relay_token(relay.url)}.received": "4",
        }


async def test_listeners_hear_that_counters_and_the_agent_have_moved(tmp_path: Path) -> None:
    async with an_agent(tmp_path, more=STREAM) as agent, asyncio.timeout(20):
        events = agent.client.events()
        _, first = await anext(events)
        assert isinstance(first, schema.StateSnapshot)
        async with connect(agent.service.backend.relay_url) as client:
            n = 0
            async for _, message in events:
                assert isinstance(message, schema.Delta)
                if message.stream is not None:
                    assert message.stream.name == "ingest"
                    assert message.stream.last_seq > 0
                    break
                if message.status is not None:  # the first look around is over
                    n += 1
                    assert (await client.publish(signed(n)))[2] is True
                    spec = Watch(name=f"w{n}", filters=({"kinds": [1]},))
                    await agent.client.add_watch(spec)
        await events.aclose()
