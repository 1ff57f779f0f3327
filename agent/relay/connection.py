"""Runs one connection: its session, its outbox, its jobs. Sockets are behind two callables."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, Protocol

from agent.relay.core import SubscriptionRoute
from agent.relay.jobs import answer_at_once, perform
from agent.relay.outbox import Outbox
from agent.relay.outputs import (
    CountJob,
    Disconnect,
    FetchJob,
    Listen,
    MergedJob,
    NegOpenJob,
    NegStepJob,
    SaveJob,
    Settle,
    Unlisten,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Sequence

    from agent.relay.core import RelayCore
    from agent.relay.outputs import Job, Output, ServerSubscription
    from agent.relay.session import ServerSession
    from nostr_client.codecs.event import Event


GOING_AWAY = 1001
"""WebSocket code for a server that stops."""

AT_ONCE = 16
"""Most answers found without waiting before other connections have their turn."""

AT_ONCE_S = 0.002
"""Seconds of such answers after which others have their turn; one takes 0.001 at most."""

LAST_WORDS_S = 1.0
"""Seconds for a reader to take the remaining answers when the relay stops."""


class FrameSender(Protocol):
    """The socket of one client."""

    @property
    def is_free(self) -> bool:
        """Whether the socket has taken everything, so that `write` need not wait."""
        ...

    def write(self, frames: Sequence[bytes]) -> None:
        """Write frames. Raises ConnectionError."""

    async def send(self, frames: Sequence[bytes]) -> None:
        """Write frames, if any, and wait until the socket takes more. Raises ConnectionError."""


class ServerConnection:
    """Moves frames between a client and its session until either side ends it."""

    def __init__(self, core: RelayCore, session: ServerSession, sender: FrameSender) -> None:
        limits = core.options.limits
        self._core = core
        self._limits = limits
        self._sender = sender
        self._is_flushing = False
        self._behind = asyncio.Event()
        """Set while the socket has to take frames before it gets more."""
        self._outbox = Outbox(limits.send_bytes, limits.send_low_bytes, core.waiting)
        self.fetching = asyncio.Lock()
        """Held by the one job that reads events for this connection: one page waits at a time."""
        self._routes: dict[ServerSubscription, SubscriptionRoute] = {}
        self._jobs: set[asyncio.Task[None]] = set()
        self._unsaved = 0
        self._at_once = 0
        """Answers that were found without waiting since other tasks had their turn."""
        self._turn_began = 0.0
        self._room = asyncio.Event()
        self._room.set()
        self._ended: asyncio.Future[Disconnect] = asyncio.get_running_loop().create_future()
        self._group: asyncio.TaskGroup | None = None
        self.session = session
        core.connections.add(self)

    async def quiet(self) -> None:
        """Wait until all that the client asked for so far is answered and taken. Safe to cancel."""
        while self._jobs or self._unsaved or not self._outbox.is_empty:
            if self._jobs:
                await asyncio.wait(self._jobs)
            if self._unsaved:
                await self._core.saved()
            await self._outbox.wait_empty()

    async def run(self, frames: AsyncIterator[str | bytes]) -> Disconnect | None:
        """Serve until `frames` end (None) or this side ends it (the reason). Safe to cancel."""
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                reader = group.create_task(self._read(frames))
                writer = group.create_task(self._write())
                waited: set[asyncio.Future[None] | asyncio.Future[Disconnect]] = {
                    reader,
                    self._ended,
                }
                await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
                await self._say_last_words()
                for task in (reader, writer, *self._jobs):
                    task.cancel()
        finally:
            self.handle(self.session.close())
            self._core.forget(self)
            self._outbox.close()
        return self._ended.result() if self._ended.done() else None

    def end(self, end: Disconnect) -> None:
        """End the connection; the first reason stands."""
        if not self._ended.done():
            self._ended.set_result(end)

    async def _say_last_words(self) -> None:
        """When the relay stops, send the answers that still wait, if the client reads them."""
        if self._ended.done() and self._ended.result().code == GOING_AWAY:
            waited = asyncio.ensure_future(self.quiet())
            await asyncio.wait({waited}, timeout=LAST_WORDS_S)
            waited.cancel()

    async def _read(self, frames: AsyncIterator[str | bytes]) -> None:
        self.handle(self.session.open())
        async for frame in frames:
            self.handle(self.session.receive(frame))
            if self._at_once and self._is_others_turn():
                self._at_once = 0
                await asyncio.sleep(0)
            if not self._room.is_set():
                await self._room.wait()
            if self._core.ingest.is_full:
                await self._core.ingest.room()

    def _is_others_turn(self) -> bool:
        return self._at_once >= AT_ONCE or monotonic() - self._turn_began > AT_ONCE_S

    def _flush(self) -> None:
        """Write what waits, as long as the socket takes it at once."""
        self._is_flushing = False
        self._at_once = 0
        try:
            while self._sender.is_free:
                frames = self._outbox.take()
                if not frames:
                    return
                self._sender.write(frames)
        except ConnectionError:
            self._broke()
        self._behind.set()

    async def _write(self) -> None:
        """Write what the socket does not take at once."""
        try:
            while True:
                await self._behind.wait()
                self._behind.clear()
                await self._sender.send(())
                while not self._outbox.is_empty:
                    await self._sender.send(self._outbox.take())
                self._outbox.take()  # nothing: the socket has taken the last frames
        except ConnectionError:
            self._broke()

    def _broke(self) -> None:
        self.end(Disconnect(1006, "the connection broke"))

    def _flush_soon(self) -> None:
        """Write after the tasks that are due now: their frames leave together."""
        if not self._is_flushing:
            self._is_flushing = True
            asyncio.get_running_loop().call_soon(self._flush)

    def handle(self, outputs: Iterable[Output]) -> None:
        """Carry out what the session wants."""
        for output in outputs:
            _CARRY_OUT[type(output)](self, output)

    def put(self, frame: str) -> None:
        """Send a frame; a reader that is too far behind is disconnected."""
        self._put(frame.encode())

    def _put(self, frame: bytes) -> None:
        if self._ended.done():
            return
        if self._outbox.put(frame):
            self._flush_soon()
        else:
            self.end(self.session.slow())

    def put_at_once(self, frames: Sequence[bytes]) -> bool:
        """Send all of `frames`, or none where the reader has to take others first."""
        if self._ended.done():
            return True
        if not self._outbox.put_all(frames):
            return False
        self._flush_soon()
        return True

    async def put_slowly(self, frames: Sequence[bytes]) -> None:
        """Send many frames at the reader's pace; one that takes nothing is disconnected."""
        if self.put_at_once(frames):
            return
        for frame in frames:
            if not await self.ready():
                return
            self._put(frame)

    async def ready(self) -> bool:
        """Wait until the reader took what waits; False where it took nothing and is cut off."""
        if self._outbox.is_low or await self._wait_low():
            return True
        self.end(self.session.slow())
        return False

    async def _wait_low(self) -> bool:
        """Whether the reader took what waits, before the time was up."""
        try:
            async with asyncio.timeout(self._limits.send_timeout_s):
                await self._outbox.wait_low()
        except TimeoutError:
            return False
        return True

    def live(self, subscription: ServerSubscription, event: Event, event_json: str) -> bool:
        """Hand a new event to a subscription; True when it was sent."""
        frame = self.session.live(subscription, event, event_json)
        if frame is not None:
            self.put(frame)
        return frame is not None

    def _watch(self, output: Listen) -> None:
        subscription = output.subscription
        wanted = [f for f in subscription.filters if f.search is None]
        route = self._routes[subscription] = SubscriptionRoute(self, subscription)
        self._core.hub.add(route, wanted)

    def _unwatch(self, output: Unlisten) -> None:
        route = self._routes.pop(output.subscription, None)
        if route is not None:
            self._core.hub.remove(route)

    def _settle(self, output: Settle) -> None:
        self._core.ingest.after_commit(output.subscription.settle)

    def _start(self, job: Job) -> None:
        if self._group is None:
            return
        begun = monotonic()
        outputs = answer_at_once(job, self._core, self)
        if outputs is not None:
            if not self._at_once:
                self._turn_began = begun
            self._at_once += 1
            self.handle(outputs)
            return
        task = self._group.create_task(perform(job, self._core, self))
        self._jobs.add(task)
        task.add_done_callback(self._job_done)
        self._check_room()

    def _job_done(self, task: asyncio.Task[None]) -> None:
        self._jobs.discard(task)
        self._check_room()

    def _save(self, job: SaveJob) -> None:
        self._unsaved += 1
        if self._unsaved >= self._limits.pending_events:
            self._room.clear()
        self._core.save(self, job)

    def saved(self, answers: Sequence[str]) -> None:
        """Some of this connection's events are settled; each has one frame as its answer."""
        self._unsaved -= len(answers)
        self._check_room()
        frames = list(map(str.encode, answers))
        if not self.put_at_once(frames):
            for frame in frames:
                self._put(frame)

    def _check_room(self) -> None:
        """Read on only while neither jobs nor events without an answer pile up."""
        full = len(self._jobs) >= self._limits.jobs or self._unsaved >= self._limits.pending_events
        if full:
            self._room.clear()
        else:
            self._room.set()


_CARRY_OUT: Final[dict[type[Output], Callable[[ServerConnection, Any], None]]] = {
    str: ServerConnection.put,
    Listen: ServerConnection._watch,
    Unlisten: ServerConnection._unwatch,
    Settle: ServerConnection._settle,
    Disconnect: ServerConnection.end,
    SaveJob: ServerConnection._save,
    **dict.fromkeys(
        (FetchJob, CountJob, MergedJob, NegOpenJob, NegStepJob), ServerConnection._start
    ),
}
"""What each output of a session wants; a chain of comparisons would take longer than most."""
