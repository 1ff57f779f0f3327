"""Reading the events behind a query from one relay, within a budget of bytes and events.

Nothing of an event is kept but its id and its author, 32 bytes each.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from nostr_client.count.paging import Pager
from nostr_client.keys import VerifiedEvent, verify_many
from nostr_client.merge import Reading

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nostr_client.event import Event
    from nostr_client.filters import Filter
    from nostr_client.options import ReadBudget
    from nostr_client.relay import Relay
    from nostr_client.subscription import Subscription


class Reader:
    """Reads all filters of a query from one relay; what it found so far can be taken any time."""

    def __init__(
        self, relay: Relay, filters: Sequence[Filter], budget: ReadBudget, silence: float
    ) -> None:
        """`silence`: seconds without an event after which a page counts as given up."""
        self._relay = relay
        self._filters = filters
        self._budget = budget
        self._silence = silence
        self._authors: set[bytes] = set()
        self._events: set[bytes] = set()
        self._bytes_before = 0
        self._frames_before = 0
        self._open: Subscription | None = None
        self._invalid = 0
        self.complete = False
        self.cut = False
        self.warnings: list[str] = []

    @property
    def events_read(self) -> int:
        """Frames with events that came, good or bad."""
        return self._frames_before + (self._open.statistics().frames if self._open else 0)

    @property
    def bytes_read(self) -> int:
        """Size of those frames."""
        return self._bytes_before + (self._open.statistics().bytes if self._open else 0)

    @property
    def found(self) -> int:
        """Distinct events that match and hold."""
        return len(self._events)

    def reading(self) -> Reading:
        """What was found so far, as a value."""
        authors, events = frozenset(self._authors), frozenset(self._events)
        return Reading(authors=authors, events=events, complete=self.complete)

    async def read(self) -> None:
        """Read to the end or to the budget. Raises RelayError; safe to cancel."""
        done = [await self._walk(f) for f in self._filters]
        self.complete = all(done) and not self.cut
        if self._invalid:
            self.warnings.append(f"read: {self._invalid} events that do not hold were left out")

    async def _walk(self, filter: Filter) -> bool:
        pager = Pager(filter)
        while not self.cut and (asked := pager.next_filter()):
            await self._page(asked, pager)
        if pager.dense:
            count = len(pager.dense)
            self.warnings.append(f"read: {count} seconds hold more events than a page, incomplete")
        if pager.stalled:
            self.warnings.append("read: the relay does not page by until, incomplete")
        return pager.complete

    async def _page(self, asked: Filter, pager: Pager) -> None:
        """One REQ until its EOSE, or until the budget is spent."""
        left = self._budget.events - self.events_read
        limited = asked.replace(limit=min(asked.limit or left, max(left, 1)))
        before = len(self._events)
        times: list[int] = []
        with self._relay.subscribe([limited], live=False) as page:
            self._open = page
            try:
                while not self.cut and (batch := await self._batch(page)):
                    times = _ends(times + [self._take(item.event) for item in batch])
                    self._check_budget()
                if self.cut:
                    await self._drain(page)
                stats = page.statistics()
            finally:
                self._close(page)
        if not self.cut:
            if page.error is not None:
                raise page.error
            oldest, newest = (times[0], times[-1]) if times else (None, None)
            pager.turn(stats.frames, len(self._events) - before, oldest, newest)

    async def _batch(self, page: Subscription) -> Sequence[VerifiedEvent]:
        async with asyncio.timeout(self._silence):
            return await page.batch()

    async def _drain(self, page: Subscription) -> None:
        """Take what had come when the budget was spent: it was paid for."""
        queued = page.statistics().queued
        room = min(queued, self._budget.events - len(self._events))
        if room > 0:
            taken = await page.received(room)
            results = await asyncio.to_thread(verify_many, [item.event for item in taken])
            for result in results:
                if isinstance(result, VerifiedEvent):
                    self._take(result.event)

    def _take(self, event: Event) -> int:
        self._authors.add(bytes.fromhex(event.pubkey))
        self._events.add(bytes.fromhex(event.id))
        return event.created_at

    def _check_budget(self) -> None:
        over_bytes = self.bytes_read >= self._budget.bytes
        if over_bytes or self.events_read >= self._budget.events:
            self.cut = True
            kind = f"{self._budget.bytes} bytes" if over_bytes else f"{self._budget.events} events"
            self.warnings.append(f"read: stopped at the budget of {kind}: a lower bound")

    def _close(self, page: Subscription) -> None:
        stats = page.statistics()
        self._open = None
        self._frames_before += stats.frames
        self._bytes_before += stats.bytes
        self._invalid += stats.invalid


def _ends(times: list[int]) -> list[int]:
    """The oldest and the newest of these times."""
    return [min(times), max(times)]
