"""Decide one round of reading one relay for one query, from the known events.

New events are read first, then what was never read (a first reading that was cut), then the part
that is due to be read again; last the relay's own count is compared with the known events. The
driver asks the relay what `question` says and calls `page` or `count` with the answer. If `ready`
is true it calls `advance` with the memory, which stores what was read in one transaction. So a
driver that dies at any moment leaves a consistent memory. Pure: no clock, no network.
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
    from nostr_client.count.claims import HeldEvent, Memory, ReadCoverage
    from nostr_client.count.claims.coverage import Spans
    from nostr_client.protocol import StoredFrames


LEAF: Final = 8
"""Events in a span that is read again rather than halved: one small page."""

MOST_READ: Final = 0.015
"""Share of the known events that one search may read again; later rounds find the rest."""

MOST_COUNTS: Final = 48
"""COUNTs for one query in one round: three changes among 50,000 events; the rest waits."""


class CountedSpan(NamedTuple):
    """A span of time and the relay's count of it; `end` None is open."""

    start: int
    end: int | None
    reported: int


class Check:
    """One search. `next(memory)` returns a span to count or to read, or None at the end.

    Answer a span to count with `counted`, one to read by adding what was read to the memory.
    `gave_up`: the relay contradicted itself, or the COUNTs were used up.
    """

    def __init__(self, reported: int, *, recent_from: int = 0) -> None:
        """Create it; `recent_from`: a second at which the whole is halved even if its sum agrees.

        A removal and a late event compensate in one number; late events are recent, and most
        removals are not.
        """
        self.reported = reported
        self.gave_up = False
        self._left = MOST_COUNTS
        self._room: float | None = None
        self._whole = CountedSpan(0, None, reported)
        self._stack = [] if recent_from > 0 else [self._whole]
        self._counting = (self._whole, recent_from - 1) if recent_from > 0 else None

    def next(self, memory: Memory, now: int) -> tuple[str, int, int | None] | None:
        """Return `("count" | "read", start, end)`, or None if nothing is left to check."""
        if self._counting is not None:
            return "count", self._counting[0].start, self._counting[1]
        if self._room is None:
            self._room = max(MOST_READ * memory.count(0, None), 2.0 * LEAF)
        while self._stack and self._room > 0:
            span = self._stack.pop()
            held = memory.count(span.start, span.end)
            if held == span.reported:
                continue
            middle = _middle(memory, span, held, now)
            if middle is None or not span.reported or max(held, span.reported) <= LEAF:
                self._room -= span.reported
                return "read", span.start, span.end
            if not self._left:
                self.gave_up = True
                return None
            self._left -= 1
            self._counting = (span, middle)
            return "count", span.start, middle
        self.gave_up = self.gave_up or bool(self._stack)
        return None

    def counted(self, count: int | None) -> None:
        """Add the answer to the last span to count; None: the relay gave no usable one."""
        assert self._counting is not None
        (start, end, reported), middle = self._counting
        self._counting = None
        if count is None or count > reported:
            self.gave_up = True
            self._stack.clear()
            return
        self._stack.append(CountedSpan(start, middle, count))
        self._stack.append(CountedSpan(middle + 1, end, reported - count))


def _middle(memory: Memory, span: CountedSpan, held: int, now: int) -> int | None:
    """Return the last second of the first half; None if a span cannot be halved."""
    start, end, _ = span
    last = now if end is None else end
    middle = memory.nth(start, held // 2) if held >= 2 else (start + last) // 2
    if middle is None or middle >= last:
        middle = (start + last) // 2
    return middle if start <= middle < last else None


_WEEKLY: Final = Reread()

RECENT: Final = 7 * DAY
"""Seconds back in which late events are searched: reading again finds later ones."""

FEW: Final = 10
"""Known events up to which each round reads everything: one small page proves an exact number."""


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


class ReadRound:
    """See the module. `clock` is the earlier of our time and the relay's, in Unix seconds.

    `reported`: the relay's answer just now to a plain COUNT, if it is exact; `counts`: whether it
    may be asked for more. `judged`: the query does not count all events that match. `reread` is the
    policy of reading again. `stalled`: why the relay cannot be read to the end, or "". `confirmed`:
    its own count equals the known events. `current`: new events were read, at least in part. A
    round that read all of time reports that to the memory, as only that proves which events the
    relay has.
    """

    def __init__(
        self,
        filters: Sequence[Filter],
        *,
        clock: int,
        reported: int | None = None,
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
        self._reported = reported
        self._judged = judged
        self._counts = (counts or reported is not None) and len(self._filters) == 1
        self._reread = reread
        self._page = page
        self._windows: deque[_Window] = deque()
        self._planned = self._stopped = self._asked_all = False
        self._read: Spans = ()
        self._window = _Window(0, None)
        self._walk: Walk[HeldEvent] | None = None
        self._check: Check | None = None
        self._count: Filter | None = None
        self._older: int | None = None
        self._ask_older = self._asking_older = False

    @property
    def question(self) -> ReadPage | AskCount | None:
        """Return the next request to the relay; None if `advance` is due, or at the end."""
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

    def page(self, events: Sequence[HeldEvent], sent: StoredFrames) -> None:
        """Add the answer to a REQ: the valid events that match, and all that the relay sent."""
        assert self._walk is not None
        self._walk.take(events, sent)

    def part(self, events: Sequence[HeldEvent]) -> None:
        """Add events of a page that did not come to its end: they are stored, and prove nothing."""
        if self._walk is not None:
            self._walk.found.update((event.id, event) for event in events)

    def count(self, count: int | None) -> None:
        """Add the answer to a COUNT; None: refused, cut or estimated."""
        if self._asking_older:
            self._older, self._asking_older = count, False
            return
        self._count = None
        if self._check is not None:
            self._check.counted(count)
        else:
            self._reported = count
            self._counts = count is not None

    def refuse(self) -> bool:
        """Note that the relay refused a REQ; return True if the round continues without it."""
        return self._walk is not None and self._walk.refuse()

    def stop(self) -> None:
        """Ask no more: the budget or the time is over. What was read is still stored."""
        self._stopped = True

    def begin(self, mark: ReadCoverage, held: int) -> bool:
        """Begin with the memory's last known state, which may have changed since.

        Return False if that is not possible: call `advance` then. From an older mark more is read.
        """
        if not mark.complete or self._reread.due(mark, held, self._clock):
            return False
        self._planned = True
        self._expect(mark, held)
        since = _news_from(mark, held)
        least = (self._reported or 0) - (held if since else 0)
        self._begin(_Window(since, None), mark.largest, least)
        return True

    def advance(self, memory: Memory) -> bool:
        """Store what was read, and continue; return False at the end. Call it when there is no
        question."""
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
        """Return the least number of events of an open window, by the relay's own count."""
        if not self._reported or window.end is not None:
            return 0
        return self._reported - memory.count(0, window.start - 1)

    def _settle(self, memory: Memory, walk: Walk[HeldEvent]) -> None:
        """Store a walk, complete or as far as it came."""
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

    def _expect(self, mark: ReadCoverage, held: int) -> None:
        """Decide what the first request also asks: what the comparison of counts will most likely
        need."""
        self._ask_older = bool(
            self._reported and held and not mark.differs and self._clock > RECENT
        )

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
        """Compare the relay's own count with the known events, and search the difference."""
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
        by = self._check.reported - held
        if by and not self._check.gave_up:
            memory.differ(by)
        elif not (by or memory.mark.differs or memory.mark.unread):  # unread: so it has more
            self._confirm(memory)
        return False

    def _begin_check(self, memory: Memory, held: int) -> bool:
        reported = self._reported
        if reported != held and not self._asked_all:  # asked before the newest events were there
            self._asked_all = True
            self._count = self._filters[0].replace(limit=None)
            return True
        if reported is None or (reported == 0 and held):
            return False
        if memory.mark.differs and reported - held in (0, memory.mark.differs):
            return False  # it counts what it does not send: that proves nothing, nor is it news
        recent = self._clock - RECENT
        halved = reported == held and 0 < memory.count(recent, None) < held and recent > 0
        self._check = Check(reported, recent_from=recent if halved else 0)
        if halved and self._older is not None:
            self._check.counted(self._older)
        return self._compare(memory)

    def _confirm(self, memory: Memory) -> None:
        memory.confirm(self._clock, judged=self._judged)
        self.confirmed = True


def _news_from(mark: ReadCoverage, held: int) -> int:
    """Return where the reading of new events begins."""
    return 0 if held <= FEW else mark.read_from()


def _sweep(memory: Memory, due: int, last: int) -> _Window:
    """Return the next part to be read again: `due` events from where the last part ended."""
    start = memory.mark.sweep_at if memory.mark.sweep_at <= last else 0
    end = memory.nth(start, due)
    if end is None or end >= last:
        return _Window(start, last, sweep_to=0)
    return _Window(start, end, sweep_to=end + 1)


def _bounded(filter: Filter, start: int, end: int | None) -> Filter:
    since = max(filter.since or 0, start)
    until = filter.until if end is None else min(end, filter.until or end)
    return filter.replace(since=since or None, until=until, limit=None)
