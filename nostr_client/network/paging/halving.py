"""Read the events of one filter by halves of time, from a relay that does not send newest first.

Such a relay may leave out any event of the range if a page is full. A range is read if its answer
cannot have been cut. Otherwise the reader asks for its two halves. The module decides and does no
I/O.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from nostr_client.codecs.messages import Hint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nostr_client.codecs.filters import Filter
    from nostr_client.protocol import Stamp, StoredFrames


class _Range(NamedTuple):
    """Range of seconds from `since` to `until`, or open if `until` is None.

    `known`: ids of events in the range that the relay sent before.
    """

    since: int
    until: int | None
    known: frozenset[str] = frozenset()


class HalvingReader:
    """Reads one filter. Send `next_filter()` and pass each answer to `turn()`, until it is None.

    `dense` and `stalled` are as in `Pager`. The newer half of a range comes first.
    """

    def __init__(self, filter: Filter, *, page: int, exclusive: bool = False) -> None:
        self._filter = filter
        self._page = page
        self._largest = 0
        self._pending = [_Range(filter.since or 0, filter.until)]
        self.exclusive = exclusive
        """Whether the relay leaves out events at the second of `until`."""
        self.dense: list[int] = []
        self.stalled = ""

    def next_filter(self) -> Filter | None:
        """Return the filter of the next range, or None after the last one."""
        if not self._pending or self.stalled:
            return None
        since, until, _ = self._pending[-1]
        asked = None if until is None else until + self.exclusive
        return self._filter.replace(limit=self._page, since=since or None, until=asked)

    @property
    def frontier(self) -> int | None:
        """The second after which every second was read, dense ones in part. None: nothing yet."""
        if self.stalled or not self._pending or self._pending[-1].until == self._filter.until:
            return None
        return self._pending[-1].until

    def turn(self, sent: StoredFrames) -> bool:
        """Process an answer that ended with EOSE. Return True if the range was split into halves.

        Only pages of this reading show the relay's cap, which may have been different earlier.
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
        """End the reading as incomplete."""
        self.stalled = why

    def _lack(self, asked: _Range) -> None:
        """Handle events that the relay sent before and did not send again.

        The relay leaves out the second of `until`, or it is not consistent. If it is not
        consistent, missing events cannot be noticed.
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
