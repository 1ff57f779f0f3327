"""A connection without sockets: frames go in one by one, answers come out when all is done."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from agent.relay.connection import ServerConnection
from agent.relay.context import Peer, RelayContext
from agent.relay.core import RelayCore
from agent.relay.limits import events_bucket
from agent.relay.options import RelayOptions
from agent.relay.session import ServerSession
from tests.agent.relay.kit import CHALLENGE, URL

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from nostr_client.store.base import EventStore

DEADLINE_S = 120.0


class KeptFrames:
    """A FrameSender that keeps every frame in a list."""

    is_free = True

    def __init__(self, sent: list[bytes]) -> None:
        self._sent = sent

    def write(self, frames: Sequence[bytes]) -> None:
        self._sent += frames

    async def send(self, frames: Sequence[bytes]) -> None:
        self._sent += frames


class Wire:
    """One client of a relay in this process."""

    def __init__(self, core: RelayCore) -> None:
        options = core.options
        bucket = events_bucket(options.limits.events_per_s, options.limits, 0)
        peer = Peer(address="127.0.0.1", challenge=CHALLENGE, bucket=bucket, address_bucket=bucket)
        self._in: asyncio.Queue[str | bytes | None] = asyncio.Queue()
        self._taken = 0
        self.core = core
        self.sent: list[bytes] = []
        session = ServerSession(core.context, peer)
        self.connection = ServerConnection(core, session, KeptFrames(self.sent))

    async def frames(self) -> AsyncIterator[str | bytes]:
        """What the client sends; the task that reads it is done with one when it asks again."""
        while (frame := await self._in.get()) is not None:
            yield frame
            self._in.task_done()

    async def push(self, frame: str | bytes) -> list[Any]:
        """Send one frame; everything that came before all was quiet again, decoded."""
        start = len(self.sent)
        async with asyncio.timeout(DEADLINE_S):
            await self._in.put(frame)
            await self._in.join()
            await self.connection.quiet()
        return [json.loads(text) for text in self.sent[start:]]

    def hang_up(self) -> None:
        """The client closes."""
        self._in.put_nowait(None)


@asynccontextmanager
async def core_over(
    store: EventStore, options: RelayOptions | None = None
) -> AsyncIterator[RelayCore]:
    """A relay without sockets."""
    context = RelayContext(options=options or RelayOptions(), urls=frozenset({URL}))
    core = RelayCore(store, context)
    async with asyncio.TaskGroup() as group:
        working = group.create_task(core.ingest.run())
        try:
            yield core
        finally:
            working.cancel()
            await core.close()


@asynccontextmanager
async def wired(core: RelayCore) -> AsyncIterator[Wire]:
    """A connected client of `core`."""
    wire = Wire(core)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(wire.connection.run(wire.frames()))
        yield wire
        wire.hang_up()
        await running
