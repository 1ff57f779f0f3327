"""What goes wrong around a relay: the store, the clock, the sockets, the crowd."""

from __future__ import annotations

import ast
import asyncio
import os
import resource
import sqlite3
import sys
from contextlib import asynccontextmanager, closing
from typing import TYPE_CHECKING

import aiohttp
import pytest

from agent.relay.bounded import BURST, OPEN_FILES, RESERVE, raise_open_files
from agent.relay.options import RelayLimits, RelayOptions
from agent.relay.server import RelayServer, serve
from nostr_client.codecs.filters import Filter
from nostr_client.store.options import StoreOptions
from nostr_client.store.sqlite import SqliteStore
from tests.agent.relay.client import connect, deaf
from tests.agent.relay.idle_crowd import REQUEST
from tests.agent.relay.kit import FakeClock, auth_event, frame, numbered, signed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


async def until_connections(server: RelayServer, wanted: int, seconds: float = 20) -> None:
    """Wait until the relay has `wanted` connections; each look is a round trip of its own."""
    async with asyncio.timeout(seconds), connect(server.url) as client:
        while server.connections != wanted + 1:
            await client.ask("COUNT", "q", {"kinds": [1]})


async def test_a_locked_store_refuses_and_later_takes(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    options = StoreOptions(busy_timeout_s=0.05)
    first, second = numbered(2)
    async with (
        await SqliteStore.open(path, options=options) as store,
        serve(store, port=0) as server,
        connect(server.url) as client,
    ):
        assert (await client.publish(first))[2] is True
        with closing(sqlite3.connect(path, isolation_level=None)) as foreign:
            foreign.execute("BEGIN IMMEDIATE")
            refused = await client.publish(second)
            assert refused[2] is False
            assert refused[3].startswith("error:")
            assert await client.stored({}) == [first.id]
            foreign.execute("ROLLBACK")
        assert (await client.publish(second))[2] is True


async def test_a_full_disk_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    options = StoreOptions(max_page_count=150)
    acknowledged = []
    async with (
        await SqliteStore.open(path, options=options) as store,
        serve(store, port=0) as server,
        connect(server.url) as client,
    ):
        for event in numbered(500, tags=[["x", "y" * 5_000]]):
            answer = await client.publish(event)
            if not answer[2]:
                assert answer[3].startswith("error:")
                break
            acknowledged.append(event.id)
        else:
            pytest.fail("the disk never got full")
        assert (await client.ask("COUNT", "q", {}))[2]["count"] == len(acknowledged)
    async with await SqliteStore.open(path) as store:
        assert {e.id for e in await store.query([Filter()])} == set(acknowledged)


async def test_when_the_ingest_breaks_no_client_waits(store: SqliteStore) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    store.on_batch.append(broken)
    with pytest.RaisesGroup(ZeroDivisionError, flatten_subgroups=True, allow_unwrapped=True):
        broke = asyncio.Event()
        async with (
            serve(store, port=0, on_break=broke.set) as server,
            connect(server.url) as client,
        ):
            await client.send("EVENT", signed())
            assert await client.closed() == 1011
            assert broke.is_set()
            with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
                async with connect(server.url):
                    pass
            assert caught.value.status == 503


async def test_clock_jumps_break_neither_rates_nor_sessions(store: SqliteStore) -> None:
    clock = FakeClock()
    options = RelayOptions(auth_on_connect=True)
    async with (
        serve(store, port=0, options=options, clock=clock.clock()) as server,
        connect(server.url) as client,
    ):
        challenge = (await client.receive())[1]
        answer = await client.ask("NEG-OPEN", "n", {}, "6100000200")
        assert answer[0] == "NEG-MSG"
        for jump in (+10_000_000, -20_000_000, +10_000_000):
            clock.wall_now += jump
            assert (await client.publish(signed(content=str(jump))))[2] is True
        clock.monotonic_now -= 500
        assert (await client.publish(signed(content="back")))[2] is True
        assert (await client.ask("NEG-MSG", "n", "6100000200"))[0] == "NEG-MSG"
        old = auth_event(1, challenge, server.url, int(clock.wall_now))
        clock.wall_now += 601
        assert (await client.ask("AUTH", old))[2] is False
        new = auth_event(1, challenge, server.url, int(clock.wall_now))
        assert (await client.ask("AUTH", new))[2] is True


async def test_half_open_sockets_are_found(store: SqliteStore) -> None:
    options = RelayOptions(limits=RelayLimits(heartbeat_s=0.2))
    async with serve(store, port=0, options=options) as server:
        async with deaf(server.url, frame("REQ", "s", {})):
            await until_connections(server, 1)
            await until_connections(server, 0)
        assert server.subscriptions == 0


async def test_sockets_that_never_speak_are_dropped(store: SqliteStore) -> None:
    options = RelayOptions(limits=RelayLimits(handshake_s=0.2))
    async with serve(store, port=0, options=options) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        async with asyncio.timeout(10):
            assert await reader.read() == b""
        writer.close()
        async with connect(server.url) as client:
            assert (await client.publish(signed()))[2] is True


@asynccontextmanager
async def crowd(server: RelayServer, count: int, mute: int) -> AsyncIterator[dict[str, int]]:
    """Idle connections from another process, and how they were received."""
    command = [sys.executable, "-m", "tests.agent.relay.idle_crowd", "127.0.0.1"]
    process = await asyncio.create_subprocess_exec(
        *command, str(server.port), str(count), str(mute),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        async with asyncio.timeout(120):
            yield ast.literal_eval((await process.stdout.readline()).decode())
    finally:
        process.stdin.close()
        await process.wait()


async def survive_a_crowd(store: SqliteStore, count: int, mute: int) -> None:
    limits = RelayLimits(connections=count + 10, connections_per_address=count + 10)
    async with serve(store, port=0, options=RelayOptions(limits=limits)) as server:
        async with crowd(server, count, mute) as received:
            assert received == {"101": count, "mute": mute}
            assert server.connections == count
            async with connect(server.url) as client:
                assert (await client.publish(signed(content=str(count))))[2] is True
                assert (await client.ask("COUNT", "q", {}))[2]["count"] == 1
        await until_connections(server, 0, 60)


async def test_1000_connections_that_only_connect(store: SqliteStore) -> None:
    await survive_a_crowd(store, 900, 100)


@pytest.mark.long
async def test_10000_connections_that_only_connect(store: SqliteStore) -> None:
    await survive_a_crowd(store, 9_000, 1_000)


async def test_a_crowd_above_the_limit_is_refused_and_the_others_served(
    store: SqliteStore, caplog: pytest.LogCaptureFixture
) -> None:
    options = RelayOptions(limits=RelayLimits(connections_per_address=100))
    async with (
        serve(store, port=0, options=options) as server,
        connect(server.url) as client,
        crowd(server, 300, 0) as received,
    ):
        assert received == {"101": 99, "429": 201}
        assert (await client.publish(signed()))[2] is True
    assert caplog.records == []


async def test_more_connections_than_descriptors_cost_nobody_anything(
    store: SqliteStore, caplog: pytest.LogCaptureFixture
) -> None:
    """The bound follows the descriptors that the process may have, and the log stays silent."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = max(map(int, os.listdir("/dev/fd")))
    resource.setrlimit(resource.RLIMIT_NOFILE, (RESERVE + used + 2 * BURST, before[1]))
    try:
        async with (
            serve(store, port=0) as server,
            connect(server.url) as client,
            crowd(server, 0, RESERVE + 4 * BURST),
        ):
            assert (await client.publish(signed()))[2] is True
            assert (await client.ask("COUNT", "q", {}))[2]["count"] == 1
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert caplog.records == []


async def test_clients_that_leave_amid_the_handshake_leave_no_error(
    store: SqliteStore, caplog: pytest.LogCaptureFixture
) -> None:
    async with serve(store, port=0) as server, connect(server.url) as client:
        for _ in range(50):
            _, writer = await asyncio.open_connection("127.0.0.1", server.port)
            head = REQUEST.format(host="127.0.0.1", port=server.port)
            writer.write(head.encode())
            writer.transport.abort()
        assert (await client.ask("COUNT", "q", {}))[2]["count"] == 0
    assert caplog.records == []


async def test_a_serving_program_asks_for_the_descriptors_that_it_may_have() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (1_000, hard))
        raise_open_files()
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == min(OPEN_FILES, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
