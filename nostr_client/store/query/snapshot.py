"""Answer several questions from one snapshot of a store, and yield large answers page by page."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Generic, TypeVar

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

    def figures(self, filter: Filter) -> tuple[int, bytes]:
        """Return `count` and `registers` of one filter by one pass. Raises InvalidFilter."""
        return hot.figures(self._conn, self._context, filter)


E = TypeVar("E", "Event", "JsonEvent")

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from nostr_client.codecs.event import Event
    from nostr_client.codecs.filters import Filter
    from nostr_client.store.query.select import QueryPage
    from nostr_client.store.rows import JsonEvent

    ReadPage = Callable[[int, str], Awaitable[list[Event]]]
    Fetch = Callable[[Filter, frozenset[str]], Awaitable[QueryPage[E]]]
    """Reads the newest page of a filter that has a limit, without some ids."""

PAGE = 1_000
"""Most events that are read at once. `fetch` bounds their bytes."""

LEAST = 16
"""Least events that are asked for at once, however few the last page had room for."""


async def stream(fetch: Fetch[Event], filters: Sequence[Filter]) -> AsyncIterator[Event]:
    """Yield the events that match any filter, each once, newest first, then by id.

    Keeps no event after yielding it.
    """
    async for page in pages(fetch, filters):
        page.reverse()
        while page:
            yield page.pop()


async def pages(fetch: Fetch[E], filters: Sequence[Filter]) -> AsyncIterator[list[E]]:
    """Yield lists of the events that match any filter, each once, newest first, then by id.

    One filter gives one page of `fetch` at a time, several give what their pages have together.
    Keeps no event after yielding it.
    """
    sources = [_Source(fetch, filter) for filter in filters]
    while True:
        for source in sources:
            await source.load()
        taken = sources[0].take_all() if len(sources) == 1 else _merged(sources)
        if not taken:
            return
        yield taken
        del taken


def _merged(sources: Sequence[_Source[E]]) -> list[E]:
    """Take the first events of all sources, in order, until one of them has to read a page."""
    taken: list[E] = []
    while all(source.is_loaded for source in sources):
        orders = [source.order for source in sources if source.order is not None]
        if not orders:
            break
        first = min(orders)
        same = [source.take() for source in sources if source.order == first]
        taken.append(same[0])
    return taken


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


class _Source(Generic[E]):
    """Events of one filter in order.

    Each page begins at the last second of the page before.
    """

    def __init__(self, fetch: Fetch[E], filter: Filter) -> None:
        self._fetch: Fetch[E] = fetch
        self._filter = filter
        self._left = filter.limit
        self._most = PAGE
        """Events to ask for: twice as many as the bytes of the last page had room for."""
        self._page: deque[E] = deque()
        self._last: int | None = None
        self._tied: frozenset[str] = frozenset()
        """Ids of the events of that second which have been yielded."""
        self._more = True

    @property
    def is_loaded(self) -> bool:
        """Whether the next event is known: it is loaded, or there is none."""
        return bool(self._page) or not self._more or self._left == 0

    @property
    def order(self) -> tuple[int, str] | None:
        """Sort key of the next loaded event, or None at the end."""
        if not self._page:
            return None
        return -self._page[0].created_at, self._page[0].id

    async def load(self) -> None:
        """Load the next event, if there is one."""
        while not self.is_loaded:
            await self._turn()
        if self._left == 0:
            self._page.clear()

    def take(self) -> E:
        """Remove the next event and return it."""
        if self._left is not None:
            self._left -= 1
        return self._page.popleft()

    def take_all(self) -> list[E]:
        """Remove the loaded events, up to the limit, and return them."""
        taken = list(self._page)[: self._left]
        self._page.clear()
        if self._left is not None:
            self._left -= len(taken)
        return taken

    async def _turn(self) -> None:
        wanted = self._most if self._left is None else min(self._most, self._left)
        asked = self._filter.replace(limit=wanted + len(self._tied))
        page = await self._fetch(asked, self._tied)
        self._most = min(PAGE, max(LEAST, 2 * page.read))
        self._more = page.more
        self._page.extend(page.events)
        if page.more:
            self._tied = page.tied | (self._tied if page.last == self._last else frozenset())
            self._last = page.last
            self._filter = self._filter.replace(until=page.last)
