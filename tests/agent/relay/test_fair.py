"""However many clients ask for what reads the whole store, a small REQ is answered."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import pytest

from agent.relay.core import SCANS
from agent.relay.server import serve
from agent.relay.visibility import VisibleStore
from nostr_client.store.options import StoreOptions
from nostr_client.store.sqlite import SqliteStore
from tests.agent.relay.client import connect

if TYPE_CHECKING:
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


def test_scans_leave_readers_free() -> None:
    assert StoreOptions().readers > SCANS
