"""A WebSocket proxy that counts: what a relay that we did not write sent to whom."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Self

import aiohttp
from aiohttp import WSMsgType, web

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

_EVENT = '["EVENT",'
_ID = '"id":"'


class CountingProxy:
    """Passes text frames on in both directions; `delivered` are the ids of events, each time.

    `on_frame` is called for every frame of either side.
    """

    def __init__(self, target: str) -> None:
        self.target = target
        self.url = ""
        self.frames = 0
        self.delivered: list[str] = []
        self.on_frame: Callable[[], None] = lambda: None
        self._runner: web.AppRunner | None = None
        self._client: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._client = aiohttp.ClientSession()
        app = web.Application()
        app.router.add_get("/", self._serve)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"ws://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._runner is not None
        assert self._client is not None
        await self._runner.cleanup()
        await self._client.close()

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        assert self._client is not None
        inner = web.WebSocketResponse(max_msg_size=0)
        if not inner.can_prepare(request).ok:
            return web.Response(status=404)
        await inner.prepare(request)
        async with self._client.ws_connect(self.target, max_msg_size=0) as outer:
            ways = (self._pass(inner, outer), self._pass(outer, inner))
            tasks = [asyncio.ensure_future(way) for way in ways]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return inner

    async def _pass(
        self,
        source: web.WebSocketResponse | aiohttp.ClientWebSocketResponse,
        target: web.WebSocketResponse | aiohttp.ClientWebSocketResponse,
    ) -> None:
        async for message in source:
            if message.type is not WSMsgType.TEXT:
                return
            self.frames += 1
            down = isinstance(target, web.WebSocketResponse)
            if down and message.data.startswith(_EVENT):
                at = message.data.index(_ID) + len(_ID)
                self.delivered.append(message.data[at : at + 64])
            await target.send_str(message.data)
            self.on_frame()
