"""Finding what changed at a relay by its own counts: a search by halves over time. Pure.

A relay without registers that does count is asked how many events it has, and how many of these
are recent. Where that is what is held, nothing was removed and nothing came late. Where it is not,
halves of the time line are counted, and only the short stretches that differ are read again: a few
COUNTs for one change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from nostr_client.claims import Memory

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
