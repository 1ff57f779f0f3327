"""Define `EventQueue`, the bounded queue between the relays and the reader of one subscription.

Relays put raw events in, and the reader takes them out. The reader decides what happens if the
queue is full. `Overflow.WAIT` stops reading from the relay. No event is lost, and other requests of
that connection wait too. `Overflow.DROP` counts and drops the newest event. Under DROP, stored
events also wait, as long as the reader takes events.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING

import msgspec

from nostr_client.codecs.event import Event
from nostr_client.codecs.filters import Filter
from nostr_client.errors import InvalidFilter, RelayError
from nostr_client.network.waiting import Gate
from nostr_client.protocol import SubscriptionTally

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nostr_client.options import Limits

Resubscribe = Callable[[str, "Sequence[Filter]"], "Sequence[Filter]"]
"""Returns the next filters for a relay after a reconnect, from its URL and its earlier filters."""

_PATIENCE = 5.0  # seconds that a reader may be busy before DROP drops stored events too
_REMEMBERED = 20_000  # ids that a subscription remembers, because a reconnect repeats stored events
_QUEUE_BYTES_PER_EVENT = 16 * 1024  # mean bytes for a queued event; few events are larger


class Overflow(StrEnum):
    """What to do if the reader is slower than the relay."""

    WAIT = "wait"
    DROP = "drop"


def as_filters(filters: Filter | Sequence[Filter]) -> tuple[Filter, ...]:
    """Return one filter or several as a tuple. Raises InvalidFilter for none.

    Filters that match nothing are dropped beside others, because some relays read `[]` as "any".
    """
    given = (filters,) if isinstance(filters, Filter) else tuple(filters)
    if not given:
        raise InvalidFilter("a request needs at least one filter")
    return tuple(one for one in given if not one.matches_nothing) or given


class QueuedEvent(msgspec.Struct, frozen=True):
    """One raw event. It matches the filter, but its id and signature are not verified."""

    relay: str
    event: Event
    size: int
    """Bytes of the event's frame."""


class SubscriptionSource(msgspec.Struct):
    """What one relay contributed to a subscription."""

    tally: SubscriptionTally
    filters: tuple[Filter, ...]
    """The filters that this relay got."""
    asked: bool = False
    stored_end: bool = False
    ended: bool = False
    error: RelayError | None = None
    delivered: int = 0
    duplicates: int = 0
    invalid: int = 0
    """Number of events with an invalid id or signature."""
    dropped: int = 0
    """Number of events lost because the queue was full."""


class EventQueue:
    """Raw events of one subscription on one relay or many. The reader gets each id once.

    `live`: the subscription continues after EOSE. `overflow`: by default DROP if it is live, else
    WAIT. After a reconnect `resubscribe(relay, filters)` returns the next filters for that relay.
    Without `resubscribe` the filters stay the same.
    """

    def __init__(
        self,
        filters: Filter | Sequence[Filter],
        limits: Limits,
        *,
        live: bool = True,
        overflow: Overflow | None = None,
        resubscribe: Resubscribe | None = None,
    ) -> None:
        self.filters = as_filters(filters)
        self.live = live
        self.overflow = overflow or (Overflow.DROP if live else Overflow.WAIT)
        self.resubscribe = resubscribe
        self.sources: dict[str, SubscriptionSource] = {}
        self.closed = False
        self._most = limits.queue
        self._most_bytes = max(limits.queue * _QUEUE_BYTES_PER_EVENT, limits.message_bytes_in)
        self._queue: deque[QueuedEvent] = deque()
        self._queued_bytes = 0
        self._ration: int | None = None
        self._offered_bytes = 0
        self._unread = False  # the queue is full for long, and the reader takes nothing
        self._delivered: OrderedDict[str, None] = OrderedDict()
        self._gate = Gate()
        self._detach: list[Callable[[], None]] = []

    def __len__(self) -> int:
        return len(self._queue)

    # The relay's side.

    def attach(self, relay: str, tally: SubscriptionTally, detach: Callable[[], None]) -> None:
        """Add a relay. `detach` is called once, when the reader closes the queue."""
        self.sources[relay] = SubscriptionSource(tally, self.filters)
        self._detach.append(detach)

    def question(self, relay: str) -> tuple[Filter, ...]:
        """Return the filters for a relay: the queue's filters first, later the result of
        `resubscribe`.
        """
        source = self.sources[relay]
        if source.asked and self.resubscribe is not None:
            source.filters = tuple(self.resubscribe(relay, source.filters))
        source.asked = True
        return source.filters

    def offer(self, item: QueuedEvent) -> bool:
        """Queue one event, or count why not. Return False if the relay must wait for room."""
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

    async def put(self, item: QueuedEvent) -> None:
        """Queue one event and wait for room. Also returns when the reader closes the queue."""
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
        """Note EOSE from one relay."""
        self.sources[relay].stored_end = True
        self._gate.wake()

    def mark_ended(self, relay: str, error: RelayError | None) -> None:
        """Note that no more events come from one relay."""
        source = self.sources[relay]
        source.ended, source.error = True, error
        source.stored_end = source.stored_end or error is None
        self._gate.wake()

    # The reader's side.

    def ration(self, size: int) -> None:
        """Accept no event after `size` bytes of events.

        The relay then waits until the queue closes.
        """
        self._ration = size

    async def take(self, most: int) -> list[QueuedEvent]:
        """Take at most `most` events, and wait for the first.

        Return [] at the end. Safe to cancel.
        """
        await self._gate.wait(lambda: self._queue or self.over)
        self._unread = False
        taken = [self._queue.popleft() for _ in range(min(most, len(self._queue)))]
        self._queued_bytes -= sum(item.size for item in taken)
        self._gate.wake()
        return taken

    def put_back(self, taken: list[QueuedEvent]) -> None:
        """Put events that were taken but not used back to the front of the queue."""
        if not self.closed:
            self._queue.extendleft(reversed(taken))
            self._queued_bytes += sum(item.size for item in taken)

    def was_delivered(self, event_id: str) -> bool:
        """Return True if the reader has taken the event with this id."""
        return event_id in self._delivered

    def deliver(self, item: QueuedEvent) -> None:
        """Count an event as delivered, and remember its id."""
        self.sources[item.relay].delivered += 1
        self._delivered[item.event.id] = None
        if len(self._delivered) > _REMEMBERED:
            self._delivered.popitem(last=False)

    async def stored(self) -> None:
        """Wait until every relay sent EOSE or ended, or the queue is closed."""
        await self._gate.wait(lambda: self.closed or self._all_stored())

    def _all_stored(self) -> bool:
        return all(source.stored_end or source.ended for source in self.sources.values())

    @property
    def over(self) -> bool:
        """True if no relay can add events."""
        return self.closed or all(source.ended for source in self.sources.values())

    def close(self) -> None:
        """Detach every relay, which sends CLOSE, and empty the queue."""
        if self.closed:
            return
        self.closed = True
        detaching, self._detach = self._detach, []
        for detach in detaching:
            detach()
        self._queue.clear()
        self._queued_bytes = 0
        self._gate.wake()
