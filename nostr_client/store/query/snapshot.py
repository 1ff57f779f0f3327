"""Answer several questions from one snapshot of a store, and yield large answers page by page."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from nostr_client.store.index import hot
from nostr_client.store.query import aggregate, select

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from nostr_client.codecs.event import Event
    from nostr_client.codecs.filters import Filter
    from nostr_client.store.query.select import QueryContext


class Snapshot:
    """The queries of `EventStore`, answered synchronously inside one read transaction.

    A Snapshot is valid only during the call of `EventStore.snapshot` that made it.
    """

    def __init__(self, conn: sqlite3.Connection, context: QueryContext) -> None:
        self._conn = conn
        self._context = context

    def query(self, filters: Sequence[Filter]) -> list[Event]:
        """Return the events that match any filter, newest first. Raises InvalidFilter."""
        return select.events(self._conn, self._context, filters)

    def count(self, filters: Sequence[Filter]) -> int:
        """Return how many distinct events match. Raises InvalidFilter."""
        if len(filters) == 1:
            return hot.count(self._conn, self._context, filters[0])
        return aggregate.count(self._conn, self._context, filters)

    def kinds(self) -> list[int]:
        """Return the stored kinds in ascending order."""
        return aggregate.held_kinds(self._conn)

    def registers(self, filter: Filter) -> bytes:
        """Return the HLL registers of the authors of matching events. Raises InvalidFilter."""
        return hot.registers(self._conn, self._context, filter)


if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from nostr_client.codecs.event import Event
    from nostr_client.codecs.filters import Filter
    from nostr_client.store.query.select import QueryPage

    ReadPage = Callable[[int, str], Awaitable[list[Event]]]
    Fetch = Callable[[Filter, frozenset[str]], Awaitable[QueryPage]]
    """Reads the newest page of a filter that has a limit, without some ids."""

PAGE = 1_000
"""Most events that are read at once. `fetch` bounds their bytes."""


async def stream(fetch: Fetch, filters: Sequence[Filter]) -> AsyncIterator[Event]:
    """Yield the events that match any filter, each once, newest first, then by id.

    Keeps no event after yielding it.
    """
    sources = [_Source(fetch, filter) for filter in filters]
    for source in sources:
        await source.load()
    while orders := [source.order for source in sources if source.order is not None]:
        first = min(orders)
        same = [source for source in sources if source.order == first]
        for source in same[1:]:
            source.take()
        yield same[0].take()
        for source in same:
            await source.load()


async def ascending(read: ReadPage, filters: Sequence[Filter]) -> AsyncIterator[Event]:
    """Yield the events that match any filter, oldest first, then by id.

    Without filters, yields all events. `read` returns a page of the events after a time and id. The
    filters are compared with every event that is read.
    """
    after = (-1, "")
    while page := await read(*after):
        for event in page:
            if not filters or any(filter.matches(event) for filter in filters):
                yield event
        after = (page[-1].created_at, page[-1].id)


class _Source:
    """Events of one filter in order.

    Each page begins at the last second of the page before.
    """

    def __init__(self, fetch: Fetch, filter: Filter) -> None:
        self._fetch = fetch
        self._filter = filter
        self._left = filter.limit
        self._page: deque[Event] = deque()
        self._last: int | None = None
        self._tied: frozenset[str] = frozenset()
        """Ids of the events of that second which have been yielded."""
        self._more = True

    @property
    def order(self) -> tuple[int, str] | None:
        """Sort key of the next loaded event, or None at the end."""
        if not self._page:
            return None
        return -self._page[0].created_at, self._page[0].id

    async def load(self) -> None:
        """Load the next event, if there is one."""
        while not self._page and self._more and self._left != 0:
            await self._turn()
        if self._left == 0:
            self._page.clear()

    def take(self) -> Event:
        """Remove the next event and return it."""
        if self._left is not None:
            self._left -= 1
        return self._page.popleft()

    async def _turn(self) -> None:
        wanted = PAGE if self._left is None else min(PAGE, self._left)
        asked = self._filter.replace(limit=wanted + len(self._tied))
        page = await self._fetch(asked, self._tied)
        self._more = page.more
        self._page.extend(page.events)
        if page.more:
            self._tied = page.tied | (self._tied if page.last == self._last else frozenset())
            self._last = page.last
            self._filter = self._filter.replace(until=page.last)
