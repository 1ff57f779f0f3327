"""Readers that ask for everything and read nothing cost the relay little, and others nothing."""

from __future__ import annotations

import sys
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import pytest

from agent.relay.options import RelayLimits, RelayOptions
from agent.relay.outbox import Outbox, OutboxBudget
from agent.relay.server import serve
from nostr_client.codecs.keys import verify
from nostr_client.store.sqlite import SqliteStore
from tests.agent.relay.client import connect, deaf
from tests.agent.relay.deaf_readers import LARGE, MOST_BYTES, large_store, relay_over
from tests.agent.relay.kit import frame, numbered, signed

if TYPE_CHECKING:
    from pathlib import Path

LEFT_BYTES = 230_000_000
"""Afterwards: the program's 60 MB, the page caches of five readers, and what malloc keeps."""

LINUX = sys.platform == "linux"


async def check_memory(path: Path, connections: int, events: int, requests: int) -> None:
    small = await large_store(path, events)
    frames = [frame("REQ", f"s{n}", {}) for n in range(requests)]
    async with relay_over(path) as relay:
        async with AsyncExitStack() as stack:
            for _ in range(connections):
                await stack.enter_async_context(deaf(relay.url, *frames))
            async with connect(relay.url) as other:
                for _ in range(20):
                    assert await other.stored({"kinds": [7]}) == [small]
                    assert await relay.memory() < MOST_BYTES
        async with connect(relay.url, max_msg_size=0) as other:
            assert len(await other.stored({"kinds": [1]})) == events
        assert await relay.memory() < LEFT_BYTES


@pytest.mark.skipif(not LINUX, reason="memory is read from /proc")
async def test_readers_that_read_nothing_cost_little(tmp_path: Path) -> None:
    await check_memory(tmp_path / "s.db", connections=16, events=40, requests=8)


@pytest.mark.long
@pytest.mark.skipif(not LINUX, reason="memory is read from /proc")
async def test_64_readers_that_read_nothing_cost_little(tmp_path: Path) -> None:
    await check_memory(tmp_path / "s.db", connections=64, events=120, requests=8)


async def test_a_large_answer_is_the_same_however_it_is_read(tmp_path: Path) -> None:
    """Many events of one second, filters that overlap, sizes around the bound of a part."""
    events = [
        signed(kind=kind, content=f"{n}".ljust(size, "x"), created_at=at)
        for n, (kind, size, at) in enumerate(
            (kind, size, at)
            for kind in (1, 2)
            for size in (10, 65_536, 65_537, 200_000)
            for at in (5, 5, 6, 7)
        )
    ]
    async with (
        await SqliteStore.open(tmp_path / "s.db") as store,
        serve(store, port=0) as server,
        connect(server.url, max_msg_size=0) as client,
    ):
        await store.save([verify(event) for event in events])
        ordered = [e.id for e in sorted(events, key=lambda e: (-e.created_at, e.id))]
        assert await client.stored({}) == ordered
        assert await client.stored({"kinds": [1]}, {"until": 5}, {"limit": 3}) == [
            id_
            for id_ in ordered
            if any(e.id == id_ and (e.kind == 1 or e.created_at == 5) for e in events)
            or id_ in ordered[:3]
        ]
        for limit in (1, 5, 31, 32, 33):
            assert await client.stored({"limit": limit}) == ordered[:limit]


async def test_live_events_for_those_behind_stop_where_all_together_have_too_much() -> None:
    waiting = OutboxBudget(most=200)
    first, second = Outbox(160, 60, waiting), Outbox(160, 60, waiting)
    assert first.put(b"x" * 60)
    assert second.put(b"x" * 60)
    assert not second.put(b"x")
    assert Outbox(160, 60, waiting).put(b"x")
    assert first.take() == [b"x" * 60]
    assert waiting.is_over
    first.close()
    assert not waiting.is_over
    assert second.put(b"x")


async def test_large_events_wait_for_readers_and_small_ones_do_not(tmp_path: Path) -> None:
    limits = RelayLimits(send_total_bytes=1, send_timeout_s=60)
    large = signed(content="x" * LARGE)
    small = numbered(3, kind=7)
    async with (
        await SqliteStore.open(tmp_path / "s.db") as store,
        serve(store, port=0, options=RelayOptions(limits=limits)) as server,
        connect(server.url, max_msg_size=0) as client,
    ):
        await store.save([verify(event) for event in (large, *small)])
        async with AsyncExitStack() as stack:
            for _ in range(30):
                await stack.enter_async_context(
                    deaf(server.url, *(frame("REQ", f"s{n}", {"kinds": [1]}) for n in range(8)))
                )
            assert set(await client.stored({"kinds": [7]})) == {event.id for event in small}
        assert await client.stored({"kinds": [1]}) == [large.id]
