"""However many clients ask for what reads the whole store, a small REQ is answered."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import pytest

from agent.relay import jobs
from agent.relay.connection import AT_ONCE, ServerConnection
from agent.relay.core import SCANS
from agent.relay.server import serve
from agent.relay.visibility import VisibleStore
from nostr_client.codecs.keys import verify
from nostr_client.store.file import readers
from nostr_client.store.options import StoreOptions
from nostr_client.store.sqlite import SqliteStore
from tests.agent.relay.client import connect
from tests.agent.relay.kit import frame, make_session, numbered
from tests.agent.relay.wire import KeptFrames
from tests.turns import another_task

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

CLIENTS = 8
COUNT = ["COUNT", "c", {"kinds": [1]}]
NEG_OPEN = ["NEG-OPEN", "n", {"kinds": [1]}, "61" + "00000200"]


@pytest.mark.parametrize("asked", [COUNT, NEG_OPEN])
async def test_a_small_req_finds_a_reader_beside_any_number_of_scans(
    asked: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: asyncio.Queue[None] = asyncio.Queue()
    going_on = asyncio.Event()
    figures = VisibleStore.figures

    async def slowly(self: VisibleStore, *args: Any, **how: Any) -> Any:
        begun.put_nowait(None)
        await going_on.wait()
        return await figures(self, *args, **how)

    monkeypatch.setattr(VisibleStore, "figures", slowly)
    monkeypatch.setattr(VisibleStore, "figures_at_once", lambda *_, **__: None)  # as for large ones
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(await SqliteStore.open(tmp_path / "s.db"))
        relay = await stack.enter_async_context(serve(store, port=0))
        crowd = [await stack.enter_async_context(connect(relay.url)) for _ in range(CLIENTS)]
        for client in crowd:
            await client.send(*asked)
        for _ in range(SCANS):
            await begun.get()
        other = await stack.enter_async_context(connect(relay.url))
        assert (await other.ask("REQ", "r", {"ids": ["0" * 64]}))[:2] == ["EOSE", "r"]
        assert begun.empty()
        going_on.set()
        for client in crowd:
            assert (await client.receive())[0] in {"COUNT", "NEG-MSG"}


async def test_a_short_question_needs_no_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = numbered(30)
    async with (
        await SqliteStore.open(tmp_path / "s.db") as store,
        serve(store, port=0) as relay,
        connect(relay.url) as client,
    ):
        await store.save([verify(event) for event in events])
        await client.stored({"limit": 30})  # its events are of one second, which `page` orders

        async def never(*_: object, **__: object) -> None:
            raise AssertionError("a thread reads the store")

        monkeypatch.setattr(store.database, "read", never)
        newest = sorted(event.id for event in events)
        assert await client.stored({"kinds": [1], "limit": 30}) == newest
        assert await client.stored({"ids": newest[:3]}) == newest[:3]
        counted = await client.ask("COUNT", "c", {"kinds": [1]}, {"ids": newest[:3]})
        assert counted == ["COUNT", "c", {"count": 30, "approximate": False}]
        both = await client.stored({"ids": newest[:3]}, {"kinds": [1, 2], "limit": 40})
        assert both == newest


async def test_a_long_count_is_answered_by_a_reader_and_the_next_ones_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[bool] = []
    at_once = VisibleStore.figures_at_once

    def seen(self: VisibleStore, *args: Any, **how: Any) -> Any:
        found = at_once(self, *args, **how)
        tried.append(found is not None)
        return found

    monkeypatch.setattr(VisibleStore, "figures_at_once", seen)
    monkeypatch.setattr(readers, "STEPS_HERE", 100)
    monkeypatch.setattr(jobs, "COUNTS_REST_S", 3_600)
    async with (
        await SqliteStore.open(tmp_path / "s.db") as store,
        serve(store, port=0) as relay,
        connect(relay.url) as client,
    ):
        await store.save([verify(event) for event in numbered(100)])
        for _ in range(3):
            assert (await client.ask(*COUNT))[2]["count"] == 100
    assert tried == [False]


async def test_others_have_their_turn_beside_a_client_that_asks_without_end(tmp_path: Path) -> None:
    async with (
        await SqliteStore.open(tmp_path / "s.db") as store,
        serve(store, port=0) as relay,
        connect(relay.url) as client,
    ):
        asked = 500
        connection = ServerConnection(relay._core, make_session(), KeptFrames([]))

        async def frames() -> AsyncIterator[str | bytes]:
            for number in range(asked):
                yield frame("REQ", f"r{number % 10}", {"kinds": [1], "limit": 5})

        async with another_task() as turns:
            await connection.run(frames())
        assert turns.taken >= asked / AT_ONCE
        assert await client.stored({"kinds": [1]}) == []


def test_scans_leave_readers_free() -> None:
    assert StoreOptions().readers > SCANS
