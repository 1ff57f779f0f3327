"""Reads one filter's events from a relay that does not send newest first, by halves of time.

What such a relay leaves out of a full page can be anywhere in the range. So a range is read once
its answer cannot have been cut; otherwise its two halves are asked for. Decisions, without any I/O.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from nostr_client.codecs.messages import Hint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nostr_client.codecs.filters import Filter
    from nostr_client.protocol import Stamp, StoredFrames


class _Range(NamedTuple):
    """Seconds `since..until`, `until` None: open. `known`: ids that were sent of it before."""

    since: int
    until: int | None
    known: frozenset[str] = frozenset()


class HalvingReader:
    """The reading of one filter. Ask for `next_filter()`, pass the answer to `turn()`; until None.

    `dense` and `stalled` are as those of `Pager`. Newer halves come first.
    """

    def __init__(self, filter: Filter, *, page: int, exclusive: bool = False) -> None:
        self._filter = filter
        self._page = page
        self._largest = 0
        self._pending = [_Range(filter.since or 0, filter.until)]
        self.exclusive = exclusive
        """Whether the relay leaves out the second of `until`."""
        self.dense: list[int] = []
        self.stalled = ""

    def next_filter(self) -> Filter | None:
        """The filter of the next range, or None after the last one."""
        if not self._pending or self.stalled:
            return None
        since, until, _ = self._pending[-1]
        asked = None if until is None else until + self.exclusive
        return self._filter.replace(limit=self._page, since=since or None, until=asked)

    @property
    def frontier(self) -> int | None:
        """Every later second was read, dense ones in part; None: nothing yet."""
        if self.stalled or not self._pending or self._pending[-1].until == self._filter.until:
            return None
        return self._pending[-1].until

    def turn(self, sent: StoredFrames) -> bool:
        """Take in an answer that ended with EOSE; True where it was split into halves.

        Only pages of this reading show the relay's cap: at another time it may have had another.
        """
        asked = self._pending.pop()
        inside = sent.within(asked.since, asked.until)
        if not inside and (sent.frames or sent.hint is Hint.MORE):
            self.stalled = "the relay does not obey since and until"
        elif asked.known - {one.id for one in inside}:
            self._lack(asked)
        elif inside and sent.may_be_cut(self._largest):
            self._split(asked, inside, sent)
            self._largest = max(self._largest, sent.frames)
            return True
        return False

    def give_up(self, why: str) -> None:
        """End the reading as one that is not complete."""
        self.stalled = why

    def _lack(self, asked: _Range) -> None:
        """What came before did not come again: the relay leaves out an end, or is not consistent.

        Then nothing that it leaves out shows.
        """
        if self.exclusive:
            self.stalled = "the relay does not send again what it has sent"
            return
        self.exclusive = True
        self._pending.append(asked)

    def _split(self, asked: _Range, inside: Sequence[Stamp], sent: StoredFrames) -> None:
        times = sorted(one.created_at for one in inside)
        middle = times[(len(times) - 1) // 2]
        if asked.until is not None and middle >= asked.until:
            middle = asked.until - 1
        if middle < asked.since:
            if sent.second_may_be_cut(self._largest):
                self.dense.append(asked.since)
            return
        for since, until in ((asked.since, middle), (middle + 1, asked.until)):
            known = frozenset(
                one.id
                for one in inside
                if since <= one.created_at and (until is None or one.created_at <= until)
            )
            self._pending.append(_Range(since, until, known))
