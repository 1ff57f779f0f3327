"""One snapshot of a store: answers that belong together, and large ones page by page."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from nostr_client.store import aggregate, hot, select

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from nostr_client.codecs.event import Event
    from nostr_client.codecs.filters import Filter
    from nostr_client.store.select import QueryContext


class Snapshot:
    """Questions of `EventStore` by their names, asked of one read transaction, without waiting.

    It is good for as long as the call of `EventStore.snapshot` that made it.
    """

    def __init__(self, conn: sqlite3.Connection, context: QueryContext) -> None:
        self._conn = conn
        self._context = context

    def query(self, filters: Sequence[Filter]) -> list[Event]:
        """The events of a union, newest first. Raises InvalidFilter."""
        return select.events(self._conn, self._context, filters)

    def count(self, filters: Sequence[Filter]) -> int:
        """How many distinct events match. Raises InvalidFilter."""
        if len(filters) == 1:
            return hot.count(self._conn, self._context, filters[0])
        return aggregate.count(self._conn, self._context, filters)

    def kinds(self) -> list[int]:
        """The kinds that are held, ascending."""
        return aggregate.held_kinds(self._conn)

    def registers(self, filter: Filter) -> bytes:
        """The HLL registers of what matches. Raises InvalidFilter."""
        return hot.registers(self._conn, self._context, filter)


if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from nostr_client.codecs.event import Event
    from nostr_client.codecs.filters import Filter
    from nostr_client.store.select import QueryPage

    ReadPage = Callable[[int, str], Awaitable[list[Event]]]
    Fetch = Callable[[Filter, frozenset[str]], Awaitable[QueryPage]]
    """The newest page of a filter, which has a limit, without some ids."""

PAGE = 1_000
"""Events read at once at most; `fetch` bounds their bytes."""


async def stream(fetch: Fetch, filters: Sequence[Filter]) -> AsyncIterator[Event]:
    """What matches any filter, each once, newest first, then by id.

    An event that was given is not stored here: only a slow reader has it in memory.
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
    """What matches any filter, or everything without one, oldest first, then by id.

    `read` gives a page of what comes after a time and id; a filter that is left over costs a
    look at each event.
    """
    after = (-1, "")
    while page := await read(*after):
        for event in page:
            if not filters or any(filter.matches(event) for filter in filters):
                yield event
        after = (page[-1].created_at, page[-1].id)


class _Source:
    """One filter's events in order: the next page begins at the last second of this one."""

    def __init__(self, fetch: Fetch, filter: Filter) -> None:
        self._fetch = fetch
        self._filter = filter
        self._left = filter.limit
        self._page: deque[Event] = deque()
        self._last: int | None = None
        self._tied: frozenset[str] = frozenset()
        """Ids already given of the second at which the next page begins."""
        self._more = True

    @property
    def order(self) -> tuple[int, str] | None:
        """Where the next event stands, once it is loaded; None at the end."""
        if not self._page:
            return None
        return -self._page[0].created_at, self._page[0].id

    async def load(self) -> None:
        """Have the next event at hand, if there is one."""
        while not self._page and self._more and self._left != 0:
            await self._turn()
        if self._left == 0:
            self._page.clear()

    def take(self) -> Event:
        """Give the next event away."""
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
