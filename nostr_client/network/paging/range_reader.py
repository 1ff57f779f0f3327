"""Read one time range from one relay for all filters of a query. Decides and does no I/O.

Pages go backwards in time (`pager`), or by halves if the relay does not send newest first
(`halving`). If one second has more events than a page, the reader splits the filter's lists for
that second. A filter without such a list gets a larger limit. A second that may still be cut is a
hole. Holes are always reported.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, Protocol, TypeVar

import msgspec

from nostr_client.codecs.filters import Filter
from nostr_client.codecs.messages import Hint
from nostr_client.network.paging.halving import HalvingReader
from nostr_client.network.paging.pager import PAGE, Pager

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nostr_client.protocol import StoredFrames

LARGE: Final = 5_000
"""Events to ask for if a second cannot be split: the largest known cap of relays."""

MOST_PARTS: Final = 256
"""Most split filters in one walk, so that a hostile relay cannot cause endless requests."""

MOST_BARREN: Final = 100
"""Most pages in a row without a kept event: 50,000 frames."""

_LISTS: Final = ("kinds", "authors", "ids")


class PagedEvent(Protocol):
    """Fields of a matching event that a walk uses. `id` has 32 raw bytes."""

    @property
    def created_at(self) -> int: ...
    @property
    def id(self) -> bytes: ...


FoundT = TypeVar("FoundT", bound=PagedEvent)


class Walk(Generic[FoundT]):
    """Reads `start..end` (open if `end` is None). Send `ask()` and call `take()`, until `ask()` is
    None.

    - `found`: every matching event that came.
    - `holes`: seconds of which an event may be missing.
    - `unread`: number of unreadable frames; `unread_near` has the seconds near them.
    - `stalled`: why the relay cannot be read to the end, or "".
    - `exclusive`: the relay leaves out the second of `until`.
    - `largest`: the largest page that the relay has sent, now or before.
    - `least`: how many events the relay itself counts in the range. While fewer were found,
      `finish` of the relay proves nothing.
    """

    def __init__(
        self,
        filters: Iterable[Filter],
        start: int,
        end: int | None,
        *,
        page: int = PAGE,
        largest: int = 0,
        least: int = 0,
        exclusive: bool = False,
    ) -> None:
        self.start = start
        self.end = end
        self.largest = largest
        self.found: dict[bytes, FoundT] = {}
        self.unread = 0
        self.unread_near: set[int] = set()
        self._least = least
        self._lanes = [_Lane(f, start, end, page, exclusive) for f in filters]
        self._parts: deque[_Part] = deque()
        self._asked: _Lane | _Part | None = None
        self._narrowed = 0
        self._barren = 0
        # by second: the size of its page, or None if the page was certainly cut
        self._cut: dict[int, int | None] = {}

    def ask(self) -> Filter | None:
        """Return the next filter, or None at the end."""
        if self._parts:
            self._asked = self._parts[0]
            return self._parts[0].filter
        lanes = [lane for lane in self._lanes if lane.filter is not None]
        self._asked = max(lanes, key=lambda one: one.position, default=None)
        return None if self._asked is None else self._asked.filter

    def take(self, events: Sequence[FoundT], sent: StoredFrames) -> None:
        """Process a page that ended with EOSE: the kept events, and all frames that were sent."""
        self.found.update((event.id, event) for event in events)
        if sent.hint is Hint.FINISH and len(self.found) < self._least:
            sent = msgspec.structs.replace(sent, hint=None)
        self.unread += sent.unread
        self.unread_near |= sent.unread_near()
        self._cut.update(dict.fromkeys(self.unread_near))
        if isinstance(self._asked, _Part):
            self._take_part(self._parts.popleft(), sent)
        elif self._asked is not None:
            self._take_page(self._asked, sent, barren=not events)
        self.largest = max(self.largest, sent.frames)

    def refuse(self) -> bool:
        """Note that the relay refused the last filter.

        Return True if the walk can go on with a hole.
        """
        if not isinstance(self._asked, _Part):
            return False
        self._cut[self._parts.popleft().second] = None
        return True

    def counted(self, second: int, count: int) -> None:
        """Note how many events of a second the relay counts.

        The second is no hole if all were found.
        """
        if sum(one.created_at == second for one in self.found.values()) == count:
            self._cut.pop(second, None)

    @property
    def holes(self) -> set[int]:
        """Seconds of which events may be missing, because no larger page shows that they were not
        cut.
        """
        return {at for at, size in self._cut.items() if size is None or size >= self.largest}

    @property
    def stalled(self) -> str:
        """Why the relay cannot be read to the end, or "" if it can."""
        return next((lane.stalled for lane in self._lanes if lane.stalled), "")

    @property
    def narrowed(self) -> bool:
        """Whether the current filter covers a part of one second."""
        return bool(self._parts)

    @property
    def reached(self) -> int | None:
        """The second from which everything to the end was read, except for holes.

        None: nothing yet.
        """
        if self._parts:
            return None
        reached = [lane.reached for lane in self._lanes]
        known = [second for second in reached if second is not None]
        return max(known) if len(known) == len(reached) else None

    @property
    def exclusive(self) -> bool:
        """Whether the relay showed that it leaves out the second of `until`."""
        return any(lane.exclusive for lane in self._lanes)

    @property
    def complete(self) -> bool:
        """True if the walk ended and no event is known to be missing."""
        return self.reached == self.start and not self.holes and not self.stalled

    def _take_page(self, lane: _Lane, sent: StoredFrames, *, barren: bool) -> None:
        dense, more = lane.turn(sent, self.largest)
        for second in dense:
            if second in lane.short:  # a part of it may be cut as well, and would not show it
                self._cut[second] = None
            else:
                self._narrow(_Part(lane.of_second(second), second), sent)
        if not barren:
            self._barren = 0
        elif more:
            self._barren += 1
        if self._barren >= MOST_BARREN:
            lane.give_up("the relay sends nothing but events that do not count")

    def _take_part(self, part: _Part, sent: StoredFrames) -> None:
        if sent.unread:
            self.unread_near.add(part.second)
            self._cut[part.second] = None
        if sent.second_may_be_cut(self.largest):
            self._narrow(part, sent)

    def _narrow(self, part: _Part, sent: StoredFrames) -> None:
        """Ask for the second in smaller parts. The second is a hole if it cannot be split further.

        A larger limit helps only if the request's own limit cut the answer.
        """
        smaller = _split(part.filter)
        if not smaller and not part.last and sent.limited:
            smaller = [part.filter.replace(limit=LARGE)]
        self._narrowed += len(smaller)
        if not smaller or self._narrowed > MOST_PARTS:
            self._suspect(part.second, sent, given_up=bool(smaller))
            return
        last = len(smaller) == 1
        self._parts.extend(_Part(one, part.second, last) for one in smaller)

    def _suspect(self, second: int, sent: StoredFrames, *, given_up: bool) -> None:
        certain = given_up or sent.limited or sent.hint is Hint.MORE
        known = self._cut.get(second, 0)
        self._cut[second] = None if certain or known is None else max(known, sent.frames)


class _Lane:
    """Reading of one filter."""

    def __init__(
        self, filter: Filter, start: int, end: int | None, page: int, exclusive: bool
    ) -> None:
        since = max(filter.since or 0, start)
        until = _least(filter.until, end)
        self._filter = filter.replace(since=since or None, until=until, limit=None)
        if self._filter == Filter():  # some relays send nothing for a filter without conditions
            self._filter = Filter(since=0)
        self._start = start
        self._page = page
        self._known = 0
        self._reader: Pager | HalvingReader = Pager(self._filter, page=page, exclusive=exclusive)

    @property
    def filter(self) -> Filter | None:
        """The next filter, or None at the end."""
        return self._reader.next_filter()

    @property
    def position(self) -> float:
        """The second down to which the reading has come."""
        frontier = self._reader.frontier
        if frontier is not None:
            return frontier
        return float("inf") if self._filter.until is None else self._filter.until

    @property
    def reached(self) -> int | None:
        """The second from which everything was read. None: nothing yet."""
        if self.filter is None and not self.stalled:
            return self._start
        frontier = self._reader.frontier
        return None if frontier is None else frontier + 1

    @property
    def stalled(self) -> str:
        """Why the relay cannot be read to the end, or "" if it can."""
        return self._reader.stalled

    @property
    def exclusive(self) -> bool:
        """Whether the relay leaves out the second of `until`."""
        return self._reader.exclusive

    @property
    def short(self) -> set[int]:
        """Seconds that a page of a few events cut."""
        return self._reader.short if isinstance(self._reader, Pager) else set()

    def turn(self, sent: StoredFrames, largest: int) -> _Turned:
        """Process a page."""
        reader = self._reader
        more = reader.turn(sent, largest) if isinstance(reader, Pager) else reader.turn(sent)
        dense = reader.dense[self._known :]
        self._known += len(dense)
        if isinstance(reader, Pager) and reader.disordered:
            dense, more = self._read_by_halves(sent, whole=reader.frontier is None)
        return _Turned(dense, more)

    def _read_by_halves(self, sent: StoredFrames, *, whole: bool) -> tuple[list[int], bool]:
        """Begin again, because the earlier pages prove nothing.

        `whole`: the last page asked for the whole range, so it counts.
        """
        self._reader = HalvingReader(self._filter, page=self._page, exclusive=self.exclusive)
        if whole:
            self._reader.turn(sent)
        self._known = len(self._reader.dense)
        return self._reader.dense[:], True

    def give_up(self, why: str) -> None:
        """End the reading as incomplete."""
        self._reader.give_up(why)

    def of_second(self, second: int) -> Filter:
        """Return the filter for one second."""
        until = second + self.exclusive
        return self._filter.replace(since=second, until=until, limit=self._page)


class _Turned(NamedTuple):
    """Result of a page: new dense seconds, and whether there is more to read."""

    dense: list[int]
    more: bool


class _Part:
    """Part of a filter for one second. `last`: the part cannot be split further."""

    __slots__ = ("filter", "last", "second")

    def __init__(self, filter: Filter, second: int, last: bool = False) -> None:
        self.filter = filter
        self.second = second
        self.last = last


def _split(filter: Filter) -> list[Filter]:
    """Return two filters that together match the same events. Halves the longest list, else []."""
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
