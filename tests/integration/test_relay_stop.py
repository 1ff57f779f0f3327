"""Closing a relay whose connection ends in the same moment: one cancellation, and it holds."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

import pytest

from nostr_client.errors import NetworkError
from nostr_client.network.relay import Relay
from nostr_client.network.relay_state import RelayStatus

if TYPE_CHECKING:
    from nostr_client.network.transport import Transport

pytestmark = pytest.mark.timeout(60)


class Socket:
    """A connection that ends when it is told to, in the turn of the loop in which it is told."""

    date = None
    bytes_sent = bytes_received = 0

    def __init__(self) -> None:
        self.end: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    async def receive(self) -> bytes:
        return await self.end

    async def send(self, *texts: str) -> None:
        pass

    async def ping(self, timeout: float) -> None:
        pass

    async def close(self) -> None:
        pass


class OneSocket:
    def __init__(self, socket: Socket) -> None:
        self.socket = socket

    async def connect(self, url: str) -> Any:
        return self.socket


async def test_closing_while_the_relay_closes_ends() -> None:
    socket = Socket()
    relay = Relay("ws://relay.test", transport=cast("Transport", OneSocket(socket)))
    await relay.connect()
    socket.end.set_exception(NetworkError("it went away"))
    async with asyncio.timeout(5):
        await relay.close()
    assert relay.status is RelayStatus.TERMINATED
