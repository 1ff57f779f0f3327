"""Events of one subscription, on one relay or on many: a bounded queue with statistics.

A relay puts raw events in; the reader takes verified events, each id once. The reader decides what
a full queue means: `Overflow.WAIT` stops reading from the relay (nothing is lost, and the rest of
that connection waits too), `Overflow.DROP` counts and drops the newest. Stored events wait under
DROP too, as long as somebody reads.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Self

import msgspec

from nostr_client.codecs.event import Event
from nostr_client.codecs.filters import Filter
from nostr_client.codecs.keys import VerifiedEvent
from nostr_client.errors import RelayError
from nostr_client.network.waiting import Gate
from nostr_client.protocol import Sent, Tally
from nostr_client.protocol.state import wanted_events

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from types import TracebackType

    from nostr_client.errors import InvalidEvent
    from nostr_client.network.verifier import Verifier
    from nostr_client.options import Limits

Resubscribe = Callable[[str, "Sequence[Filter]"], "Sequence[Filter]"]

_PATIENCE = 5.0  # seconds that a reader may be busy before DROP drops stored events too
_REMEMBERED = 20_000  # ids a subscription knows again: a reconnect repeats what was stored
_QUEUE_BYTES_PER_EVENT = 16 * 1024  # mean room for a queued event; few are larger


class Overflow(StrEnum):
    """What to do when the reader is slower than the relay."""

    WAIT = "wait"
    DROP = "drop"


class Received(msgspec.Struct, frozen=True):
    """One raw event: it matched the filter, and nothing else is known about it."""

    relay: str
    event: Event
    size: int
    """Length of its frame in characters."""


class Source(msgspec.Struct):
    """What one relay contributed to a subscription."""

    tally: Tally
    filters: tuple[Filter, ...]
    """What this relay was asked for."""
    asked: bool = False
    stored_end: bool = False
    ended: bool = False
    error: RelayError | None = None
    delivered: int = 0
    duplicates: int = 0
    invalid: int = 0
    """Events whose id or signature does not hold."""
    dropped: int = 0
    """Events lost because the queue was full."""


class SubscriptionStats(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot: what came, and what became of it. Bytes are characters of frames."""

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
    """An async iterator of verified events; made by `Relay.subscribe` and `RelayPool.subscribe`.

    Ends when every relay ended; raises the RelayError when the only relay refused, and after the
    queue is empty. Use it as a context manager, or `close()` it: both send CLOSE. After a reconnect
    `resubscribe(relay, filters)` says what to ask that relay for; by default the same again.
    """

    def __init__(
        self,
        filters: Sequence[Filter],
        verifier: Verifier,
        limits: Limits,
        *,
        live: bool = True,
        overflow: Overflow = Overflow.WAIT,
        resubscribe: Resubscribe | None = None,
    ) -> None:
        self.filters = tuple(filters)
        self.live = live
        self.overflow = overflow
        self.resubscribe = resubscribe
        self.sources: dict[str, Source] = {}
        self.closed = False
        self._verifier = verifier
        self._chunk = 2 * limits.verify_chunk  # two threads have work at once
        self._most = limits.queue
        self._most_bytes = max(limits.queue * _QUEUE_BYTES_PER_EVENT, limits.message_bytes_in)
        self._queue: deque[Received] = deque()
        self._queued_bytes = 0
        self._ration: int | None = None
        self._offered_bytes = 0
        self._unread = False  # the queue has been full for long and nobody takes from it
        self._ready: deque[VerifiedEvent] = deque()
        self._delivered: OrderedDict[str, None] = OrderedDict()
        self._gate = Gate()
        self._detach: list[Callable[[], None]] = []

    # The relay's side.

    def attach(self, relay: str, tally: Tally, detach: Callable[[], None]) -> None:
        """A relay takes part; `detach` is called once, when the reader closes."""
        self.sources[relay] = Source(tally, self.filters)
        self._detach.append(detach)

    def question(self, relay: str) -> tuple[Filter, ...]:
        """What to ask a relay for: at first the filters, then what `resubscribe` makes of them."""
        source = self.sources[relay]
        if source.asked and self.resubscribe is not None:
            source.filters = tuple(self.resubscribe(relay, source.filters))
        source.asked = True
        return source.filters

    def offer(self, item: Received) -> bool:
        """Queue one event, or count why not; False when the relay has to wait for room."""
        source = self.sources[item.relay]
        if self.closed:
            return True
        if item.event.id in self._delivered:
            source.duplicates += 1
        elif not self._full():
            self._queue.append(item)
            self._queued_bytes += item.size
            self._offered_bytes += item.size
            self._gate.wake()
        elif self.overflow is Overflow.DROP and (source.stored_end or self._unread):
            source.dropped += 1
        else:
            return False
        return True

    async def put(self, item: Received) -> None:
        """Queue one event, waiting for room; returns when the reader closes."""
        while not self.offer(item):
            patience = _PATIENCE if self.overflow is Overflow.DROP else None
            try:
                async with asyncio.timeout(patience):
                    await self._gate.wait(lambda: self.closed or not self._full())
            except TimeoutError:
                self._unread = True

    def _full(self) -> bool:
        if self._ration is not None and self._offered_bytes >= self._ration:
            return True
        return len(self._queue) >= self._most or self._queued_bytes >= self._most_bytes

    def mark_stored_end(self, relay: str) -> None:
        """EOSE from one relay."""
        self.sources[relay].stored_end = True
        self._gate.wake()

    def mark_ended(self, relay: str, error: RelayError | None) -> None:
        """No more events from one relay."""
        source = self.sources[relay]
        source.ended, source.error = True, error
        source.stored_end = source.stored_end or error is None
        self._gate.wake()

    # The reader's side.

    def ration(self, size: int) -> None:
        """Take no event in once `size` bytes of them came: the relay waits until this is closed."""
        self._ration = size

    async def received(self, most: int = 256) -> list[Received]:
        """Take raw events as they came, at most `most`, waiting for one; [] when it is over.

        For whoever verifies by himself; do not mix with the other readers. Safe to cancel.
        """
        await self._gate.wait(lambda: self._queue or self._over())
        self._unread = False
        taken = [self._queue.popleft() for _ in range(min(most, len(self._queue)))]
        self._queued_bytes -= sum(item.size for item in taken)
        self._gate.wake()
        return taken

    async def batch(self) -> list[VerifiedEvent]:
        """Take verified events, two chunks at most; waits for one; [] when it is over.

        Safe to cancel: events taken from the queue and not yet verified go back.
        """
        while True:
            taken = await self.received(self._chunk)
            if not taken:
                return []
            try:
                verified = await self._verified(taken)
            except asyncio.CancelledError:
                self._put_back(taken)
                raise
            if verified:
                return verified

    def _put_back(self, taken: list[Received]) -> None:
        if not self.closed:
            self._queue.extendleft(reversed(taken))
            self._queued_bytes += sum(item.size for item in taken)

    async def _verified(self, taken: list[Received]) -> list[VerifiedEvent]:
        fresh = [item for item in taken if item.event.id not in self._delivered]
        results = await self._verifier.verify([item.event for item in fresh])
        for item in taken:  # only delivered ids count: a forged event must not hide the true one
            self.sources[item.relay].duplicates += item.event.id in self._delivered
        return [
            found
            for item, one in zip(fresh, results, strict=True)
            if (found := self._judge(item, one))
        ]

    def _judge(self, item: Received, result: VerifiedEvent | InvalidEvent) -> VerifiedEvent | None:
        source = self.sources[item.relay]
        if not isinstance(result, VerifiedEvent):
            source.invalid += 1
            return None
        if item.event.id in self._delivered:  # twice in one chunk
            source.duplicates += 1
            return None
        self._remember(item)
        return result

    def _remember(self, item: Received) -> None:
        self.sources[item.relay].delivered += 1
        self._delivered[item.event.id] = None
        if len(self._delivered) > _REMEMBERED:
            self._delivered.popitem(last=False)

    async def stored(self) -> None:
        """Wait until every relay sent EOSE or ended."""
        await self._gate.wait(lambda: self.closed or self._all_stored())

    def _all_stored(self) -> bool:
        return all(source.stored_end or source.ended for source in self.sources.values())

    def _over(self) -> bool:
        return self.closed or all(source.ended for source in self.sources.values())

    @property
    def error(self) -> RelayError | None:
        """Why it ended, when every relay ended with an error; the first one's."""
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

    def statistics(self) -> SubscriptionStats:
        """What came over all relays; `sources` has it for each."""
        sources = list(self.sources.values())
        tallies = [source.tally for source in sources]
        return SubscriptionStats(
            frames=sum(tally.frames for tally in tallies),
            bytes=sum(tally.bytes for tally in tallies),
            delivered=sum(source.delivered for source in sources),
            queued=len(self._queue),
            duplicates=sum(source.duplicates for source in sources),
            invalid=sum(source.invalid for source in sources),
            malformed=sum(tally.malformed for tally in tallies),
            mismatched=sum(tally.mismatched for tally in tallies),
            excess=sum(tally.excess for tally in tallies),
            dropped=sum(source.dropped for source in sources),
        )

    def sent(self, relay: str) -> Sent:
        """What a relay sent for this stored query, in its order, good and bad; see `Sent`."""
        source = self.sources[relay]
        tally = source.tally
        stamps = tuple(tally.stamps)
        return Sent(
            stamps=stamps,
            limit=wanted_events(source.filters),
            excess=tally.frames - len(stamps),
            hint=tally.hint,
        )

    def close(self) -> None:
        """Send CLOSE where it is open, and let go of the queue."""
        if self.closed:
            return
        self.closed = True
        for detach in self._detach:
            detach()
        self._queue.clear()
        self._queued_bytes = 0
        self._gate.wake()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
