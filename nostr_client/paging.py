"""Reading a relay's events backwards, page by page, without skipping any: the decisions alone.

A relay answers a REQ with the newest events up to a cap that it may not tell. The next page asks
`until` the oldest second seen, that second included, as the cap may have cut it. A second that
holds more events than a page can not be passed that way: it is reported, never skipped silently.
Some relays do not count the second of `until` in; that shows where what was seen of it does not
come again, and then a second more is asked for. Pure: no clock, no
network.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nostr_client.filters import Filter

PAGE = 500
"""Events asked for at once: the cap of most relays; a larger one would be cut anyway."""

ROUND = 50
"""Caps that relays do not tell are multiples of this: 100, 250, 300, 500, 1000 are in use."""


class Pager:
    """The walk over one filter. Ask for `next_filter()`, tell `turn()` what came; until None.

    `cap` is the relay's own maximum where it told one (NIP-11 `max_limit`). `dense` are the
    seconds of which the relay may hold more than it gave. `stalled` is set where pages came that
    did not obey `until`. The walk is complete when it ended with neither.
    """

    def __init__(
        self, filter: Filter, *, page: int = PAGE, cap: int | None = None, exclusive: bool = False
    ) -> None:
        self._filter = filter
        self._page = page
        self._cap = min(page, cap or page)
        self._until = filter.until
        self._largest = 0
        self._suspect: tuple[int, int] | None = None
        self._ended = False
        self._next: Filter | None = None
        self._seen = False  # whether an event of the second `_until` was seen
        self._doubted = False
        self.exclusive = exclusive
        """Whether the relay leaves out the second of `until`."""
        self.dense: list[int] = []
        self.stalled = False

    def next_filter(self) -> Filter | None:
        """The filter of the next page, or None after the last one."""
        since = self._filter.since
        if self._ended or (self._until is not None and self._until < (since or 0)):
            return None
        until = None if self._until is None else self._until + self.exclusive
        if self._next is None or self._next.until != until:
            self._next = self._filter.replace(limit=self._page, until=until)
        return self._next

    @property
    def complete(self) -> bool:
        """True when the walk ended and nothing is known to be missing."""
        return self.next_filter() is None and not self.dense and not self.stalled

    def turn(
        self,
        received: int,
        fresh: int,
        oldest: int | None,
        newest: int | None,
        *,
        largest: int = 0,
    ) -> None:
        """Take note of a page that ended with EOSE.

        `received` counts its frames, good and bad (a page is full by frames, not by events that
        hold); `fresh` the matching events not seen before; `oldest` and `newest` the times of the
        matching events, None without any. `largest`: the largest page that this relay gave before.
        """
        if self._doubts(newest):
            return
        if self._suspect is not None:
            second, size = self._suspect
            if received or _looks_cut(size, largest):
                self.dense.append(second)
            self._suspect = None
        if oldest is None or newest is None:
            self._ended = True
            self.stalled = received > 0
            return
        full = received >= self._largest
        self._largest = max(self._largest, received)
        moved = bool(fresh or (self._until is not None and oldest < self._until))
        self._seen = moved
        if moved:
            self._until = oldest
        elif oldest == newest and full:
            self._until = oldest - 1
            last = self.next_filter() is None  # no page will follow that could tell
            if received >= self._cap or (last and _looks_cut(received, largest)):
                self.dense.append(oldest)
            elif not last:
                self._suspect = (oldest, received)
        else:
            self._ended = True

    def _doubts(self, newest: int | None) -> bool:
        """Whether the same is to be asked anew, as the relay may leave out the second `_until`."""
        if not self._seen or self._until is None or newest == self._until:
            return False
        if self.exclusive:  # it did not help: what was there is gone
            self.exclusive = False
            return False
        if self._doubted or (newest is not None and newest > self._until):
            return False
        self._doubted = self.exclusive = True
        if self._filter.until is not None:
            self._until, self._seen = self._filter.until, False
        return True


def _looks_cut(size: int, largest: int) -> bool:
    """Whether a page has the size of a cap that the relay did not tell."""
    return size >= ROUND and size % ROUND == 0 and size >= largest
