"""A world over real sockets and real time: the same relays behind aiohttp, the client as it is."""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from aiohttp import WSMsgType, web

from nostr_client.options import ReconnectPolicy, Timeouts
from tests.worlds.running import OPTIONS, SYNCING, Pace, Run

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.worlds.model import World
    from tests.worlds.relays import SimRelay
    from tests.worlds.running import Report

REAL = Pace(
    options=replace(
        OPTIONS,
        timeouts=Timeouts(connect=2.0, count=1.0, group=3.0, eose=1.0, publish=1.0, page=10.0),
        reconnect=ReconnectPolicy(first=0.05, longest=0.2),
    ),
    syncing=replace(SYNCING, answer=1.0, progress=2.0, pause=0.1),
    between=0.3,
    live=0.8,
)
"""Short deadlines: a relay that misses one on a busy machine is only not counted with."""


def ran_over_sockets(world: World) -> Report:
    """Run a world over loopback; a second or a few for each step."""
    with tempfile.TemporaryDirectory(prefix="world") as folder:
        return asyncio.run(_run(Run(world, Path(folder), REAL)))


async def _run(run: Run) -> Report:
    async with AsyncExitStack() as stack:
        for relay in run.relays:
            relay.url = await stack.enter_async_context(_served(relay))
        return await run.run()


@asynccontextmanager
async def _served(relay: SimRelay) -> AsyncIterator[str]:
    """Serve a relay on a port of its own; gives its URL."""

    async def serve(request: web.BaseRequest) -> web.StreamResponse:
        if not relay.reachable or request.headers.get("Upgrade", "").lower() != "websocket":
            return web.Response(status=503)
        return await _converse(request, relay)

    runner = web.ServerRunner(web.Server(serve, access_log=None), shutdown_timeout=0.5)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"ws://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def _converse(request: web.BaseRequest, relay: SimRelay) -> web.StreamResponse:
    ws = web.WebSocketResponse(max_msg_size=0)
    await ws.prepare(request)
    frames: asyncio.Queue[str | None] = asyncio.Queue()
    line = relay.open(frames.put_nowait, lambda: frames.put_nowait(None))
    writer = asyncio.create_task(_write(ws, frames))
    try:
        async for message in ws:
            if message.type is WSMsgType.TEXT:
                line.receive(message.data)
    finally:
        line.close()
        writer.cancel()
        await asyncio.wait([writer])
    return ws


async def _write(ws: web.WebSocketResponse, frames: asyncio.Queue[str | None]) -> None:
    while not ws.closed:
        text = await frames.get()
        if text is None:
            await ws.close()
            return
        try:
            await ws.send_str(text)
        except ConnectionError:
            return
