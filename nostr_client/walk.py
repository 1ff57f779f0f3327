"""Reading one stretch of time from one relay, for all filters of a query: the decisions alone.

Pages go backwards in time (`paging`). Where one second holds more than a page, the filter is
narrowed for that second by its lists; what cannot be narrowed is asked for with a larger limit; a
second that stays cut is a hole, which is told, never passed over silently. Pure: no clock, no
network.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from nostr_client.filters import Filter
from nostr_client.paging import PAGE, ROUND, Pager

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nostr_client.claims import Held

LARGE: Final = 5_000
"""Events asked for where a second cannot be narrowed: the largest cap that relays are known for."""

MOST_PARTS: Final = 256
"""Narrowed questions in one walk: a hostile relay must not make us ask for ever."""

_LISTS: Final = ("kinds", "authors", "ids")


class Walk:
    """The reading of `start..end` (`end` None: open). Ask for `ask()`, tell `take()`; until None.

    `found` has every matching event that came. `holes` are seconds of which the relay holds more
    than it gave, `stalled` says that it did not page by `until`. `exclusive`: the relay leaves out
    the second of `until`. `largest` is the largest page
    that the relay is known to have given: a smaller one was not cut.
    """

    def __init__(
        self,
        filters: Iterable[Filter],
        start: int,
        end: int | None,
        *,
        page: int = PAGE,
        cap: int | None = None,
        largest: int = 0,
        exclusive: bool = False,
    ) -> None:
        self.start = start
        self.end = end
        self.largest = largest
        self.found: dict[bytes, Held] = {}
        self.holes: set[int] = set()
        self.stalled = False
        self._lanes = [_Lane(f, start, end, page, cap, exclusive) for f in filters]
        self._parts: deque[_Part] = deque()
        self._cap = cap
        self._asked: _Lane | _Part | None = None
        self._narrowed = 0

    def ask(self) -> Filter | None:
        """The next question, or None at the end."""
        if self._parts:
            self._asked = self._parts[0]
            return self._parts[0].filter
        lanes = [lane for lane in self._lanes if lane.filter is not None]
        if not lanes:
            self._asked = None
            return None
        lane = max(lanes, key=lambda one: one.frontier)
        self._asked = lane
        return lane.filter

    def take(self, events: Sequence[Held], frames: int) -> None:
        """Take in a page that ended with EOSE: its matching events, and how many frames came."""
        fresh = sum(event.id not in self.found for event in events)
        self.found.update((event.id, event) for event in events)
        if isinstance(self._asked, _Part):
            self._take_part(self._parts.popleft(), frames)
        elif self._asked is not None:
            self._take_page(self._asked, events, frames, fresh)
        self.largest = max(self.largest, frames)

    def refuse(self) -> bool:
        """The relay refused the last question; True where the walk can go on with a hole."""
        if not isinstance(self._asked, _Part):
            return False
        self.holes.add(self._parts.popleft().second)
        return True

    @property
    def narrowed(self) -> bool:
        """Whether the question is about a part of one second."""
        return bool(self._parts)

    @property
    def reached(self) -> int | None:
        """From here to the end everything was read, but for the holes; None: nothing yet."""
        if self._parts:
            return None
        reached = [lane.reached for lane in self._lanes]
        known = [second for second in reached if second is not None]
        return max(known) if len(known) == len(reached) else None

    @property
    def exclusive(self) -> bool:
        """Whether the relay showed that it leaves out the second of `until`."""
        return any(lane.pager.exclusive for lane in self._lanes)

    @property
    def complete(self) -> bool:
        """True when the walk ended and nothing is known to be missing."""
        return self.reached == self.start and not self.holes and not self.stalled

    def _take_page(self, lane: _Lane, events: Sequence[Held], frames: int, fresh: int) -> None:
        times = [event.created_at for event in events]
        for second in lane.turn(frames, fresh, times, self.largest):
            self._narrow(_Part(lane.of_second(second), second))
        self.stalled = self.stalled or lane.pager.stalled

    def _take_part(self, part: _Part, frames: int) -> None:
        if not self._may_be_cut(part, frames):
            return
        self._narrow(part)

    def _may_be_cut(self, part: _Part, frames: int) -> bool:
        """Whether the relay may hold more of a second than it gave."""
        if self._cap is not None:
            return frames >= min(self._cap, part.filter.limit or self._cap)
        if frames <= 0.9 * self.largest:
            return False
        return not part.last or frames >= (part.filter.limit or 0) or frames % ROUND == 0

    def _narrow(self, part: _Part) -> None:
        """Ask for the second in smaller parts; a hole where there is no smaller one."""
        smaller = _split(part.filter)
        if not smaller and not part.last:
            smaller = [part.filter.replace(limit=LARGE)]
        self._narrowed += len(smaller)
        if not smaller or self._narrowed > MOST_PARTS:
            self.holes.add(part.second)
            return
        last = len(smaller) == 1
        self._parts.extend(_Part(one, part.second, last) for one in smaller)


class _Lane:
    """The walk of one filter."""

    def __init__(
        self,
        filter: Filter,
        start: int,
        end: int | None,
        page: int,
        cap: int | None,
        exclusive: bool,
    ) -> None:
        since = max(filter.since or 0, start)
        until = _least(filter.until, end)
        self._filter = filter.replace(since=since or None, until=until, limit=None)
        if self._filter == Filter():
            self._filter = Filter(
                since=0
            )  # some relays have nothing for a filter without conditions
        self._start = start
        self._page = page
        self._known = 0
        self._until = until
        self.pager = Pager(self._filter, page=page, cap=cap, exclusive=exclusive)
        self.frontier = float("inf") if until is None else until
        self.began = False

    @property
    def filter(self) -> Filter | None:
        """The next question, or None at the end."""
        return self.pager.next_filter()

    @property
    def reached(self) -> int | None:
        """From here on all was read; None: nothing yet."""
        if self.filter is None and not self.pager.stalled:
            return self._start
        if not self.began or self.frontier == float("inf"):
            return None
        return int(self.frontier) + 1

    def turn(self, frames: int, fresh: int, times: list[int], largest: int) -> list[int]:
        """Take note of a page; the seconds that turned out to be denser than a page."""
        self.began = True
        oldest, newest = (min(times), max(times)) if times else (None, None)
        self.pager.turn(frames, fresh, oldest, newest, largest=largest)
        following = self.filter
        if following is not None and following.until is not None:
            self.frontier = following.until
        dense = self.pager.dense[self._known :]
        self._known = len(self.pager.dense)
        return dense

    def of_second(self, second: int) -> Filter:
        """The filter for one second."""
        return self._filter.replace(since=second, until=second, limit=self._page)


class _Part:
    """A narrowed question about one second; `last`: it cannot be narrowed any further."""

    __slots__ = ("filter", "last", "second")

    def __init__(self, filter: Filter, second: int, last: bool = False) -> None:
        self.filter = filter
        self.second = second
        self.last = last


def _split(filter: Filter) -> list[Filter]:
    """Two filters that together match the same events, by halving the longest list; else []."""
    lists = {name: getattr(filter, name) for name in _LISTS} | dict(filter.tags)
    name, values = max(lists.items(), key=lambda item: len(item[1] or ()))
    if not values or len(values) < 2:
        return []
    middle = len(values) // 2
    return [_with(filter, name, half) for half in (values[:middle], values[middle:])]


def _with(filter: Filter, name: str, values: Sequence[str]) -> Filter:
    if name in _LISTS:
        return filter.replace(**{name: values})
    return filter.replace(tags={**dict(filter.tags), name: values})


def _least(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else min(a, b)
