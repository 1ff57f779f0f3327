"""Which stretches of time are reconciled in one session each, and how they are cut smaller. Pure.

A window is a filter, with `since` and `until`, and the local items that match it. Windows of one
filter do not overlap and leave nothing out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from nostr_client.filters import Filter
from nostr_client.sync.items import Items

if TYPE_CHECKING:
    from collections.abc import Sequence


BIRTH: Final = 1_604_188_800
"""Unix seconds: November 2020, when the first events of Nostr were written."""


class Window(msgspec.Struct, frozen=True):
    """What one session reconciles. `query` is sent: the filter, or the id of a filter event."""

    filter: Filter
    items: Items
    halved: int = 0
    """How often it was halved to get here."""
    tries: int = 0
    """Attempts that failed by the connection or by the relay."""
    event_id: str | None = None

    @property
    def query(self) -> Filter | str:
        return self.event_id or self.filter

    def again(self) -> Window:
        """The same window after a failed attempt."""
        return msgspec.structs.replace(self, tries=self.tries + 1)

    def fresh(self) -> Window:
        """The same window after an attempt that got further."""
        return msgspec.structs.replace(self, tries=0)


def plan(filter: Filter, items: Items, size: int) -> list[Window]:
    """Windows of about `size` local items, oldest first; equal timestamps stay together."""
    cuts: list[int] = []
    for at in range(size, len(items) - size // 2, size):
        stamp = items.stamp(at)
        if stamp > (cuts[-1] if cuts else filter.since or items.stamp(0)):
            cuts.append(stamp)
    return _cut(filter, items, cuts, 0)


def halve(window: Window, now: int, most: int | None = None) -> list[Window]:
    """The window cut by time, oldest first; [] when it is one second long.

    `most`: how many records the relay works through. `now` is the end of an open window, Unix
    seconds. Local items show where events are; every second cut goes by time alone, as the relay's
    may be elsewhere.
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
    """Half of the time, but first of all the years before Nostr, which hold next to nothing."""
    middle = (since + last + 1) // 2
    return BIRTH if since < BIRTH <= last and middle < BIRTH else middle


def _by_items(window: Window, most: int | None) -> list[int]:
    count = len(window.items)
    if count < 2:
        return []
    parts = 2 if not most or count <= most else min(64, 1 + 2 * count // most)
    return sorted({window.items.stamp(count * part // parts) for part in range(1, parts)})


def _cut(filter: Filter, items: Items, cuts: Sequence[int], halved: int) -> list[Window]:
    starts = [filter.since, *cuts]
    ends = [*(cut - 1 for cut in cuts), filter.until]
    windows = []
    for since, until in zip(starts, ends, strict=True):
        part = filter.replace(since=since, until=until)
        windows.append(Window(part, items.between(since, until), halved))
    return windows


def split_values(filter: Filter) -> list[Filter]:
    """Two filters that match the same together, by kinds, else authors, tags, ids; else []."""
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
