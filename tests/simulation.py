"""Made-up relays for rounds of reading: the clock is a number, no sockets, the truth is known."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from enum import StrEnum
from hashlib import sha256
from typing import TYPE_CHECKING

from nostr_client.codecs.filters import Filter
from nostr_client.codecs.messages import Hint
from nostr_client.count.claims import HeldEvent
from nostr_client.count.reading.rounds import AskCount, ReadPage, ReadRound
from nostr_client.protocol import Stamp, StoredFrames

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from nostr_client.count.claims import Memory


def event(at: int, author: int, n: int = 0, amount: int = 0) -> HeldEvent:
    """An event of a numbered person; `n` tells several of one second apart."""
    key = sha256(b"person %d" % author).digest()
    return HeldEvent(at, sha256(b"%d %d %d" % (at, author, n)).digest(), key, amount)


class Order(StrEnum):
    """Which events a relay sends where its cap cuts them, and how they are ordered."""

    NEWEST = "the newest, newest first"
    OLDEST = "the oldest, oldest first"
    TURNED = "the newest, oldest first"
    ANY = "any, by id"
    OLDEST_TURNED = "the oldest, newest first"


class SimRelay:
    """Events in the order of time, given as a relay gives them: newest first, up to a cap.

    `hints`: it says `finish` and `more` (NIP-67). `exclusive`: it leaves out the second of `until`.
    """

    def __init__(
        self,
        events: Iterable[HeldEvent] = (),
        *,
        cap: int = 500,
        order: Order = Order.NEWEST,
        hints: bool = False,
        exclusive: bool = False,
    ) -> None:
        self.cap = cap
        self.order = order
        self.hints = hints
        self.exclusive = exclusive
        self.read = 0
        self.asked = 0
        self.counts = 0
        self._events: dict[bytes, HeldEvent] = {}
        self._times: list[tuple[int, bytes]] = []
        for one in events:
            self.add(one)

    def add(self, one: HeldEvent) -> None:
        if one.id not in self._events:
            self._events[one.id] = one
            insort(self._times, (one.created_at, one.id))

    def remove(self, id: bytes) -> None:
        one = self._events.pop(id, None)
        if one is not None:
            del self._times[bisect_left(self._times, (one.created_at, one.id))]

    @property
    def events(self) -> dict[bytes, HeldEvent]:
        return self._events

    def page(self, asked: Filter) -> list[HeldEvent]:
        """What a REQ gives."""
        return self.answer(asked)[0]

    def answer(self, asked: Filter) -> tuple[list[HeldEvent], StoredFrames]:
        """What a REQ gives, and the same as the reader sees it."""
        self.asked += 1
        if self.exclusive and asked.until is not None:
            asked = asked.replace(until=asked.until - 1) if asked.until else Filter(ids=[])
        matching = self._matching(asked)
        most = min(self.cap, asked.limit or self.cap)
        found = self._chosen(matching, most)
        self.read += len(found)
        hint = (Hint.FINISH if len(found) == len(matching) else Hint.MORE) if self.hints else None
        return found, sent(found, asked, hint)

    def _matching(self, asked: Filter) -> list[HeldEvent]:
        """What matches, oldest first."""
        if asked.matches_nothing:
            return []
        low, high = self._range(asked)
        return [self._events[id] for _, id in self._times[low:high]]

    def _chosen(self, matching: list[HeldEvent], most: int) -> list[HeldEvent]:
        match self.order:
            case Order.NEWEST:
                return matching[-most:][::-1]
            case Order.TURNED:
                return matching[-most:]
            case Order.OLDEST:
                return matching[:most]
            case Order.OLDEST_TURNED:
                return matching[:most][::-1]
            case Order.ANY:
                page = sorted(matching, key=lambda one: one.id)[:most]
                times = [one.created_at for one in page]
                by_chance = times == sorted(times, reverse=True)
                return page[::-1] if by_chance else page

    def count(self, asked: Filter) -> int:
        """What a COUNT gives."""
        self.counts += 1
        low, high = self._range(asked)
        return high - low

    def _range(self, asked: Filter) -> tuple[int, int]:
        low = bisect_left(self._times, (asked.since or 0, b""))
        until = 2**62 if asked.until is None else asked.until
        return low, bisect_right(self._times, (until, b"\xff" * 33))


def sent(page: Sequence[HeldEvent], asked: Filter, hint: Hint | None = None) -> StoredFrames:
    """A page as the relay sent it, where every frame was good."""
    stamps = tuple(Stamp(one.created_at, one.id.hex()) for one in page)
    return StoredFrames(stamps=stamps, limit=asked.limit, hint=hint)


def drive(
    reading: ReadRound,
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
                    reading.page(*relay.answer(asked))
                    pages += 1
                case AskCount(asked):
                    reading.count(relay.count(asked) if countable else None)
            if most is not None and pages >= most:
                reading.stop()
        between()
    return relay.read - before
