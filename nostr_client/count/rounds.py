"""One round of reading one relay for one query, given what is held: the decisions alone.

What is new is read first, then what was never read (a first reading that was cut), then the part
that is due to be read again; last the relay's own count is compared with what is held. The driver
asks the relay what `question` says and tells `page` or `count`; where `ready` is true it calls
`advance` with the memory, which takes in what was read in one piece. So a driver that dies at any
moment leaves a memory that is whole. Pure: no clock, no network.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from nostr_client.count.claims import Reread, Update
from nostr_client.count.claims.coverage import DAY, gaps, join
from nostr_client.network.paging.pager import PAGE
from nostr_client.network.paging.range_reader import Walk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nostr_client.codecs.filters import Filter
    from nostr_client.count.claims import Held, Mark, Memory
    from nostr_client.count.claims.coverage import Spans
    from nostr_client.protocol import Sent


LEAF: Final = 8
"""Events in a stretch that is read again rather than halved: one small page."""

MOST_READ: Final = 0.015
"""Part of what is held that one search may read again; what is left is found in later rounds."""

MOST_COUNTS: Final = 48
"""COUNTs for one query in one round: three changes among 50,000 events; the rest waits."""


class Stretch(NamedTuple):
    """A stretch of time and what the relay says it holds there; `end` None is open."""

    start: int
    end: int | None
    told: int


class Check:
    """One search. `next(memory)` gives a stretch to count or to read, or None at the end.

    A stretch to count is answered by `counted`, one to read by applying what was read to the
    memory. `gave_up`: the relay contradicted itself, or the COUNTs were used up.
    """

    def __init__(self, told: int, *, recent_from: int = 0) -> None:
        """`recent_from`: a second at which the whole is halved even where its sum agrees.

        A removal and a late event make up for each other in one number; late events are recent,
        and most removals are not.
        """
        self.told = told
        self.gave_up = False
        self._left = MOST_COUNTS
        self._room: float | None = None
        self._whole = Stretch(0, None, told)
        self._stack = [] if recent_from > 0 else [self._whole]
        self._counting = (self._whole, recent_from - 1) if recent_from > 0 else None

    def next(self, memory: Memory, now: int) -> tuple[str, int, int | None] | None:
        """`("count" | "read", start, end)`, or None when there is nothing left to look at."""
        if self._counting is not None:
            return "count", self._counting[0].start, self._counting[1]
        if self._room is None:
            self._room = max(MOST_READ * memory.count(0, None), 2.0 * LEAF)
        while self._stack and self._room > 0:
            stretch = self._stack.pop()
            held = memory.count(stretch.start, stretch.end)
            if held == stretch.told:
                continue
            middle = _middle(memory, stretch, held, now)
            if middle is None or not stretch.told or max(held, stretch.told) <= LEAF:
                self._room -= stretch.told
                return "read", stretch.start, stretch.end
            if not self._left:
                self.gave_up = True
                return None
            self._left -= 1
            self._counting = (stretch, middle)
            return "count", stretch.start, middle
        self.gave_up = self.gave_up or bool(self._stack)
        return None

    def counted(self, count: int | None) -> None:
        """The answer to the last stretch to count; None: the relay gave none that can be used."""
        assert self._counting is not None
        (start, end, told), middle = self._counting
        self._counting = None
        if count is None or count > told:
            self.gave_up = True
            self._stack.clear()
            return
        self._stack.append(Stretch(start, middle, count))
        self._stack.append(Stretch(middle + 1, end, told - count))


def _middle(memory: Memory, stretch: Stretch, held: int, now: int) -> int | None:
    """The last second of the first half; None where a stretch cannot be halved."""
    start, end, _ = stretch
    last = now if end is None else end
    middle = memory.nth(start, held // 2) if held >= 2 else (start + last) // 2
    if middle is None or middle >= last:
        middle = (start + last) // 2
    return middle if start <= middle < last else None


_WEEKLY: Final = Reread()

RECENT: Final = 7 * DAY
"""Seconds back in which late events are looked for: what comes later is found by reading again."""

FEW: Final = 10
"""Events held up to which each round reads the whole: one small page proves an exact number."""


class ReadPage(NamedTuple):
    """Ask by REQ, up to EOSE."""

    filter: Filter


class AskCount(NamedTuple):
    """Ask by COUNT; registers do not matter."""

    filter: Filter


class _Window(NamedTuple):
    start: int
    end: int | None
    sweep_to: int | None = None


class Round:
    """See the module. `clock` is the earlier of our time and the relay's, in Unix seconds.

    `told`: what the relay just answered to a plain COUNT, if it is exact; `counts`: whether it may
    be asked for more. `judged`: the query does not count all events that match. `reread` is the
    policy of reading again. `stalled`: why the relay cannot be read to the end, or "". `confirmed`:
    its own count is equal to what is held. `current`: what is new was read, at least in part. A
    round that read all of time says so to the memory, as that alone proves which events the relay
    holds.
    """

    def __init__(
        self,
        filters: Sequence[Filter],
        *,
        clock: int,
        told: int | None = None,
        counts: bool = False,
        judged: bool = False,
        reread: Reread = _WEEKLY,
        page: int = PAGE,
    ) -> None:
        self.stalled = ""
        self.confirmed = False
        self.current = False
        self._filters = tuple(filters)
        self._clock = clock
        self._told = told
        self._judged = judged
        self._counts = (counts or told is not None) and len(self._filters) == 1
        self._reread = reread
        self._page = page
        self._windows: deque[_Window] = deque()
        self._planned = self._stopped = self._asked_all = False
        self._read: Spans = ()
        self._window = _Window(0, None)
        self._walk: Walk[Held] | None = None
        self._check: Check | None = None
        self._count: Filter | None = None
        self._older: int | None = None
        self._ask_older = self._asking_older = False

    @property
    def question(self) -> ReadPage | AskCount | None:
        """What to ask the relay now; None where `advance` is due, or at the end."""
        if self._stopped:
            return None
        if self._count is not None:
            return AskCount(self._count)
        asked = None if self._walk is None else self._walk.ask()
        if asked is not None:
            return ReadPage(asked)
        if self._ask_older and not self._windows:
            self._ask_older, self._asking_older = False, True
            return AskCount(_bounded(self._filters[0], 0, self._clock - RECENT - 1))
        return None

    @property
    def narrowed(self) -> bool:
        """Whether the question is about one second, where a smaller limit would hide something."""
        return self._walk is not None and self._walk.narrowed

    def page(self, events: Sequence[Held], sent: Sent) -> None:
        """The answer to a REQ: the matching events that hold, and all that the relay sent."""
        assert self._walk is not None
        self._walk.take(events, sent)

    def part(self, events: Sequence[Held]) -> None:
        """Events of a page that did not come to its end: they are kept, and prove nothing."""
        if self._walk is not None:
            self._walk.found.update((event.id, event) for event in events)

    def count(self, count: int | None) -> None:
        """The answer to a COUNT; None: refused, cut or estimated."""
        if self._asking_older:
            self._older, self._asking_older = count, False
            return
        self._count = None
        if self._check is not None:
            self._check.counted(count)
        else:
            self._told = count
            self._counts = count is not None

    def refuse(self) -> bool:
        """The relay refused a REQ; True where the round goes on without what it asked for."""
        return self._walk is not None and self._walk.refuse()

    def stop(self) -> None:
        """No more questions: the budget or the time is over. What was read is still taken in."""
        self._stopped = True

    def begin(self, mark: Mark, held: int) -> bool:
        """Begin with what the memory was last seen to hold, which may have moved on since.

        False where that does not do: call `advance` then. From an older mark more is read.
        """
        if not mark.complete or self._reread.due(mark, held, self._clock):
            return False
        self._planned = True
        self._expect(mark, held)
        since = _news_from(mark, held)
        least = (self._told or 0) - (held if since else 0)
        self._begin(_Window(since, None), mark.largest, least)
        return True

    def advance(self, memory: Memory) -> bool:
        """Take in what was read, and go on; False at the end. Call it whenever nothing is asked."""
        if self._walk is not None:
            self._settle(memory, self._walk)
        more = self._go_on(memory)
        whole = self._read == ((0, self._clock),) and memory.mark.complete and not self.stalled
        if not more and whole:
            memory.prove(self._clock)
        return more

    def _go_on(self, memory: Memory) -> bool:
        if not self._planned:
            self._plan(memory)
        if self._stopped:
            return False
        if self._windows:
            window = self._windows.popleft()
            self._begin(window, memory.mark.largest, self._least(memory, window))
            return True
        return self._compare(memory)

    def _least(self, memory: Memory, window: _Window) -> int:
        """How many events the relay's own count says that an open window holds, at least."""
        if not self._told or window.end is not None:
            return 0
        return self._told - memory.count(0, window.start - 1)

    def _settle(self, memory: Memory, walk: Walk[Held]) -> None:
        """Take in a walk, whole or as far as it came."""
        window, self._walk = self._window, None
        self.stalled = self.stalled or walk.stalled
        reached = walk.reached
        if reached is None:
            memory.add(walk.found.values(), self._clock)
            return
        whole = reached == window.start
        self.current = self.current or window.end is None
        upto = self._clock if window.end is None else min(window.end, self._clock)
        self._read = join(self._read, reached, upto)
        memory.apply(
            Update(
                start=reached,
                end=window.end,
                upto=upto,
                at=self._clock,
                found=tuple(walk.found.values()),
                holes=tuple(sorted(walk.holes)),
                unread=tuple(sorted(walk.unread_near)),
                largest=walk.largest,
                sweep_to=window.sweep_to if whole else None,
            )
        )

    def _plan(self, memory: Memory) -> None:
        self._planned = True
        mark = memory.mark
        news, overlap = mark.news_from(), mark.read_from()
        unread = gaps(mark.covered, 0, news - 1)
        if unread:  # an overlap of more than the budget must not keep the first reading from ending
            self._windows += [_Window(news, None), *(_Window(a, b) for a, b in unread)]
            self._windows.append(_Window(overlap, news - 1))
            return
        held = memory.count(0, None)
        overlap = _news_from(mark, held)
        self._windows.append(_Window(overlap, None))
        self._expect(mark, held)
        due = self._reread.due(mark, held, self._clock)
        if due and overlap:
            self._windows.append(_sweep(memory, due, overlap - 1))

    def _expect(self, mark: Mark, held: int) -> None:
        """Ask along with what is new for what the comparison of counts will most likely need."""
        self._ask_older = bool(self._told and held and not mark.differs and self._clock > RECENT)

    def _begin(self, window: _Window, largest: int, least: int = 0) -> None:
        self._window = window
        self._walk = Walk(
            self._filters,
            window.start,
            window.end,
            page=self._page,
            largest=largest,
            least=least,
        )

    def _compare(self, memory: Memory) -> bool:
        """Compare the relay's own count with what is held, and look for what differs."""
        if not self._counts:
            return False
        held = memory.count(0, None)
        if self._check is None:
            return self._begin_check(memory, held)
        found = self._check.next(memory, self._clock)
        if found is not None:
            what, start, end = found
            if what == "read":
                self._begin(_Window(start, end), memory.mark.largest)
            else:
                self._count = _bounded(self._filters[0], start, end)
            return True
        by = self._check.told - held
        if by and not self._check.gave_up:
            memory.differ(by)
        elif not (by or memory.mark.differs or memory.mark.unread):  # unread: so it holds more
            self._confirm(memory)
        return False

    def _begin_check(self, memory: Memory, held: int) -> bool:
        told = self._told
        if told != held and not self._asked_all:  # asked before the newest events were there
            self._asked_all = True
            self._count = self._filters[0].replace(limit=None)
            return True
        if told is None or (told == 0 and held):
            return False
        if memory.mark.differs and told - held in (0, memory.mark.differs):
            return False  # it counts what it does not give: that proves nothing, nor is it news
        recent = self._clock - RECENT
        halved = told == held and 0 < memory.count(recent, None) < held and recent > 0
        self._check = Check(told, recent_from=recent if halved else 0)
        if halved and self._older is not None:
            self._check.counted(self._older)
        return self._compare(memory)

    def _confirm(self, memory: Memory) -> None:
        memory.confirm(self._clock, judged=self._judged)
        self.confirmed = True


def _news_from(mark: Mark, held: int) -> int:
    """Where the reading of what is new begins."""
    return 0 if held <= FEW else mark.read_from()


def _sweep(memory: Memory, due: int, last: int) -> _Window:
    """The next part to be read again: `due` events from where the last part ended."""
    start = memory.mark.sweep_at if memory.mark.sweep_at <= last else 0
    end = memory.nth(start, due)
    if end is None or end >= last:
        return _Window(start, last, sweep_to=0)
    return _Window(start, end, sweep_to=end + 1)


def _bounded(filter: Filter, start: int, end: int | None) -> Filter:
    since = max(filter.since or 0, start)
    until = filter.until if end is None else min(end, filter.until or end)
    return filter.replace(since=since or None, until=until, limit=None)
