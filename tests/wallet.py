"""A wallet service on this machine: it answers for Lightning addresses as it is told to."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Self

from aiohttp import web

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


class WalletServer:
    """Use it as an async context manager; `asked` are the paths of all requests, in order."""

    def __init__(self, key: str | None = None) -> None:
        """`key` signs zap receipts; None: the wallet knows no zaps."""
        self.key = key
        self.answer: Answer = self.pay_request
        self.asked: list[str] = []
        self.port = 0

    @property
    def origin(self) -> str:
        """Where it is, without a path."""
        return f"http://127.0.0.1:{self.port}"

    def address(self, name: str) -> str:
        """A Lightning address here."""
        return f"{name}@127.0.0.1:{self.port}"

    async def pay_request(self, request: web.Request) -> web.StreamResponse:
        """What LUD-06 and NIP-57 say."""
        zaps = {} if self.key is None else {"allowsNostr": True, "nostrPubkey": self.key}
        body = {"tag": "payRequest", "callback": self.origin, "minSendable": 1_000}
        return web.json_response(body | zaps)

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        assert isinstance(request, web.Request)
        self.asked.append(request.path)
        return await self.answer(request)

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_get("/{path:.*}", self._serve)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()


def saying(status: int, *, body: bytes = b"", **headers: str) -> Answer:
    """Always this answer."""

    async def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(status=status, body=body, headers=headers)

    return answer


async def silence(request: web.Request) -> web.StreamResponse:
    """No answer until the client goes."""
    await asyncio.Event().wait()
    return web.Response()
