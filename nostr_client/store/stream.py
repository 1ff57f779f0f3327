"""Large answers page by page: constant memory, and no read transaction held open in between."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from nostr_client.event import Event
    from nostr_client.filters import Filter
    from nostr_client.store.select import Page

    ReadPage = Callable[[int, str], Awaitable[list[Event]]]
    Fetch = Callable[[Filter, frozenset[str]], Awaitable[Page]]
    """The newest page of a filter, which has a limit, without some ids."""

PAGE = 1_000
"""Events read at once at most; `fetch` bounds their bytes."""


async def stream(fetch: Fetch, filters: Sequence[Filter]) -> AsyncIterator[Event]:
    """What matches any filter, each once, newest first, then by id."""
    sources = [_Source(fetch, filter) for filter in filters]
    heads = [(await source.next(), source) for source in sources]
    while live := [(_order(head), head, source) for head, source in heads if head is not None]:
        _, first, _ = min(live, key=lambda item: item[0])
        yield first
        heads = [
            (await source.next() if head == first else head, source) for _, head, source in live
        ]


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


def _order(event: Event) -> tuple[int, str]:
    return -event.created_at, event.id


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

    async def next(self) -> Event | None:
        if self._left == 0:
            return None
        while not self._page:
            if not self._more:
                return None
            await self._turn()
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
