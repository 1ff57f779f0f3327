"""An agent counts what its store takes in, where a configured stream asks for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.specs import SyncSpec
from nostr_client.counters.ingest import relay_token
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
