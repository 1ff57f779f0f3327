"""From EVENT to OK: signatures in worker threads, commits in groups, then OK, then live.

Whatever waits when the last batch is done makes the next one, so batches grow with the load and
a lone event waits for nothing. While one batch is being committed the next one is verified.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from nostr_client.errors import InvalidEvent, StoreError
from nostr_client.keys import verify_many
from nostr_client.store.base import Status

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Executor

    from agent.relay.connection import Connection
    from agent.relay.outputs import SaveJob
    from nostr_client.event import Event
    from nostr_client.keys import VerifiedEvent
    from nostr_client.store.base import EventStore, Outcome

BATCH = 1_024
"""Events of one commit at most: what comes after them waits for about 0.1 s."""

CHUNK = 128
"""Signatures that one thread checks in a go: a future for each costs more than it gives."""

WAITING = 8_192
"""Events that wait before the sockets have to: about a second of work."""

Entry = tuple["Connection", "SaveJob"]
T = TypeVar("T")


class Ingest:
    """The one way of events from all connections into the store."""

    def __init__(
        self,
        store: EventStore,
        threads: Executor,
        announce: Callable[[Sequence[Event]], None],
    ) -> None:
        self._store = store
        self._threads = threads
        self._announce = announce
        self._queue: asyncio.Queue[Entry] = asyncio.Queue()
        self._verified: asyncio.Queue[list[tuple[Entry, VerifiedEvent | InvalidEvent]]]
        self._verified = asyncio.Queue(1)
        self._room = asyncio.Event()
        self._room.set()
        self.before_save: list[Callable[[Sequence[VerifiedEvent]], object]] = []
        """Called with the valid events of a batch that is about to be saved."""
        self._saving: dict[int, Event] = {}
        self._after: list[Callable[[], None]] = []

    def put(self, connection: Connection, job: SaveJob) -> None:
        """Queue an event; callers read no further frames until `room`."""
        self._queue.put_nowait((connection, job))
        if self._queue.qsize() >= WAITING:
            self._room.clear()

    async def room(self) -> None:
        """Wait until the queue is short. Safe to cancel."""
        await self._room.wait()

    def after_announced(self, call: Callable[[], None]) -> None:
        """Call when every commit that is under way now has been announced; at once if none is."""
        if self._saving:
            self._after.append(call)
        else:
            call()

    def is_saving(self, event: Event) -> bool:
        """Whether this very object, and not an equal one, is in the commit under way."""
        return id(event) in self._saving

    async def run(self) -> None:
        """Work until cancelled; what was not yet answered then gets no OK."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._verify())
            group.create_task(self._save())

    async def drain(self) -> None:
        """Wait until everything queued so far has been answered. Safe to cancel."""
        await self._queue.join()

    async def _verify(self) -> None:
        while True:
            batch = await _take(self._queue, BATCH)
            if self._queue.qsize() < WAITING // 2:
                self._room.set()
            checked = await self._check([job.event for _, job in batch])
            await self._verified.put(list(zip(batch, checked, strict=True)))

    async def _check(self, events: list[Event]) -> list[VerifiedEvent | InvalidEvent]:
        loop = asyncio.get_running_loop()
        chunks = [events[at : at + CHUNK] for at in range(0, len(events), CHUNK)]
        jobs = [loop.run_in_executor(self._threads, verify_many, chunk) for chunk in chunks]
        return [result for chunk in await asyncio.gather(*jobs) for result in chunk]

    async def _save(self) -> None:
        while True:
            batch = await self._verified.get()
            self._saving = {id(job.event): job.event for (_, job), _ in batch}
            try:
                await self._commit(batch)
            finally:
                self._saving = {}
                self._call_after()
            for _ in batch:
                self._queue.task_done()

    async def _commit(self, batch: list[tuple[Entry, VerifiedEvent | InvalidEvent]]) -> None:
        good = [checked for _, checked in batch if not isinstance(checked, InvalidEvent)]
        for call in self.before_save:
            call(good)
        try:
            outcomes = iter(await self._store.save(good) if good else [])
        except StoreError as error:
            _fail(batch, error)
            return
        new: list[Event] = []
        for (connection, job), checked in batch:
            result: Outcome | str
            result = str(checked) if isinstance(checked, InvalidEvent) else next(outcomes)
            if not isinstance(result, str) and result.status in (Status.STORED, Status.EPHEMERAL):
                new.append(job.event)
            connection.saved(connection.session.saved(job.event, result))
        self._announce(new)

    def _call_after(self) -> None:
        calls, self._after = self._after, []
        for call in calls:
            call()


def _fail(batch: list[tuple[Entry, VerifiedEvent | InvalidEvent]], error: StoreError) -> None:
    """Nothing of the batch was committed: bad events are told so, good ones to come again."""
    for (connection, job), checked in batch:
        if isinstance(checked, InvalidEvent):
            connection.saved(connection.session.saved(job.event, str(checked)))
        else:
            connection.saved(connection.session.failed(job, f"error: not stored: {error}"))


async def _take(queue: asyncio.Queue[T], most: int) -> list[T]:
    """Wait for one item, then take what else is there, up to `most`."""
    batch = [await queue.get()]
    while len(batch) < most and not queue.empty():
        batch.append(queue.get_nowait())
    return batch
