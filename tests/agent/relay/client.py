"""A raw client: frames as JSON values over a real socket, each wait with a deadline."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import aiohttp

from tests.agent.relay.kit import frame

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from nostr_client.codecs.event import Event

DEADLINE_S = 60.0


class Client:
    """One WebSocket to a relay."""

    def __init__(self, ws: aiohttp.ClientWebSocketResponse) -> None:
        self.ws = ws

    async def send(self, *parts: Any) -> None:
        """Send one frame, given as the items of its array; events are written as JSON."""
        await self.ws.send_str(frame(*parts))

    async def receive(self) -> Any:
        """The next frame, decoded."""
        async with asyncio.timeout(DEADLINE_S):
            message = await self.ws.receive()
        assert message.type is aiohttp.WSMsgType.TEXT, message
        return json.loads(message.data)

    async def rest(self) -> list[Any]:
        """All further frames, until the relay closes."""
        async with asyncio.timeout(DEADLINE_S):
            return [json.loads(message.data) async for message in self.ws]

    async def closed(self) -> int | None:
        """Wait for the relay to close; its code."""
        async with asyncio.timeout(DEADLINE_S):
            async for _ in self.ws:
                pass
        return self.ws.close_code

    async def ask(self, *parts: Any) -> Any:
        """Send one frame and return the next that comes."""
        await self.send(*parts)
        return await self.receive()

    async def publish(self, event: Event) -> list[Any]:
        """Send an event and wait for its OK."""
        answer = await self.ask("EVENT", event)
        assert answer[:2] == ["OK", event.id], answer
        return list(answer)

    async def stored(self, *filters: Any, sub_id: str = "r") -> list[str]:
        """The ids that a REQ gives before EOSE."""
        await self.send("REQ", sub_id, *filters)
        ids = []
        while (message := await self.receive())[0] == "EVENT":
            ids.append(message[2]["id"])
        assert message[:2] == ["EOSE", sub_id], message
        await self.send("CLOSE", sub_id)
        return ids


@asynccontextmanager
async def connect(url: str, **options: Any) -> AsyncIterator[Client]:
    """A connected client."""
    async with aiohttp.ClientSession() as http, http.ws_connect(url, **options) as ws:
        yield Client(ws)


@asynccontextmanager
async def deaf(url: str, *frames: str) -> AsyncIterator[asyncio.StreamWriter]:
    """A client that sends `frames` and never reads what comes after the handshake.

    The kernel's buffers and 128 kB of asyncio's fill up; then the relay cannot write.
    """
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    writer.write(
        f"GET / HTTP/1.1\r\nHost: {parts.netloc}\r\nUpgrade: websocket\r\n"
        "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n".encode()
    )
    async with asyncio.timeout(DEADLINE_S):
        head = await reader.readuntil(b"\r\n\r\n")
    assert b" 101 " in head, head
    for text in frames:
        writer.write(masked(text))
    try:
        yield writer
    finally:
        writer.transport.abort()


def masked(text: str) -> bytes:
    """A client's WebSocket text frame of less than 64 kB, masked with zeros."""
    data = text.encode()
    size = bytes([0x80 | len(data)]) if len(data) < 126 else b"\xfe" + len(data).to_bytes(2, "big")
    return b"\x81" + size + bytes(4) + data
