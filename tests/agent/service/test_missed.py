"""What comes while nobody listens is in the number soon after, though its next turn is far off."""

from __future__ import annotations

import time
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from agent.relay.server import serve
from nostr_client.codecs.event import EventTemplate
from nostr_client.store.sqlite import SqliteStore
from tests.agent.service.kit import an_agent
from tests.worlds import signer

if TYPE_CHECKING:
    from pathlib import Path

    from nostr_client.codecs.keys import VerifiedEvent
    from tests.agent.service.kit import Running

NOTES = ("a1" * 32, "b2" * 32)
WATCHES = "".join(
    f'[[watches]]\nname = "w{n}"\nquery = "reactions"\ntarget = "{note}"\ninterval = "6h"\n'
    for n, note in enumerate(NOTES)
)


def reaction(person: int, note: str, ago: int = 0) -> VerifiedEvent:
    at = int(time.time()) - ago
    return signer(person).sign_now(EventTemplate(kind=7, tags=(("e", note),), created_at=at))


async def counted(agent: Running, name: str, value: int) -> None:
    await agent.until(lambda w: w.figure is not None and w.figure.value == value, name)


async def test_what_came_while_the_agent_was_away(tmp_path: Path) -> None:
    """The watch that nothing came for is not asked again: its turn is to come."""
    async with await SqliteStore.open(":memory:") as store, serve(store, port=0) as relay:
        await store.save([reaction(1, note, ago=3600) for note in NOTES])
        async with an_agent(tmp_path, [relay.url], WATCHES) as agent:
            for name in ("w0", "w1"):
                await counted(agent, name, 1)
        await store.save([reaction(2, NOTES[0])])
        async with an_agent(tmp_path, [relay.url], WATCHES) as agent:
            await counted(agent, "w0", 2)
            await counted(agent, "w1", 1)
            turns = agent.service.agent.worker.schedule.turns
            assert turns[f"watch w1 {relay.url}"].turns == 0
            assert agent.service.agent.engine.live.received == 1


async def test_what_came_while_the_relay_was_away(tmp_path: Path) -> None:
    async with await SqliteStore.open(":memory:") as store, AsyncExitStack() as stack:
        await store.save([reaction(1, NOTES[0], ago=3600)])
        relay = await stack.enter_async_context(serve(store, port=0))
        port = urlsplit(relay.url).port
        assert port is not None
        async with an_agent(tmp_path, [relay.url], WATCHES) as agent:
            await counted(agent, "w0", 1)
            await stack.aclose()
            await store.save([reaction(2, NOTES[0])])
            async with serve(store, port=port):
                await counted(agent, "w0", 2)
