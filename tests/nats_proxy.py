"""A TCP proxy before a nats-server that loses, delays and repeats publishes, and loses their acks.

It reads the protocol of both sides frame by frame; what is no publish to a counter of an agent
passes untouched. A late copy comes over a connection of the proxy's own, as the network would
deliver it: whether or not the client is still there.
"""

from __future__ import annotations

import asyncio
import json
import random
from contextlib import suppress
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

LIMIT = 4 * 1024 * 1024
LATE_S = 3.0
FAULTS = ("lost request", "lost ack", "late", "late and lost ack", "cut before", "cut after")


class FaultyNats:
    """Between one client and the server at `port`; `rate` of the publishes meet a fault."""

    def __init__(
        self,
        port: Callable[[], int],
        seed: int,
        *,
        late_s: float = LATE_S,
        kinds: Sequence[str] = FAULTS,
    ) -> None:
        self.rate = 0.5
        self._kinds = kinds
        self.faults: dict[str, int] = {}
        self.arrived = asyncio.Event()
        self.arrived.set()
        self._port = port
        self._random = random.Random(seed)
        self._late_s = late_s
        self._under_way: set[asyncio.Task[None]] = set()
        self._mute: set[bytes] = set()
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=LIMIT)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._under_way:
            task.cancel()
        for writer in self._writers:
            writer.close()
        await asyncio.gather(*self._under_way, return_exceptions=True)
        await self._server.wait_closed()

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"nats://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            up = await asyncio.open_connection("127.0.0.1", self._port(), limit=LIMIT)
        except OSError:
            writer.close()
            self._writers.discard(writer)
            return
        ways = [
            asyncio.ensure_future(self._requests(reader, up[1])),
            asyncio.ensure_future(self._answers(up[0], writer)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            self._writers.discard(writer)
            for side in (writer, up[1]):
                side.close()

    async def _requests(self, reader: asyncio.StreamReader, up: asyncio.StreamWriter) -> None:
        while frame := await read_frame(reader, (b"PUB", b"HPUB")):
            words = frame.split(b"\r\n", 1)[0].split()
            fault = self._fault(words)
            if "late" in fault:
                self._deliver_later(frame, words)
            if fault == "cut before":
                return
            if fault not in ("lost request", "late"):
                if "lost ack" in fault:
                    self._mute.add(words[2])
                up.write(frame)
                await up.drain()
            if fault == "cut after":
                return

    def _fault(self, words: list[bytes]) -> str:
        publish = words[0] in (b"PUB", b"HPUB") and words[1].startswith(b"count.")
        if not publish or self._random.random() >= self.rate:
            return ""
        fault = self._random.choice(self._kinds)
        self.faults[fault] = self.faults.get(fault, 0) + 1
        return fault

    async def _answers(self, reader: asyncio.StreamReader, down: asyncio.StreamWriter) -> None:
        while frame := await read_frame(reader, (b"MSG", b"HMSG")):
            words = frame.split(b"\r\n", 1)[0].split()
            if words[0] in (b"MSG", b"HMSG") and words[1] in self._mute:
                self._mute.discard(words[1])
                continue
            down.write(frame)
            await down.drain()

    def _deliver_later(self, frame: bytes, words: list[bytes]) -> None:
        task = asyncio.ensure_future(self._late(frame))
        self._under_way.add(task)
        self.arrived.clear()
        task.add_done_callback(self._landed)

    def _landed(self, task: asyncio.Task[None]) -> None:
        self._under_way.discard(task)
        if not self._under_way:
            self.arrived.set()

    async def _late(self, frame: bytes) -> None:
        """A copy that the network kept; lost for good where no server is there then."""
        timer = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(self._late_s, timer.set_result, None)
        await timer
        with suppress(OSError, asyncio.IncompleteReadError):
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port())
            options = {"verbose": False, "headers": True, "no_responders": True, "pedantic": False}
            head = f"CONNECT {json.dumps(options)}\r\n".encode()
            writer.write(head + frame + b"PING\r\n")
            await reader.readuntil(b"PONG\r\n")
            writer.close()


async def read_frame(reader: asyncio.StreamReader, with_payload: tuple[bytes, ...]) -> bytes:
    """One frame with its payload; empty at the end of the connection."""
    try:
        line = await reader.readuntil(b"\r\n")
        words = line.split()
        if words and words[0] in with_payload:
            return line + await reader.readexactly(int(words[-1]) + 2)
    except (OSError, asyncio.IncompleteReadError):
        return b""
    return line
