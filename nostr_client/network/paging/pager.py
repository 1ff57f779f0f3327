"""Read the events of one filter backwards in time, page by page. Decides and does no I/O.

A relay answers a REQ with its newest events, up to a cap that it may not state. The next page's
`until` is the oldest second that the relay sent. The next page asks for that second again, because
the cap may have cut it. All frames that the relay sent decide about the next page, also those that
were not kept.

The reading ends if the relay says `finish` (NIP-67), or if a further REQ brings nothing new. An
ordered page does not prove that the relay sends the newest events first. A relay may cut the newest
events off, and send the other events newest first. A second full page disproves this. Without a
second full page, one REQ for the newest events of the first page checks it.

If a second may have more events than the relay sends at once, the pager reports the second and goes
on below it. A last page of a few events, as large as every page before it, may be cut too: one REQ
below its second shows whether the relay has older events. If a page of that size was cut before,
the pager reports the second at once. A page that is not ordered newest first ends the reading.
`halving` then reads the relay.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from nostr_client.codecs.messages import Hint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nostr_client.codecs.filters import Filter
    from nostr_client.protocol import Stamp, StoredFrames

PAGE: Final = 500
"""Events to ask for at once: the cap of most relays. They would cut a larger page."""

_REPEATS: Final = 2
"""REQs for one second that may bring new events. Further new events were written meanwhile."""

TOP: Final = 10
"""Events of the first page to ask for again. They are enough to notice newer events."""

SHOWN: Final = 2
"""Number of full pages, one below the other, that prove the order.

The relay then cut off older events than those it sent.
"""


class _Top(NamedTuple):
    """Newest events of the first page: their ids, from `second` to `newest`."""

    second: int
    newest: int
    ids: frozenset[str]


class Pager:
    """Reads one filter. Send `next_filter()` and pass each answer to `turn()`, until it is None.

    - `dense`: seconds of which the relay may have more events than it sent.
    - `short`: seconds that a page of fewer than `SMALL` events cut, also part of `dense`.
    - `stalled`: why the relay cannot be read further, e.g. it sends events outside the range.
    - `disordered`: a page was not newest first, or lacked the newest events, or no page showed the
      order before a second was cut.

    The reading is complete if it ended with none of these.
    """

    def __init__(self, filter: Filter, *, page: int = PAGE, exclusive: bool = False) -> None:
        self._filter = filter
        self._page = page
        self._since = filter.since or 0
        self._until = filter.until
        self._largest = 0
        self._ended = False
        self._next: Filter | None = None
        self._seen: set[str] = set()  # ids that the relay sent of the second `_until`
        self._repeats = 0
        self._ordered = False  # whether a page showed that newer events come first
        self._doubted = False
        self._top: _Top | None = None
        self._first = self._full = 0
        self.exclusive = exclusive
        """Whether the relay leaves out events at the second of `until`."""
        self._below: int | None = None  # the second below which the last REQ looks
        self._came = self._cut_at = 0  # frames of the last page; of a page that was surely cut
        self.dense: list[int] = []
        self.short: set[int] = set()
        self.stalled = ""
        self.disordered = False

    def next_filter(self) -> Filter | None:
        """Return the filter of the next page, or None after the last one."""
        if self._asks_top and self._top is not None:
            until = self._filter.until
            until = None if until is None else until + self.exclusive
            return self._filter.replace(limit=self._page, since=self._top.second, until=until)
        if self._is_over:
            return None
        until = self._asked_until
        if self._next is None or self._next.until != until:
            self._next = self._filter.replace(limit=self._page, until=until)
        return self._next

    @property
    def complete(self) -> bool:
        """True if the reading ended and no event is known to be missing."""
        return self.next_filter() is None and not (self.dense or self.stalled or self.disordered)

    @property
    def frontier(self) -> int | None:
        """The second after which every second was read, dense ones in part. None: nothing yet."""
        return None if self._until == self._filter.until else self._until

    def turn(self, sent: StoredFrames, largest: int = 0) -> bool:
        """Process a page that ended with EOSE. Return False at the end of the reading.

        `largest`: the largest page that this relay is known to have sent before.
        """
        if self._asks_top:
            self._look_at_top(sent, max(self._largest, largest))
            return self.next_filter() is not None
        if self.frontier is None:
            self._note_top(sent, max(self._largest, largest))
        self._largest = max(self._largest, largest, sent.frames)
        inside = sent.within(self._since, self._asked_until)
        if not is_newest_first(inside):
            self.disordered = self._ended = True
        elif not self._doubts(inside):
            self._go_on(sent, inside)
        return self.next_filter() is not None

    def give_up(self, why: str) -> None:
        """End the reading as incomplete."""
        self._ended, self.stalled = True, why

    @property
    def _asked_until(self) -> int | None:
        return None if self._until is None else self._until + self.exclusive

    @property
    def _is_over(self) -> bool:
        return self._ended or (self._until is not None and self._until < self._since)

    @property
    def _asks_top(self) -> bool:
        """Whether to ask for the newest events again after the last page."""
        if self._top is None or not self._is_over or self.stalled or self.disordered:
            return False
        return self._full < SHOWN

    def _look_at_top(self, sent: StoredFrames, largest: int) -> None:
        """Check that the first page had all of the newest events.

        Events newer than the first page may have been written since.
        """
        assert self._top is not None
        second, newest, ids = self._top
        inside = sent.within(second, None)
        came = {one.id for one in inside if one.created_at <= newest}
        self.disordered = came != ids or sent.may_be_cut(largest)
        self._top = None

    def _note_top(self, sent: StoredFrames, largest: int) -> None:
        """Remember the newest events of the first page, if the relay may have cut this page."""
        self._first, self._full, self._top = sent.frames, 0, None
        inside = sent.within(self._since, self._asked_until)
        if not inside or not sent.second_may_be_cut(largest):
            return
        above = [one.created_at for one in inside if one.created_at > inside[-1].created_at]
        if above:  # a page of one second has no order
            second = above[min(TOP, len(above)) - 1]
            ids = frozenset(one.id for one in inside if one.created_at >= second)
            self._top = _Top(second, inside[0].created_at, ids)

    def _go_on(self, sent: StoredFrames, inside: Sequence[Stamp]) -> None:
        if not inside:
            self._ended = True
            if sent.frames or sent.hint is Hint.MORE:
                self.stalled = "the relay does not page by until"
            return
        self._full += sent.frames >= self._first
        if self._below is not None:
            self._note_short(self._below)
        if sent.finished:
            self._finish(inside)
            return
        if self._filter.ids is not None and {one.id for one in inside}.issuperset(self._filter.ids):
            self._ended, self._top = True, None  # everything that it asks for
            return
        oldest = inside[-1].created_at
        self._ordered = self._ordered or oldest < inside[0].created_at
        here = {one.id for one in inside if one.created_at == oldest}
        if self._until is not None and oldest < self._until:
            self._cut_at = max(self._cut_at, self._came)
        self._came = sent.frames
        if self._until is None or oldest < self._until:
            self._step(oldest, here)
        elif oldest == self._until:
            self._stay(sent, oldest, here)
        else:  # the relay sent the second after `_until`, so it does not leave out that of `until`
            self.exclusive, self._doubted = False, True

    def _finish(self, inside: Sequence[Stamp]) -> None:
        """End because the relay says `finish`.

        `finish` on a later page proves nothing about the first page if the later page has only
        known events.
        """
        self._ended = True
        if self.frontier is None or not {one.id for one in inside} <= self._seen:
            self._top = None

    def _step(self, until: int, seen: set[str]) -> None:
        """Ask up to the second `until` next. `seen`: ids of that second that came already."""
        self._until, self._seen, self._repeats = until, seen, 0

    def _stay(self, sent: StoredFrames, second: int, here: set[str]) -> None:
        """Handle a page that has only the second at which it began: the end, or a dense second."""
        fresh = bool(here - self._seen)
        cut = sent.second_may_be_cut(self._largest)
        self._seen |= here
        self._repeats += 1
        dense = cut or (fresh and self._repeats > _REPEATS)
        if dense and not self._ordered:  # these events may be the oldest ones of all
            self.disordered = self._ended = True
        elif dense:
            self.dense.append(second)
            self._step(second - 1, set())
        elif not fresh and sent.may_be_cut(self._largest):
            if 0 < self._cut_at <= sent.frames:
                self._note_short(second)
            else:
                self._below = second
            self._step(second - 1, set())
        elif not fresh:
            self._ended = True

    def _note_short(self, second: int) -> None:
        """Note that a page of a few events was cut, because the relay has older events."""
        self.dense.append(second)
        self.short.add(second)
        self._below = None

    def _doubts(self, inside: Sequence[Stamp]) -> bool:
        """Return True to ask again, because the relay may leave out events at the second of
        `until`.

        Events of that second that were sent before then do not come again. The next `until` is one
        second later.
        """
        newest = inside[0].created_at if inside else None
        if not self._seen or self._until is None or newest == self._until:
            return False
        if self.exclusive:  # it did not help, so the events of that second are gone
            self.exclusive = False
            return False
        if self._doubted or (newest is not None and newest > self._until):
            return False
        self._doubted = self.exclusive = True
        if self._filter.until is not None:
            self._step(self._filter.until, set())
        return True


def is_newest_first(stamps: Sequence[Stamp]) -> bool:
    """Return True if no event is newer than the event before it."""
    return all(one.created_at >= other.created_at for one, other in pairwise(stamps))
