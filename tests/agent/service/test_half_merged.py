"""A number that lacks a relay that was never asked is shown, and neither kept nor told."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from contextlib import asynccontextmanager, closing
from typing import TYPE_CHECKING, Any

import msgspec

from nostr_client.count.remembering import KEEP
from nostr_client.watch.definition import Watch
from tests.agent.service.kit import an_agent, eventually
from tests.faulty_relay import Behaviour, FaultyRelay
from tests.worlds import NOTE, reaction

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from agent.api import schema
    from tests.agent.service.kit import Running
    from tests.faulty_relay import Peer

LINES = ("+10 % in 1d", "< 8", "> 10")
WATCH = f"""
[[watches]]
name = "w"
query = "reactions"
target = "{NOTE}"
interval = "1h"
alerts = [{", ".join(f'{{ when = "{one}", command = ["true"] }}' for one in LINES)}]
"""
FEW = [reaction(i) for i in range(4)]
MANY = [reaction(i) for i in range(12)]


class Gated(Behaviour):
    """Says nothing until it is open."""

    def __init__(self) -> None:
        self.open = asyncio.Event()

    async def on_message(self, peer: Peer, message: list[Any]) -> None:
        await self.open.wait()
        await super().on_message(peer, message)


def shows(value: int, asked: int = 2) -> Any:
    def good(watch: schema.WatchState) -> bool:
        return watch.asked == asked and watch.figure is not None and watch.figure.value == value

    return good


async def values(agent: Running) -> list[int]:
    return [point.value for point in (await agent.client.history("w")).points]


async def kept(agent: Running, value: int) -> None:
    """Until a number stands in the history."""

    async def is_kept() -> bool:
        return (await values(agent))[-1:] == [value]

    await eventually(is_kept)


async def told(agent: Running, line: str) -> list[str]:
    """All lines that were told, once `line` is among them."""
    found = agent.service.agent

    async def is_told() -> bool:
        return any(one.fields.get("when") == line for one in found.log.lines)

    await eventually(is_told)
    await found.alerts.settle(10.0)
    return [one.fields["when"] for one in found.log.lines if one.event == "alert"]


@asynccontextmanager
async def asked_once_then_mute(folder: Path) -> AsyncIterator[tuple[FaultyRelay, FaultyRelay]]:
    """The relays of a watch whose number an agent that ended has kept; the second is mute now."""
    gated = Gated()
    gated.open.set()
    async with FaultyRelay(events=FEW) as fast, FaultyRelay(gated, events=MANY) as slow:
        async with an_agent(folder, [fast.url, slow.url], WATCH) as agent:
            await kept(agent, 12)
        gated.open.clear()
        yield fast, slow


async def test_a_new_watch_keeps_and_tells_nothing_until_each_relay_was_asked(
    tmp_path: Path,
) -> None:
    gated = Gated()
    async with (
        FaultyRelay(events=FEW) as fast,
        FaultyRelay(gated, events=MANY) as slow,
        an_agent(tmp_path, [fast.url, slow.url], WATCH) as agent,
    ):
        await agent.until(shows(4), "w")
        assert await values(agent) == []
        gated.open.set()
        assert await told(agent, "> 10") == ["> 10"]
        assert set(await values(agent)) == {12}


async def test_a_relay_that_cannot_be_reached_holds_no_number_back(tmp_path: Path) -> None:
    async with (
        FaultyRelay(events=FEW) as relay,
        an_agent(tmp_path, [relay.url, "ws://127.0.0.1:1"], WATCH) as agent,
    ):
        assert await told(agent, "< 8") == ["< 8"]
        assert await values(agent) == [4]


async def test_after_a_restart_a_live_event_moves_the_number_though_a_relay_is_mute(
    tmp_path: Path,
) -> None:
    async with (
        asked_once_then_mute(tmp_path) as (fast, slow),
        an_agent(tmp_path, [fast.url, slow.url], WATCH) as agent,
    ):
        await fast.heard("REQ", fast.verbs()["REQ"] + 1)
        await fast.broadcast(reaction(20, at=int(time.time())))
        await agent.until(shows(13), "w")
        await kept(agent, 13)


async def test_what_a_relay_said_long_ago_is_asked_again_first(tmp_path: Path) -> None:
    async with asked_once_then_mute(tmp_path) as (fast, slow):
        with closing(sqlite3.connect(tmp_path / "store.db")) as conn, conn:
            conn.execute("UPDATE claim SET asked_at = asked_at - ?", (KEEP + 60,))
        async with an_agent(tmp_path, [fast.url, slow.url], WATCH) as agent:
            await agent.client.recount("w")
            await agent.until(shows(4), "w")
            assert set(await values(agent)) == {12}


async def test_a_relay_that_is_added_holds_the_number_back_until_it_was_asked(
    tmp_path: Path,
) -> None:
    gated = Gated()
    async with (
        FaultyRelay(events=FEW) as fast,
        FaultyRelay(gated, events=MANY) as slow,
        an_agent(tmp_path) as agent,
    ):
        spec = Watch(name="w", query="reactions", target=NOTE, relays=(fast.url,))
        await agent.client.add_watch(spec)
        await kept(agent, 4)
        await agent.client.change_watch(
            spec.name, msgspec.structs.replace(spec, relays=(fast.url, slow.url))
        )
        fast.events.append(reaction(20))
        await agent.client.recount("w")
        await agent.until(shows(5), "w")
        assert await values(agent) == [4]
        gated.open.set()
        await kept(agent, 13)
        assert 5 not in await values(agent)
