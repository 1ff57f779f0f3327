"""Made-up relays for rounds of reading: the clock is a number, no sockets, the truth is known."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from hashlib import sha256
from typing import TYPE_CHECKING

from nostr_client.claims import Held
from nostr_client.count.rounds import AskCount, ReadPage, Round

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from nostr_client.claims import Memory
    from nostr_client.filters import Filter

Order = tuple[int, bytes]


def event(at: int, author: int, n: int = 0, amount: int = 0) -> Held:
    """An event of a numbered person; `n` tells several of one second apart."""
    key = sha256(b"person %d" % author).digest()
    return Held(at, sha256(b"%d %d %d" % (at, author, n)).digest(), key, amount)


class SimRelay:
    """Events in the order of time, given as a relay gives them: newest first, up to a cap."""

    def __init__(self, events: Iterable[Held] = (), *, cap: int = 500) -> None:
        self.cap = cap
        self.read = 0
        self.counts = 0
        self._events: dict[bytes, Held] = {}
        self._order: list[Order] = []
        for one in events:
            self.add(one)

    def add(self, one: Held) -> None:
        if one.id not in self._events:
            self._events[one.id] = one
            insort(self._order, (one.created_at, one.id))

    def remove(self, id: bytes) -> None:
        one = self._events.pop(id, None)
        if one is not None:
            del self._order[bisect_left(self._order, (one.created_at, one.id))]

    @property
    def events(self) -> dict[bytes, Held]:
        return self._events

    def page(self, asked: Filter) -> list[Held]:
        """What a REQ gives."""
        low, high = self._range(asked)
        most = min(self.cap, asked.limit or self.cap)
        found = self._order[max(low, high - most) : high]
        self.read += len(found)
        return [self._events[id] for _, id in reversed(found)]

    def count(self, asked: Filter) -> int:
        """What a COUNT gives."""
        self.counts += 1
        low, high = self._range(asked)
        return high - low

    def _range(self, asked: Filter) -> tuple[int, int]:
        low = bisect_left(self._order, (asked.since or 0, b""))
        until = 2**62 if asked.until is None else asked.until
        return low, bisect_right(self._order, (until, b"\xff" * 33))


def drive(
    reading: Round,
    memory: Memory,
    relay: SimRelay,
    *,
    countable: bool = True,
    most: int | None = None,
    between: Callable[[], None] = lambda: None,
) -> int:
    """Run a round to its end; gives the number of events read. `between` is called at each step.

    `most`: pages after which the round is stopped.
    """
    before, pages = relay.read, 0
    while reading.advance(memory):
        while (question := reading.question) is not None:
            between()
            match question:
                case ReadPage(asked):
                    page = relay.page(asked)
                    reading.page(page, len(page))
                    pages += 1
                case AskCount(asked):
                    reading.count(relay.count(asked) if countable else None)
            if most is not None and pages >= most:
                reading.stop()
        between()
    return relay.read - before
