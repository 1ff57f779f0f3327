"""Where a webhook may lead: judged as written, and again by the address that a name resolves to."""

from __future__ import annotations

import socket
from typing import Any

import pytest
from aiohttp import web

from agent.alerts import webhook
from nostr_client.errors import NetworkError
from nostr_client.options import ConnectionOptions


async def test_a_public_name_of_a_private_address_is_not_called(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The name passes as written; the address that it resolves to does not."""
    asked: list[str] = []

    async def take(request: web.BaseRequest) -> web.Response:
        asked.append(request.path)
        return web.Response()

    def resolve(_: object, port: int, *more: Any, **options: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    runner = web.ServerRunner(web.Server(take))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://hook.example.com:{runner.addresses[0][1]}/"
    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    try:
        await webhook.post(url, b"{}", ConnectionOptions())
        with pytest.raises(NetworkError, match=r"hook\.example\.com"):
            await webhook.post(url, b"{}", ConnectionOptions(), public_only=True)
    finally:
        await runner.cleanup()
    assert asked == ["/"]
