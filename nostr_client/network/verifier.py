"""Verify raw events outside the event loop. No event is verified twice.

libsecp256k1 runs without the GIL, so worker threads leave the loop free. A pool has one `Verifier`
for all events that it reads. An `Ingest` that stores these events uses the same one.
"""

from __future__ import annotations

import asyncio
import os
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, Protocol

from nostr_client.codecs.keys import VerifiedEvent, verify_many

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nostr_client.codecs.event import Event
    from nostr_client.errors import InvalidEvent

_CACHE_BYTES: Final = 16 * 2**20
_CACHE_EVENTS: Final = 8192
_MAX_WORKERS: Final = 4
_EVENT_BYTES: Final = 700  # id, key, signature and the objects around them
_TAG_BYTES: Final = 150


class Verifier(Protocol):
    """Turns events into verified events."""

    async def verify(self, events: Sequence[Event]) -> list[VerifiedEvent | InvalidEvent]:
        """Return one result for each event, in order: the verified event or its error."""
        ...


class _Known:
    """Cache of the last verified events, bounded in number and in bytes."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._events: OrderedDict[str, VerifiedEvent] = OrderedDict()
        self._bytes = 0

    def get(self, event: Event) -> VerifiedEvent | None:
        found = self._events.get(event.id)
        if found is None or found.event != event:  # an id proves nothing before it is verified
            return None
        self._events.move_to_end(event.id)
        return found

    def add(self, results: Iterable[VerifiedEvent | InvalidEvent]) -> None:
        """Remember the verified events of some results."""
        if self._most:
            for one in results:
                if isinstance(one, VerifiedEvent):
                    self._add(one)

    def _add(self, verified: VerifiedEvent) -> None:
        event = verified.event
        if event.id in self._events:
            return
        self._events[event.id] = verified
        self._bytes += footprint(event)
        while self._bytes > _CACHE_BYTES or len(self._events) > self._most:
            self._bytes -= footprint(self._events.popitem(last=False)[1].event)


def footprint(event: Event) -> int:
    """Return the approximate number of bytes of memory that an event takes."""
    return _EVENT_BYTES + len(event.content) + _TAG_BYTES * len(event.tags)


class ThreadVerifier:
    """Verifies chunks of `chunk` events in worker threads, and remembers the last verified events.

    `workers`: number of threads, by default one for each core and at most 4. `remember`: number of
    remembered events, of at most 16 MiB. Use 0 if no event comes twice. Close it last.
    """

    def __init__(
        self, *, chunk: int = 128, workers: int | None = None, remember: int = _CACHE_EVENTS
    ) -> None:
        self._chunk = chunk
        self._workers = workers or min(_MAX_WORKERS, os.cpu_count() or 1)
        self._threads: ThreadPoolExecutor | None = None
        # chunks that the threads have not returned yet
        self._turns = asyncio.Semaphore(2 * self._workers)
        self._known = _Known(remember)
        self.checked = 0
        self.reused = 0

    async def verify(self, events: Sequence[Event]) -> list[VerifiedEvent | InvalidEvent]:
        """Verify events, as `Verifier.verify` does.

        Safe to cancel. Running chunks are dropped.
        """
        results: list[VerifiedEvent | InvalidEvent | None] = [self._known.get(e) for e in events]
        fresh = [i for i, found in enumerate(results) if found is None]
        self.reused += len(events) - len(fresh)
        parts = [fresh[i : i + self._chunk] for i in range(0, len(fresh), self._chunk)]
        checked = await self._check_all([[events[i] for i in part] for part in parts])
        for part, found in zip(parts, checked, strict=True):
            for index, result in zip(part, found, strict=True):
                results[index] = result
        return [result for result in results if result is not None]

    async def _check_all(
        self, chunks: Sequence[list[Event]]
    ) -> list[list[VerifiedEvent | InvalidEvent]]:
        if not chunks:  # all of them are known
            return []
        if len(chunks) == 1:  # a task costs as much as checking one event
            return [await self._check(chunks[0])]
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._check(chunk)) for chunk in chunks]
        return [task.result() for task in tasks]

    async def _check(self, events: list[Event]) -> list[VerifiedEvent | InvalidEvent]:
        async with self._turns:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(self._workers, thread_name_prefix="verify")
            loop = asyncio.get_running_loop()
            results = await loop.run_in_executor(self._threads, verify_many, events)
        self.checked += len(results)
        self._known.add(results)
        return results

    async def close(self) -> None:
        """Stop the threads. Waits for running chunks, which take a few milliseconds each."""
        threads, self._threads = self._threads, None
        if threads is not None:
            await asyncio.to_thread(threads.shutdown)
