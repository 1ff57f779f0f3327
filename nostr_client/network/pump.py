"""Run the three loops of one connection: reading, writing and heartbeat. Each is bounded."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final

from nostr_client.errors import NetworkError
from nostr_client.network.access.budget import admitted, unpaused
from nostr_client.network.pacing import TokenBucket
from nostr_client.network.waiting import Gate

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator

    from nostr_client.network.access.budget import Budget
    from nostr_client.network.transport import WebSocket
    from nostr_client.options import Limits, Timeouts

FIRST_PING_S: Final = 1.0
"""Seconds from the connection to the first ping."""

_REQUESTS: Final = ('["REQ"', '["COUNT"', '["EVENT"', '["NEG-OPEN"', '["NEG-MSG"')
"""Frames that cost the relay work."""

_TOGETHER: Final = 32 * 1024
"""Characters to send within one deadline. A socket takes as many at once."""

_TURN: Final = 50  # frames read before the other coroutines get a turn
_TURN_BYTES: Final = 1024 * 1024  # the same in bytes, because a frame of 2 kB may unpack to 2 MB


class Pump:
    """Loops `read`, `write` and `heartbeat`, to run together. The first RelayError ends them.

    The owner sets `stalled` while it cannot take frames. A missing pong is then no fault of the
    relay.
    """

    def __init__(
        self, socket: WebSocket, limits: Limits, timeouts: Timeouts, budget: Budget | None
    ) -> None:
        self.stalled = False
        self._socket = socket
        self._limits = limits
        self._interval = timeouts.heartbeat
        self._budget = budget
        self._outgoing: deque[tuple[str, bool]] = deque()
        self._gate = Gate()
        self._out = TokenBucket(
            limits.messages_per_second_out, now=asyncio.get_running_loop().time()
        )
        self._is_sending = False
        self._broken: NetworkError | None = None

    async def send_now(self, texts: list[str]) -> None:
        """Send requests in the caller's task, or queue them if a frame or a budget delays them.

        Waking the task of `write` costs as much as a frame. Raises NetworkError, which also ends
        the loops.
        """
        now = asyncio.get_running_loop().time()
        waits = self._outgoing or self._is_sending or self._budget is not None
        if waits or not self._out.allow(now):
            self.send(texts)
            return
        try:
            await self._send(texts)
        except NetworkError as error:
            self._broken = error
            raise
        finally:
            if self._outgoing or self._broken:
                self._gate.wake()

    async def _send(self, texts: list[str]) -> None:
        self._is_sending = True
        try:
            await self._socket.send(*texts)
        finally:
            self._is_sending = False

    def send(self, texts: Iterable[str], *, paced: bool = False) -> None:
        """Queue frames. `Limits` bounds the requests to which the frames belong.

        `paced`: the sender waits for answers, so it is never faster than the relay.
        """
        self._outgoing.extend((text, paced) for text in texts)
        self._gate.wake()

    def withdraw(self, verb: str, id_: str) -> bool:
        """Drop the queued request of an id. Return True if the request was still queued."""
        if not self._outgoing:
            return False
        begins = f'["{verb}","{id_}"'
        waited = any(text.startswith(begins) for text, _ in self._outgoing)
        if waited:
            self._outgoing = deque(one for one in self._outgoing if not one[0].startswith(begins))
        return waited

    async def read(self, take: Callable[[bytes], Awaitable[None]]) -> None:
        """Pass every frame to `take`, at most `messages_per_second`."""
        loop = asyncio.get_running_loop()
        bucket = TokenBucket(self._limits.messages_per_second, now=loop.time())
        turn = taken = 0
        while True:
            frame = await self._socket.receive()
            await take(frame)
            turn += 1
            taken += len(frame)
            self._carried(len(frame))
            pause = bucket.take(loop.time())
            if pause or turn >= _TURN or taken >= _TURN_BYTES:
                turn = taken = 0
                await asyncio.sleep(pause)

    async def write(self) -> None:
        """Send queued frames. Frames that are not paced go at most `messages_per_second_out`.

        A request waits for its turn in the relay's budget. A paced request waits only while the
        budget allows no request at all. A frame that ends a request, such as CLOSE, costs nothing.
        """
        loop, bucket = asyncio.get_running_loop(), self._out
        while True:
            await self._gate.wait(lambda: (self._outgoing and not self._is_sending) or self._broken)
            if self._broken is not None:
                raise self._broken
            text, paced = self._outgoing[0]
            if not paced:
                if pause := bucket.take(loop.time()):
                    await asyncio.sleep(pause)
                if text.startswith(_REQUESTS):
                    await admitted(self._budget)
            elif text.startswith(_REQUESTS):
                await unpaused(self._budget)
            if not self._outgoing or self._is_sending:  # the frame was withdrawn meanwhile
                continue
            texts = [self._outgoing.popleft()[0]]
            if self._budget is None:
                texts += self._more(bucket, len(texts[0]), loop.time())
            before = self._socket.bytes_sent
            await self._send(texts)
            self._carried(self._socket.bytes_sent - before)

    def _more(self, bucket: TokenBucket, size: int, now: float) -> Iterator[str]:
        """Take the frames that may follow a frame of `size` at once, if no budget limits them."""
        while self._outgoing and size < _TOGETHER:
            text, paced = self._outgoing[0]
            if not (paced or bucket.allow(now)):
                return
            self._outgoing.popleft()
            size += len(text)
            yield text

    def _carried(self, size: int) -> None:
        if self._budget is not None:
            self._budget.carried(size, asyncio.get_running_loop().time())

    async def heartbeat(self, measured: Callable[[float], None]) -> None:
        """Send pings. `measured` gets each round trip in milliseconds. Raises NetworkError.

        The first ping goes soon, so that the latency of a new connection is known.
        """
        loop = asyncio.get_running_loop()
        pause = min(FIRST_PING_S, self._interval)
        while True:
            await asyncio.sleep(pause)
            pause = self._interval
            sent = loop.time()
            try:
                await self._socket.ping(self._interval / 2)
            except NetworkError:
                if not self.stalled:
                    raise
            else:
                measured((loop.time() - sent) * 1000)
