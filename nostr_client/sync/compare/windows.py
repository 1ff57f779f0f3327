"""Choose the time windows that are reconciled in one session each, and cut them smaller. Pure.

A window is a filter with `since` and `until`, and the local items that match it. Windows of one
filter do not overlap and leave nothing out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from nostr_client.codecs.filters import Filter
from nostr_client.errors import RelayError
from nostr_client.network.paging.pager import PAGE
from nostr_client.sync.compare.items import Items

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nostr_client.codecs.event import Event
    from nostr_client.network.paging.page import EventPage
    from nostr_client.network.relay import Relay
    from nostr_client.sync.options import SyncOptions


BIRTH: Final = 1_604_188_800
"""Unix seconds: November 2020, the time of the first events of Nostr."""


class SyncWindow(msgspec.Struct, frozen=True):
    """Window that one session reconciles.

    `query` is sent: the filter, or the id of a filter event.
    """

    filter: Filter
    items: Items
    halved: int = 0
    """How often a window was halved to get this one."""
    tries: int = 0
    """Attempts that failed because of the connection or the relay."""
    event_id: str | None = None

    @property
    def query(self) -> Filter | str:
        return self.event_id or self.filter

    def again(self) -> SyncWindow:
        """Return the same window after a failed attempt."""
        return msgspec.structs.replace(self, tries=self.tries + 1)

    def fresh(self) -> SyncWindow:
        """Return the same window after an attempt that made progress."""
        return msgspec.structs.replace(self, tries=0)


def plan(filter: Filter, items: Items, size: int) -> list[SyncWindow]:
    """Return windows of about `size` local items, oldest first. Equal timestamps stay together."""
    cuts: list[int] = []
    for at in range(size, len(items) - size // 2, size):
        stamp = items.stamp(at)
        if stamp > (cuts[-1] if cuts else filter.since or items.stamp(0)):
            cuts.append(stamp)
    return _cut(filter, items, cuts, 0)


def halve(window: SyncWindow, now: int, most: int | None = None) -> list[SyncWindow]:
    """Return the window cut by time, oldest first, or [] if it is one second long.

    `most`: most records that the relay compares. `now` (Unix seconds) is the end of an open window.
    Local items show where events are. Every second cut ignores them, because the relay's events may
    be at other times.
    """
    since, until = window.filter.since or 0, window.filter.until
    newest = max(now, window.items.stamp(-1) if len(window.items) else 0)
    last = newest if until is None else until
    if last <= since:
        return []
    cuts = _by_items(window, most) if window.halved % 2 == 0 else []
    cuts = [cut for cut in cuts if since < cut <= last]
    return _cut(window.filter, window.items, cuts or [_middle(since, last)], window.halved + 1)


def _middle(since: int, last: int) -> int:
    """Return the middle of the time.

    Cuts off the years before Nostr first, which have few events.
    """
    middle = (since + last + 1) // 2
    return BIRTH if since < BIRTH <= last and middle < BIRTH else middle


def _by_items(window: SyncWindow, most: int | None) -> list[int]:
    count = len(window.items)
    if count < 2:
        return []
    parts = 2 if not most or count <= most else min(64, 1 + 2 * count // most)
    return sorted({window.items.stamp(count * part // parts) for part in range(1, parts)})


def _cut(filter: Filter, items: Items, cuts: Sequence[int], halved: int) -> list[SyncWindow]:
    starts = [filter.since, *cuts]
    ends = [*(cut - 1 for cut in cuts), filter.until]
    windows = []
    for since, until in zip(starts, ends, strict=True):
        part = filter.replace(since=since, until=until)
        windows.append(SyncWindow(part, items.between(since, until), halved))
    return windows


def split_values(filter: Filter) -> list[Filter]:
    """Return two filters that together match the same events, or [] for a filter without lists.

    Splits kinds, else authors, tags or ids.
    """
    for name in ("kinds", "authors"):
        halves = _halves(getattr(filter, name))
        if halves:
            return [filter.replace(**{name: half}) for half in halves]
    for name, values in sorted(filter.tags, key=lambda tag: -len(tag[1])):
        halves = _halves(values)
        if halves:
            return [filter.replace(tags={**dict(filter.tags), name: half}) for half in halves]
    return [filter.replace(ids=half) for half in _halves(filter.ids)]


def _halves(values: Sequence[Any] | None) -> list[Sequence[Any]]:
    if values is None or len(values) < 2:
        return []
    middle = len(values) // 2
    return [values[:middle], values[middle:]]


class WindowSchedule:
    """Windows of one relay, newest first.

    One window runs at a time until the relay has shown that it supports NIP-77. Then as many run as
    the relay allows.
    """

    def __init__(self, windows: Sequence[SyncWindow], options: SyncOptions) -> None:
        self._stack = list(windows)
        self._options = options
        self._allowed = 1
        self._crowded = False
        self._halvings = 0
        self._done = 0
        self.running = 0

    @property
    def over(self) -> bool:
        """Whether no window waits or runs."""
        return not self._stack and not self.running

    @property
    def ready(self) -> bool:
        """Whether a window may be started."""
        return bool(self._stack) and self.running < self._allowed

    def start(self) -> SyncWindow:
        """Start the next window and return it."""
        self.running += 1
        return self._stack.pop()

    def end(self) -> None:
        """Note that a running window has ended, with any result."""
        self.running -= 1

    def put(self, windows: Sequence[SyncWindow]) -> None:
        """Add windows, oldest first. They run before the windows that wait."""
        self._stack.extend(windows)

    def clear(self) -> list[SyncWindow]:
        """Remove and return all waiting windows."""
        taken, self._stack = self._stack, []
        return taken

    def succeeded(self) -> None:
        """Note that a window was compared to its end."""
        self._done += 1

    def speaks(self) -> None:
        """Note that the relay answered with negentropy.

        Several windows may run, unless it refused that.
        """
        if not self._crowded:
            self._allowed = self._options.in_flight

    def crowd(self) -> bool:
        """Run fewer windows at once, because the relay refused.

        Return False if only one was running.
        """
        alone = self.running <= 1
        self._crowded = True
        self._allowed = max(1, min(self._allowed, self.running) - 1)
        return not alone

    def may_halve(self) -> bool:
        """Count one more halving. Return False beyond the cap."""
        self._halvings += 1
        return self._halvings <= self._options.halvings + 2 * self._done


_VALUES: Final = 200
"""Most authors in one filter. Relays refuse more than some hundreds."""

UNPROVEN: Final = (
    "a second holds more events than the relay compares at once; of those, only the kinds and "
    "authors that were seen are compared"
)


class FilterParts(NamedTuple):
    """Filters for the kinds or authors that were seen.

    `all`: they match all events of the relays.
    """

    filters: list[Filter]
    all: bool


async def named_parts(
    filter: Filter, relays: Sequence[Relay], held: Iterable[Event] = ()
) -> FilterParts | None:
    """Split the filter of one second by kinds or authors that it left open.

    Return None if the filter has both, and if a page of REQ is enough. `held`: our events of that
    second.
    """
    if filter.kinds is not None and filter.authors is not None:
        return None
    pages = [await _page(relay, filter) for relay in relays]
    if all(page is not None and not page.sent.second_may_be_cut(0) for page in pages):
        return None
    seen = [*held, *[one.event for page in pages if page is not None for one in page.events]]
    if not seen:
        return None
    if filter.kinds is None:
        named = [filter.replace(kinds=sorted({event.kind for event in seen}))]
    else:
        authors = sorted({event.pubkey for event in seen})
        chunks = (authors[at : at + _VALUES] for at in range(0, len(authors), _VALUES))
        named = [filter.replace(authors=chunk) for chunk in chunks]
    shown = [await _hold_no_more(relay, filter, named) for relay in relays]
    return FilterParts(named, all(shown))


async def _page(relay: Relay, filter: Filter) -> EventPage | None:
    try:
        return await relay.fetch(filter.replace(limit=PAGE))
    except RelayError:
        return None


async def _hold_no_more(relay: Relay, filter: Filter, parts: Sequence[Filter]) -> bool:
    """Return True if the relay counts as many events for all parts together as for the filter."""
    if relay.capabilities.count is False:
        return False
    total = await _count(relay, filter)
    return bool(total) and total == sum([await _count(relay, part) or 0 for part in parts])


async def _count(relay: Relay, filter: Filter) -> int | None:
    try:
        answer = await relay.count(filter)
    except RelayError:
        return None
    return None if answer.approximate or answer.limited else answer.count
