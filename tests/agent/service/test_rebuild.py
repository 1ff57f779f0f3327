"""The bulk rebuild of a running agent: over the API, and by the command that asks the agent."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import sys
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from agent.api.client import ApiError
from agent.api.schema import RebuildBody
from agent.reindex import launcher
from agent.specs import SyncSpec
from nostr_client.store.index import update as index_update
from tests.agent.service.kit import an_agent, eventually
from tests.faulty_relay import FaultyRelay
from tests.worlds import follow

if TYPE_CHECKING:
    from pathlib import Path

    from agent.api.schema import Rebuild
    from tests.agent.service.kit import Running

PEOPLE = 12


@pytest.fixture(autouse=True)
def _few_are_hot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_update, "HOT", 5)


async def ended(agent: Running) -> Rebuild:
    async def over() -> bool:
        return not (await agent.client.rebuild()).running

    await eventually(over, 60)
    return await agent.client.rebuild()


async def filled(agent: Running) -> None:
    async def there() -> bool:
        return (await agent.client.store()).events == PEOPLE

    await agent.client.add_sync(SyncSpec(name="all", filters=({"kinds": [3]},)))
    await eventually(there)


def left(folder: Path) -> list[Path]:
    """What a rebuild did not put away."""
    return list(folder.glob("index.db*"))


async def test_the_agent_rebuilds_checks_and_mends(tmp_path: Path) -> None:
    async with (
        FaultyRelay(events=[follow(i) for i in range(PEOPLE)]) as relay,
        an_agent(tmp_path, [relay.url]) as agent,
    ):
        await filled(agent)
        assert (await agent.client.rebuild()).outcome == ""
        begun = await agent.client.start_rebuild(RebuildBody())
        assert begun.running
        with pytest.raises(ApiError) as refused:
            await agent.client.start_rebuild(RebuildBody())
        assert refused.value.code == "running"
        done = await ended(agent)
        assert (done.outcome, done.engine, done.generation) == ("done", "reference", 1)
        assert [one.name for one in done.stages] == ["events", "publish"]
        assert (await agent.client.store()).index is not None
        with closing(sqlite3.connect(tmp_path / "store.index-1.db")) as conn, conn:
            conn.execute("UPDATE daily SET events = events + 1")
        staged = tmp_path / "store.reindex"
        staged.mkdir()
        await agent.client.start_rebuild(RebuildBody(check=True))
        done = await ended(agent)
        assert not staged.exists()
        assert {one.table for one in done.differences} == {"daily"}
        await agent.client.start_rebuild(RebuildBody(repair=True))
        assert (await ended(agent)).generation == 2
        assert left(tmp_path) == []


async def test_a_rebuild_is_cancelled_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    monkeypatch.setattr(launcher, "COMMAND", waiting)
    async with FaultyRelay() as relay, an_agent(tmp_path, [relay.url]) as agent:
        with pytest.raises(ApiError) as refused:
            await agent.client.cancel_rebuild()
        assert refused.value.code == "not_running"
        await agent.client.start_rebuild(RebuildBody())
        await agent.client.cancel_rebuild()
        assert (await ended(agent)).outcome == "cancelled"
        monkeypatch.setattr(launcher, "COMMAND", [sys.executable, "-c", "raise SystemExit(1)"])
        await agent.client.start_rebuild(RebuildBody())
        done = await ended(agent)
        assert (done.outcome, "ended" in done.message) == ("failed", True)


async def test_an_agent_without_an_index_has_nothing_to_rebuild(tmp_path: Path) -> None:
    without = {"store": "index = false"}
    async with FaultyRelay() as relay, an_agent(tmp_path, [relay.url], sections=without) as agent:
        with pytest.raises(ApiError) as refused:
            await agent.client.start_rebuild(RebuildBody())
        assert refused.value.code == "no_index"


async def test_the_command_asks_the_running_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    async with (
        FaultyRelay(events=[follow(i) for i in range(PEOPLE)]) as relay,
        an_agent(tmp_path, [relay.url]) as agent,
    ):
        await filled(agent)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "agent", "reindex", "--json"),
            *("--store", str(tmp_path / "store.db")),
            stdout=asyncio.subprocess.PIPE,
        )
        out, _ = await process.communicate()
        assert process.returncode == 0
        assert json.loads(out)["generation"] == 1
