"""`Subscription` iterates over the verified events of one subscription, each id once."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Self

import msgspec

from nostr_client.codecs.keys import VerifiedEvent
from nostr_client.protocol import StoredFrames
from nostr_client.protocol.state import cutting_limit

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from types import TracebackType

    from nostr_client.codecs.filters import Filter
    from nostr_client.errors import InvalidEvent, RelayError
    from nostr_client.network.event_queue import EventQueue, QueuedEvent, SubscriptionSource
    from nostr_client.network.verifier import Verifier
    from nostr_client.options import Limits


class SubscriptionStats(msgspec.Struct, frozen=True, kw_only=True):
    """Statistics of a subscription at one moment. Bytes are those of frames with events."""

    frames: int
    bytes: int
    delivered: int
    queued: int
    duplicates: int
    invalid: int
    malformed: int
    mismatched: int
    excess: int
    dropped: int


class Subscription:
    """Iterates over verified events. `Relay.subscribe` and `RelayPool.subscribe` make it.

    Use the subscription as an async context manager, or call `close()`. Both send CLOSE. The
    iteration ends when no relay can send more events. If every relay failed, the iteration raises
    the first error after the last queued event.
    """

    def __init__(self, queue: EventQueue, verifier: Verifier, limits: Limits) -> None:
        self._queue = queue
        self._verifier = verifier
        self._chunk = 2 * limits.verify_chunk  # two threads then have work at the same time
        self._ready: deque[VerifiedEvent] = deque()

    @property
    def filters(self) -> tuple[Filter, ...]:
        """The filters of the subscription."""
        return self._queue.filters

    @property
    def sources(self) -> Mapping[str, SubscriptionSource]:
        """What each relay contributed, by normalised URL."""
        return self._queue.sources

    @property
    def closed(self) -> bool:
        """True after `close`."""
        return self._queue.closed

    def ration(self, size: int) -> None:
        """Accept events up to `size` bytes in total.

        After this many bytes, the client accepts no more events, and the relay waits until the
        subscription is closed.
        """
        self._queue.ration(size)

    async def received(self, most: int = 256) -> list[QueuedEvent]:
        """Return at most `most` unverified events, after waiting for the first one.

        The list is empty at the end of the subscription. This method is for readers that verify
        events themselves. Do not mix it with the other ways to read. Safe to cancel.
        """
        return await self._queue.take(most)

    async def batch(self) -> list[VerifiedEvent]:
        """Return the next verified events, after waiting for the first one.

        The list is empty at the end of the subscription. Safe to cancel: events that are not yet
        verified return to the queue.
        """
        while True:
            taken = await self.received(self._chunk)
            if not taken:
                return []
            try:
                verified = await self._verified(taken)
            except asyncio.CancelledError:
                self._queue.put_back(taken)
                raise
            if verified:
                return verified

    async def _verified(self, taken: list[QueuedEvent]) -> list[VerifiedEvent]:
        queue = self._queue
        fresh = [item for item in taken if not queue.was_delivered(item.event.id)]
        results = await self._verifier.verify([item.event for item in fresh])
        # only delivered ids count, because a forged event must not hide the true one
        for item in taken:
            queue.sources[item.relay].duplicates += queue.was_delivered(item.event.id)
        return [
            found
            for item, one in zip(fresh, results, strict=True)
            if (found := self._judge(item, one))
        ]

    def _judge(
        self, item: QueuedEvent, result: VerifiedEvent | InvalidEvent
    ) -> VerifiedEvent | None:
        source = self._queue.sources[item.relay]
        if not isinstance(result, VerifiedEvent):
            source.invalid += 1
            return None
        if self._queue.was_delivered(item.event.id):  # the event came twice in one chunk
            source.duplicates += 1
            return None
        self._queue.deliver(item)
        return result

    async def stored(self) -> None:
        """Wait until every relay has sent EOSE or can send no more events. Safe to cancel."""
        await self._queue.stored()

    @property
    def error(self) -> RelayError | None:
        """The error of the first relay if every relay failed, else None."""
        errors = [source.error for source in self.sources.values()]
        return errors[0] if errors and all(errors) else None

    def __aiter__(self) -> AsyncIterator[VerifiedEvent]:
        return self

    async def __anext__(self) -> VerifiedEvent:
        if not self._ready:
            self._ready.extend(await self.batch())
        if self._ready:
            return self._ready.popleft()
        if self.error is not None and not self.closed:
            raise self.error
        raise StopAsyncIteration

    @property
    def frames(self) -> int:
        """The number of frames with events, over all relays."""
        return sum([source.tally.frames for source in self.sources.values()])

    @property
    def bytes(self) -> int:
        """The size of the frames with events, in bytes of UTF-8, over all relays."""
        return sum([source.tally.bytes for source in self.sources.values()])

    def statistics(self) -> SubscriptionStats:
        """Return the statistics of all relays together. `sources` has the statistics of each
        relay."""
        sources = list(self.sources.values())
        tallies = [source.tally for source in sources]
        return SubscriptionStats(
            frames=self.frames,
            bytes=self.bytes,
            delivered=sum([source.delivered for source in sources]),
            queued=len(self._queue),
            duplicates=sum([source.duplicates for source in sources]),
            invalid=sum([source.invalid for source in sources]),
            malformed=sum([tally.malformed for tally in tallies]),
            mismatched=sum([tally.mismatched for tally in tallies]),
            excess=sum([tally.excess for tally in tallies]),
            dropped=sum([source.dropped for source in sources]),
        )

    def sent(self, relay: str) -> StoredFrames:
        """Return what one relay sent for a stored query, in the relay's order.

        The result includes bad events.
        """
        source = self.sources[relay]
        tally = source.tally
        stamps = tuple(tally.stamps)
        return StoredFrames(
            stamps=stamps,
            limit=cutting_limit(source.filters),
            excess=tally.frames - len(stamps),
            hint=tally.hint,
        )

    async def close(self) -> None:
        """Send CLOSE if the subscription is open, and drop the queued events. The method never
        waits.
        """
        self._queue.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()
