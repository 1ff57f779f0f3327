"""Reads one filter's events backwards in time, page by page: the decisions, without any I/O.

A relay answers a REQ with its newest events, up to a cap that it may not state. The next page asks
`until` the oldest second sent, that second included, as the cap may have cut it. A page is turned
by what the relay sent, not by what was kept of it.

The reading ends where the relay says `finish` (NIP-67), or where a further REQ brings nothing new.
A second that may hold more events than the relay sends at once is reported and passed. Pages that
are not ordered newest first end the reading: `halving` reads such a relay.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

from nostr_client.messages import Hint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nostr_client.filters import Filter
    from nostr_client.protocol import Sent, Stamp

PAGE: Final = 500
"""Events asked for at once: the cap of most relays; a larger one would be cut anyway."""

_REPEATS: Final = 2
"""REQs for one second that may bring new events: more come only from events written meanwhile."""


class Pager:
    """The reading of one filter. Ask for `next_filter()`, pass the answer to `turn()`; until None.

    `dense`: seconds of which the relay may hold more than it sent. `stalled`: the relay sends
    events outside of the range instead of those inside. `disordered`: a page was not ordered newest
    first, or none showed the order before a second was cut. The reading is complete when it ended
    with none of these.
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
        self.exclusive = exclusive
        """Whether the relay leaves out the second of `until`."""
        self.dense: list[int] = []
        self.stalled = ""
        self.disordered = False

    def next_filter(self) -> Filter | None:
        """The filter of the next page, or None after the last one."""
        if self._ended or (self._until is not None and self._until < self._since):
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

    def turn(self, sent: Sent, largest: int = 0) -> bool:
        """Take in a page that ended with EOSE; False at the end of the reading.

        `largest`: the largest page that this relay is known to have sent before.
        """
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

    def _go_on(self, sent: Sent, inside: Sequence[Stamp]) -> None:
        if not inside:
            self._ended = True
            if sent.frames or sent.hint is Hint.MORE:
                self.stalled = "the relay does not page by until"
            return
        if sent.finished:
            self._ended = True
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

    def _step(self, until: int, seen: set[str]) -> None:
        self._until, self._seen, self._repeats = until, seen, 0

    def _stay(self, sent: Sent, second: int, here: set[str]) -> None:
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
