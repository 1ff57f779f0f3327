"""The three loops of one connection: reading, writing, heartbeat; each paced and bounded."""

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
"""After a connection was made."""

_REQUESTS: Final = ('["REQ"', '["COUNT"', '["EVENT"', '["NEG-OPEN"', '["NEG-MSG"')
"""Frames that make a relay work."""

_TOGETHER: Final = 32 * 1024
"""Characters that are sent within one deadline: a socket takes as much at once."""

_TURN: Final = 50  # frames read before the other coroutines get a turn
_TURN_BYTES: Final = 1024 * 1024  # the same in bytes: a frame of 2 kB may unpack to 2 MB


class Pump:
    """Run `read`, `write` and `heartbeat` side by side; the first that raises RelayError ends it.

    `stalled` is for the owner to set while it cannot take frames: then a missing pong is no fault
    of the relay.
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

    def send(self, texts: Iterable[str], *, paced: bool = False) -> None:
        """Queue frames; the requests that they belong to are bounded by `Limits`.

        `paced`: the sender waits for answers, so it is as fast as the relay.
        """
        self._outgoing.extend((text, paced) for text in texts)
        self._gate.wake()

    def withdraw(self, verb: str, id_: str) -> bool:
        """Drop the request of an id that nobody waits for any more; whether it still waited."""
        if not self._outgoing:
            return False
        begins = f'["{verb}","{id_}"'
        waited = any(text.startswith(begins) for text, _ in self._outgoing)
        if waited:
            self._outgoing = deque(one for one in self._outgoing if not one[0].startswith(begins))
        return waited

    async def read(self, take: Callable[[str | bytes], Awaitable[None]]) -> None:
        """Give every frame to `take`, at most `messages_per_second`."""
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
        """Send what is queued, at most `messages_per_second_out` of what nothing else paces.

        A request waits for its turn in the budget of the relay, a paced one only while the relay is
        asked nothing at all. What ends one costs nothing.
        """
        loop = asyncio.get_running_loop()
        bucket = TokenBucket(self._limits.messages_per_second_out, now=loop.time())
        while True:
            await self._gate.wait(lambda: self._outgoing)
            text, paced = self._outgoing[0]
            if not paced:
                if pause := bucket.take(loop.time()):
                    await asyncio.sleep(pause)
                if text.startswith(_REQUESTS):
                    await admitted(self._budget)
            elif text.startswith(_REQUESTS):
                await unpaused(self._budget)
            if not self._outgoing:  # it was withdrawn meanwhile
                continue
            texts = [self._outgoing.popleft()[0]]
            if self._budget is None:
                texts += self._more(bucket, len(texts[0]), loop.time())
            self._carried(sum(map(len, texts)))
            await self._socket.send(*texts)

    def _more(self, bucket: TokenBucket, size: int, now: float) -> Iterator[str]:
        """Take what may follow a frame of this size at once, where no budget makes it wait."""
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
        """Ping; `measured` gets each round trip in milliseconds. Raises NetworkError.

        Soon at first, so that the latency of a new connection is known.
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
