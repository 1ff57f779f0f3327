"""Derived tables in a running agent: kept along, read, and exchanged for ones built elsewhere."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from agent.api.client import ApiError
from agent.specs import SyncSpec
from nostr_client.codecs.filters import Filter
from nostr_client.store.index import update as index_update
from nostr_client.store.index.schema import VERSION
from tests.agent.relay.client import connect
from tests.agent.relay.kit import signed
from tests.agent.service.kit import an_agent, eventually
from tests.faulty_relay import FaultyRelay
from tests.worlds import TARGET, follow

if TYPE_CHECKING:
    from pathlib import Path

    from tests.agent.service.kit import Running

PEOPLE = 12


@pytest.fixture(autouse=True)
def _few_are_hot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_update, "HOT", 5)


async def all_stored(agent: Running) -> None:
    async def there() -> bool:  # a commit shows in one of the two files before it does in the other
        stored, hot = await agent.client.store(), (await agent.client.hot()).targets
        return stored.events == PEOPLE and [one.events for one in hot] == [PEOPLE]

    await agent.client.add_sync(SyncSpec(name="all", filters=({"kinds": [3]},)))
    await eventually(there)


async def test_hot_targets_follow_what_the_store_takes_in(tmp_path: Path) -> None:
    async with (
        FaultyRelay(events=[follow(i) for i in range(PEOPLE)]) as relay,
        an_agent(tmp_path, [relay.url]) as agent,
    ):
        await all_stored(agent)
        (hot,) = (await agent.client.hot()).targets
        assert (hot.name, hot.value, hot.kind) == ("p", TARGET, 3)
        assert (hot.events, hot.authors, hot.dirty) == (PEOPLE, PEOPLE, False)
        assert hot.estimate == pytest.approx(PEOPLE, rel=0.2)
        assert (await agent.client.hot(name="e")).targets == ()
        assert (await agent.client.hot(kind=3, limit=1)).targets == (hot,)
        stats = (await agent.client.store()).index
        assert stats is not None
        assert (stats.generation, stats.hot, stats.dirty) == (0, 1, 0)
        async with connect(agent.service.backend.relay_url) as client:
            assert (await client.publish(signed(kind=3, tags=[["p", TARGET]])))[2] is True
        (hot,) = (await agent.client.hot()).targets
        assert hot.events == PEOPLE + 1


async def test_an_index_built_elsewhere_is_adopted_while_the_agent_runs(tmp_path: Path) -> None:
    built = tmp_path / "built.db"
    async with (
        FaultyRelay(events=[follow(i) for i in range(PEOPLE)]) as relay,
        an_agent(tmp_path, [relay.url]) as agent,
    ):
        await all_stored(agent)
        mark = await agent.client.index_snapshot()
        with closing(sqlite3.connect(tmp_path / "store.index-0.db")) as conn:
            conn.execute("VACUUM INTO ?", (str(built),))
        with closing(sqlite3.connect(built)) as conn:
            about = dict(conn.execute("SELECT key, value FROM about"))
        assert about.pop("digest") > 0
        assert about == {"version": VERSION, "generation": 0, **_fields(mark)}
        async with connect(agent.service.backend.relay_url) as client:
            assert (await client.publish(signed(kind=3, tags=[["p", TARGET]])))[2] is True
        found = await agent.client.adopt_index(str(built))
        assert (found.generation, found.hot) == (1, 1)
        (hot,) = (await agent.client.hot()).targets
        assert hot.events == PEOPLE + 1
        assert not (tmp_path / "store.index-0.db").exists()
        names = ("none.db", "token", "store.db", "no\0name", "x" * 4000)
        for wrong in (*(tmp_path / name for name in names), "built.db"):
            with pytest.raises(ApiError) as caught:
                await agent.client.adopt_index(str(wrong))
            assert caught.value.status == 400
        with pytest.raises(ApiError, match="outside the store's folder"):
            await agent.client.adopt_index(str(tmp_path / ".." / "built.db"))
        damaged = tmp_path / "damaged.db"
        shutil.copyfile(built, damaged)
        raw = bytearray(damaged.read_bytes())
        raw[8192:20_000] = b"x" * (20_000 - 8192)
        damaged.write_bytes(raw)
        with pytest.raises(ApiError):
            await agent.client.adopt_index(str(damaged))
        assert (await agent.client.hot()).targets == (hot,)


def _fields(mark: object) -> dict[str, int]:
    return {name: getattr(mark, name) for name in ("next_seq", "removals")}


async def test_without_an_index(tmp_path: Path) -> None:
    async with an_agent(tmp_path, sections={"store": "index = false"}) as agent:
        assert (await agent.client.store()).index is None
        with pytest.raises(ApiError) as caught:
            await agent.client.hot()
        assert (caught.value.status, caught.value.code) == (409, "no_index")


async def test_registers_that_removals_made_too_high_are_read_again(tmp_path: Path) -> None:
    async with (
        FaultyRelay(events=[follow(i) for i in range(PEOPLE)]) as relay,
        an_agent(tmp_path, [relay.url]) as agent,
    ):
        await all_stored(agent)
        store = agent.service.agent.parts.store
        victims = [follow(i).id for i in range(3)]
        await store.delete([Filter(ids=victims)])
        (hot,) = (await agent.client.hot()).targets
        assert (hot.events, hot.authors, hot.dirty) == (PEOPLE - 3, PEOPLE - 3, True)
        before = (await agent.client.retention()).ran_at
        await agent.client.run_retention()

        async def ran() -> bool:
            return (await agent.client.retention()).ran_at != before

        await eventually(ran)
        (hot,) = (await agent.client.hot()).targets
        assert not hot.dirty
