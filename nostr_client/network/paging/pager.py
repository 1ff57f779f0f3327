"""Reads one filter's events backwards in time, page by page: the decisions, without any I/O.

A relay answers a REQ with its newest events, up to a cap that it may not state. The next page's
`until` is the oldest second that the relay sent. It asks for that second again, because the cap may
have cut it. A page is turned by what the relay sent, not by what was kept of it.

The reading ends where the relay says `finish` (NIP-67), or where a further REQ brings nothing new.
Newest first is what a page looks like, not yet what it is: a relay may cut the newest events off,
and send the rest in that order. Where no second full page shows it, one REQ for the newest that
were sent does.
A second that may hold more events than the relay sends at once is reported and passed. Pages that
are not ordered newest first end the reading: `halving` reads such a relay.
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
"""Events asked for at once: the cap of most relays; a larger one would be cut anyway."""

_REPEATS: Final = 2
"""REQs for one second that may bring new events: more come only from events written meanwhile."""

TOP: Final = 10
"""Events of the first page that are asked for again: enough to see that newer ones were cut off."""

SHOWN: Final = 2
"""Full pages, one below the other, after which the order needs no further proof: what a relay cut
off was older than what it sent."""


class _Top(NamedTuple):
    """The newest events of the first page: `ids` from `second` on, up to `newest`."""

    second: int
    newest: int
    ids: frozenset[str]


class Pager:
    """The reading of one filter. Ask for `next_filter()`, pass the answer to `turn()`; until None.

    `dense`: seconds of which the relay may hold more than it sent. `stalled`: the relay sends
    events outside of the range instead of those inside. `disordered`: a page was not ordered newest
    first, or did not hold the newest, or none showed the order before a second was cut. The reading
    is complete when it ended with none of these.
    """

    def __init__(self, filter: Filter, *, page: int = PAGE, exclusive: bool = False) -> None:
        self._filter = filter
        self._page = page
        self._since = filter.since or 0
        self._until = filter.until
        self._largest = 0
        self._ended = False
        self._next: Filter | None = None
        self._seen: set[str] = set()  # ids that were sent of the second `_until`
        self._repeats = 0
        self._ordered = False  # whether a page showed that newer events come first
        self._doubted = False
        self._top: _Top | None = None
        self._first = self._full = 0
        self.exclusive = exclusive
        """Whether the relay leaves out the second of `until`."""
        self.dense: list[int] = []
        self.stalled = ""
        self.disordered = False

    def next_filter(self) -> Filter | None:
        """The filter of the next page, or None after the last one."""
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
        """True when the reading ended and nothing is known to be missing."""
        return self.next_filter() is None and not (self.dense or self.stalled or self.disordered)

    @property
    def frontier(self) -> int | None:
        """Every later second was read, dense ones in part; None: nothing yet."""
        return None if self._until == self._filter.until else self._until

    def turn(self, sent: StoredFrames, largest: int = 0) -> bool:
        """Take in a page that ended with EOSE; False at the end of the reading.

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
        """End the reading as one that is not complete."""
        self._ended, self.stalled = True, why

    @property
    def _asked_until(self) -> int | None:
        return None if self._until is None else self._until + self.exclusive

    @property
    def _is_over(self) -> bool:
        return self._ended or (self._until is not None and self._until < self._since)

    @property
    def _asks_top(self) -> bool:
        """Whether the newest events are asked for again, after the last page."""
        if self._top is None or not self._is_over or self.stalled or self.disordered:
            return False
        return self._full < SHOWN

    def _look_at_top(self, sent: StoredFrames, largest: int) -> None:
        """See whether the first page held the newest events, all of them.

        What is newer than all of these may have come since.
        """
        assert self._top is not None
        second, newest, ids = self._top
        inside = sent.within(second, None)
        came = {one.id for one in inside if one.created_at <= newest}
        self.disordered = came != ids or sent.may_be_cut(largest)
        self._top = None

    def _note_top(self, sent: StoredFrames, largest: int) -> None:
        """Remember the newest events of the first page, where the relay may have cut it."""
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
        if sent.finished:
            self._finish(inside)
            return
        oldest = inside[-1].created_at
        self._ordered = self._ordered or oldest < inside[0].created_at
        here = {one.id for one in inside if one.created_at == oldest}
        if self._until is None or oldest < self._until:
            self._step(oldest, here)
        elif oldest == self._until:
            self._stay(sent, oldest, here)
        else:  # it has sent the second after `_until`: it does not leave out what it is asked for
            self.exclusive, self._doubted = False, True

    def _finish(self, inside: Sequence[Stamp]) -> None:
        """End as the relay says; but what it says below a page of which nothing older exists is no
        word about that page."""
        self._ended = True
        if self.frontier is None or not {one.id for one in inside} <= self._seen:
            self._top = None

    def _step(self, until: int, seen: set[str]) -> None:
        """Ask up to the second `until` next; `seen`: ids of that second that came already."""
        self._until, self._seen, self._repeats = until, seen, 0

    def _stay(self, sent: StoredFrames, second: int, here: set[str]) -> None:
        """The page has nothing below the second it began at: the end, or a second too dense."""
        fresh = bool(here - self._seen)
        cut = sent.second_may_be_cut(self._largest)
        self._seen |= here
        self._repeats += 1
        dense = cut or (fresh and self._repeats > _REPEATS)
        if dense and not self._ordered:  # these may as well be the oldest events of all
            self.disordered = self._ended = True
        elif dense:
            self.dense.append(second)
            self._step(second - 1, set())
        elif not fresh:
            self._ended = True

    def _doubts(self, inside: Sequence[Stamp]) -> bool:
        """Whether to ask again, as the relay may leave out the second of `until`.

        It shows where what was sent of that second does not come again; then `until` is one more.
        """
        newest = inside[0].created_at if inside else None
        if not self._seen or self._until is None or newest == self._until:
            return False
        if self.exclusive:  # it did not help: what was there is gone
            self.exclusive = False
            return False
        if self._doubted or (newest is not None and newest > self._until):
            return False
        self._doubted = self.exclusive = True
        if self._filter.until is not None:
            self._step(self._filter.until, set())
        return True


def is_newest_first(stamps: Sequence[Stamp]) -> bool:
    """Whether no event is newer than the one before it."""
    return all(one.created_at >= other.created_at for one, other in pairwise(stamps))
