"""Numbers the deltas of the event stream, stores the newest, and bounds each client. No sockets.

A client begins with a snapshot, or with the number that it saw last. If all later deltas are still
here and of this run of the agent, it gets only those. A client that does not read is cut with a
reason, and connects again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, Final

import msgspec

from agent.api.schema import Delta, StreamEnd

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent.api.schema import StateSnapshot

KEPT: Final = 10_000
"""Deltas stored for clients that reconnect: some minutes of a busy agent."""

KEPT_BYTES: Final = 8 * 1024 * 1024
"""Bytes of them: a sync with many relays is a large delta."""

SLOW: Final = "too slow: more messages waited than one client may leave unread"
STOPPING: Final = "the agent stops"
NEW_TOKENS: Final = "the tokens have changed: come again with the new one"


class ApiFeed:
    """All streams of one run of the agent; `run` is its random name."""

    def __init__(self, run: str, backlog: int, *, kept: int = KEPT) -> None:
        self.run = run
        self.n = 0
        self.cut = 0
        """Streams that were cut because their client did not read."""
        self._backlog = backlog
        self._kept: deque[tuple[int, bytes]] = deque()
        self._most = kept
        self._bytes = 0
        self._streams: set[FeedStream] = set()
        self._encode = msgspec.json.Encoder().encode

    @property
    def streams(self) -> int:
        """How many clients listen."""
        return len(self._streams)

    def publish(self, **changed: Any) -> None:
        """Number a delta and hand it to every stream; the fields are those of `Delta`."""
        self.n += 1
        data = self._encode(Delta(n=self.n, **changed))
        self._keep(data)
        for stream in list(self._streams):
            stream.offer(self.n, data)

    def _keep(self, data: bytes) -> None:
        self._kept.append((self.n, data))
        self._bytes += len(data)
        while len(self._kept) > self._most or self._bytes > KEPT_BYTES:
            self._bytes -= len(self._kept.popleft()[1])

    def open(
        self, last: tuple[str, int] | None, snapshot: Callable[[], StateSnapshot]
    ) -> FeedStream:
        """Open a stream that resumes after `last` (run and number), or starts with a snapshot."""
        stream = FeedStream(self, self._backlog)
        missed = self._after(last)
        if missed is None:
            stream.offer(self.n, self._encode(snapshot()))
        else:
            for n, data in missed:
                stream.offer(n, data)
        self._streams.add(stream)
        return stream

    def _after(self, last: tuple[str, int] | None) -> list[tuple[int, bytes]] | None:
        """The deltas that a client has missed; None if they are no longer stored, or too many."""
        if last is None or last[0] != self.run or last[1] > self.n:
            return None
        oldest = self._kept[0][0] if self._kept else self.n + 1
        if last[1] < oldest - 1 or self.n - last[1] > self._backlog:
            return None
        return [(n, data) for n, data in self._kept if n > last[1]]

    def dropped(self, stream: FeedStream) -> None:
        """A stream takes no more."""
        self._streams.discard(stream)

    def close(self, reason: str = STOPPING) -> None:
        """End all streams, and say why."""
        for stream in list(self._streams):
            stream.end(reason)


class FeedStream:
    """One client's messages, as (number, JSON); iterate, and `close` it in the end."""

    def __init__(self, feed: ApiFeed, backlog: int) -> None:
        self._feed = feed
        self._backlog = backlog
        self._waiting: deque[tuple[int, bytes]] = deque()
        self._ready = asyncio.Event()
        self._ended = False

    def offer(self, n: int, data: bytes) -> None:
        """Put a message in; the one too many ends the stream."""
        if self._ended:
            return
        if len(self._waiting) >= self._backlog:
            self._feed.cut += 1
            self.end(SLOW)
            return
        self._waiting.append((n, data))
        self._ready.set()

    def end(self, reason: str) -> None:
        """Say why and take no more; when it is slow, what waits is thrown away for it."""
        if self._ended:
            return
        if reason == SLOW:
            self._waiting.clear()
        self._waiting.append((0, msgspec.json.encode(StreamEnd(reason=reason))))
        self._ended = True
        self._ready.set()
        self._feed.dropped(self)

    def close(self) -> None:
        """Release the stream of a client that has disconnected."""
        self._ended = True
        self._feed.dropped(self)
        self._ready.set()

    async def next(self, timeout: float) -> tuple[int, bytes] | None:
        """The next message; None after `timeout` seconds without. Raises EOFError at the end."""
        if not self._waiting and not self._ended:
            self._ready.clear()
            try:
                async with asyncio.timeout(timeout):
                    await self._ready.wait()
            except TimeoutError:
                return None
        if not self._waiting:
            raise EOFError
        return self._waiting.popleft()
