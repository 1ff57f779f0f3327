"""Compare two answering sides without either set and without I/O.

Both sides only answer (`Responder`). The bridge asks one side about a range with a fingerprint that
no side has. The answer has parts of the range, each with a fingerprint of that side. The bridge
then asks the other side about these parts. So parts go back and forth until short ranges come as
ids. The bridge compares the ids of both sides in a range, and forgets them. The bytes therefore
grow with the difference. The memory grows with the open ranges, not with the sets.

    bridge = Bridge(os.urandom(16))
    while not bridge.done:
        for side in (0, 1):
            if (message := bridge.ask(side, 50_000)) is not None:
                only = bridge.hear(side, answers[side].reconcile(message))

No range that is asked by fingerprint ends at infinity. A fingerprint up to infinity is therefore
always the rest of a full frame. The bridge never believes it, and asks again for what is missing.
"""

from __future__ import annotations

import bisect
from typing import TYPE_CHECKING, Final, NamedTuple

from nostr_client.errors import NegentropyError
from nostr_client.negentropy.encoding import (
    FINGERPRINT,
    FINGERPRINT_SIZE,
    INFINITY,
    PROTOCOL_VERSION,
    SKIP,
    Block,
    Bound,
    MessageReader,
    MessageWriter,
)
from nostr_client.negentropy.matching import Ids

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

FAR: Final = 2**31 - 2
"""Unix time from which events are compared only by ids. Some relays use 32 bits for times."""

MOST_RANGES: Final = 200_000
"""Most open ranges, about 70 MB.

Two sets of ten million items that differ in 1 % need a third of them.
"""

MOST_IDS: Final = 400_000
"""Most ids in memory for these ranges, about 30 MB."""

_ASKED: Final = 2_000
"""Most ranges in one message. Each can come back as sixteen ranges."""

_MANY: Final = 20_000
"""If more ranges than this wait for one side, the other side gets no new fingerprint ranges."""

_READ: Final = 4096


class DifferingIds(NamedTuple):
    """Ids that only one side has: `first` of side 0, `second` of side 1."""

    first: Ids
    second: Ids


class BridgeRange:
    """Range to ask one side about.

    The question has `print`, the other side's fingerprint. If `print` is None, it asks for ids.
    `unmet` then has the other side's ids that this side has not named yet. It is None if the other
    side was not asked yet.
    """

    __slots__ = ("answered", "begin", "floor", "named", "print", "unmet", "upper")

    def __init__(
        self,
        floor: Bound,
        upper: Bound,
        print_: bytes | None = None,
        unmet: dict[bytes, None] | None = None,
    ) -> None:
        self.begin = self.floor = self.answered = floor
        self.upper = upper
        self.print = print_
        self.unmet = unmet
        self.named: list[bytes] = []

    @property
    def held(self) -> int:
        """The number of ids in memory for the range."""
        return len(self.unmet or ()) + len(self.named)


class Bridge:
    """Comparison of two sides, as the module describes.

    `unlike` is a fingerprint that no side has. `until` is the newest timestamp. `ask` and `hear`
    take the side, 0 or 1. Call `again` after a session was lost, to repeat the questions without an
    answer.
    """

    def __init__(self, unlike: bytes, *, until: int | None = None) -> None:
        assert len(unlike) == FINGERPRINT_SIZE
        self._unlike = unlike
        end: Bound = (FAR if until is None else min(until + 1, FAR), b"")
        self._waiting = (_Waiting(), _Waiting())
        self._waiting[0].put([BridgeRange((0, b""), end, unlike)])
        if until is None or until >= FAR:
            self._waiting[0].put([BridgeRange(end, (INFINITY, b""))])
        self._asked: tuple[list[BridgeRange], list[BridgeRange]] = ([], [])

    @property
    def done(self) -> bool:
        """Whether no question is left and no answer is due."""
        return not any((*map(len, self._waiting), *self._asked))

    def again(self, side: int) -> None:
        """Repeat the last question, because its answer will not come."""
        for span in self._asked[side]:
            span.answered = span.floor
        self._waiting[side].put(self._asked[side])
        self._asked[side].clear()

    def ask(self, side: int, frame_limit: int) -> bytes | None:
        """Return the next message to a side, or None if the side must not be asked now.

        Ranges by ids come first, because they end a search and their ids use memory. Then the
        lowest ranges come.
        """
        waiting, others = self._waiting[side], self._waiting[1 - side]
        crowded = len(others) > max(_MANY, len(waiting))
        chosen = [] if self._asked[side] else waiting.take(_ASKED, prints=not crowded)
        if not chosen:
            return None
        writer = MessageWriter(frame_limit)
        for block in _blocks(chosen):
            said = len(self._asked[side])
            written = writer.write(block, lambda low, high: b"")
            self._asked[side].extend(chosen[said : said + written])
            if written < len(block):
                break
        waiting.put(chosen[len(self._asked[side]) :])
        return writer.message()

    def hear(self, side: int, message: bytes) -> DifferingIds:
        """Process a side's answer. Return the ids in the answer that only one side has.

        Raises NegentropyError if the answer is too long, or belongs to another question.
        """
        reader = MessageReader(message)
        if reader.version != PROTOCOL_VERSION:
            raise NegentropyError("another version of the protocol", kind="unsupported-version")
        asked = self._asked[side][:]
        self._asked[side].clear()
        answer = _Answer(asked)
        answer.read(reader)
        self._waiting[side].put(answer.left(self._unlike))
        self._waiting[1 - side].put(answer.for_other)
        self._check()
        mine, others = Ids(b"".join(answer.mine)), Ids(b"".join(answer.others))
        return DifferingIds(others, mine) if side else DifferingIds(mine, others)

    def _check(self) -> None:
        ids = sum(span.held for waiting in self._waiting for span in waiting.lists)
        if sum(map(len, self._waiting)) > MOST_RANGES or ids > MOST_IDS:
            raise NegentropyError("more ranges than there can be", kind="too-many-ranges")


class _Waiting:
    """Ranges to ask one side about, in order: those by ids, and those by fingerprint."""

    def __init__(self) -> None:
        self.lists: list[BridgeRange] = []
        self.prints: list[BridgeRange] = []

    def __len__(self) -> int:
        return len(self.lists) + len(self.prints)

    def put(self, spans: Iterable[BridgeRange]) -> None:
        """Add ranges."""
        for span in spans:
            row = self.lists if span.print is None else self.prints
            bisect.insort(row, span, key=_floor)

    def take(self, most: int, *, prints: bool) -> list[BridgeRange]:
        """Remove and return the first `most` ranges. Without `prints`, only those by ids."""
        lists = self.lists[:most]
        prints_ = self.prints[: most - len(lists) if prints else 0]
        del self.lists[: len(lists)], self.prints[: len(prints_)]
        return sorted((*lists, *prints_), key=_floor)


class _Answer:
    """Reads one answer and compares it with the question. Both ascend."""

    def __init__(self, asked: Sequence[BridgeRange]) -> None:
        self._asked = asked
        self._at = 0
        self._rest: Bound | None = None
        self.for_other: list[BridgeRange] = []
        self.mine: list[bytes] = []
        """Ids that only the answering side has."""
        self.others: list[bytes] = []

    def read(self, reader: MessageReader) -> None:
        """Read every range up to the rest of a full frame."""
        floor: Bound = (0, b"")
        while not reader.exhausted:
            for stamp, prefix, mode, payload in zip(*reader.read(_READ), strict=True):
                if mode == FINGERPRINT and stamp == INFINITY:
                    self._rest = floor
                    return
                upper = (stamp, prefix.rstrip(b"\0"))
                if mode != SKIP:
                    self._take(floor, upper, mode, payload)
                floor = upper

    def _take(self, floor: Bound, upper: Bound, mode: int, payload: bytes) -> None:
        while self._at < len(self._asked) and self._asked[self._at].upper <= floor:
            self._at += 1
        for span in self._asked[self._at :]:
            if span.floor >= upper:
                return
            if payload and (floor < span.floor or span.upper < upper):
                raise NegentropyError("a range that was not asked for", kind="bad-bound-order")
            low, high = max(floor, span.floor), min(upper, span.upper)
            if low != span.answered:
                raise NegentropyError("an answer with a gap", kind="bad-bound-order")
            span.answered = high
            self._piece(span, low, high, mode, payload)

    def _piece(self, span: BridgeRange, low: Bound, high: Bound, mode: int, payload: bytes) -> None:
        if span.print is not None and mode == FINGERPRINT:
            self.for_other.append(BridgeRange(low, high, payload))
        elif span.print is not None:
            self.for_other.append(BridgeRange(low, high, unmet=dict.fromkeys(Ids(payload))))
        elif mode == FINGERPRINT:
            raise NegentropyError("a fingerprint where ids were due", kind="bad-mode")
        elif span.unmet is None:
            span.named += Ids(payload)
        else:
            for key in Ids(payload):
                if key in span.unmet:
                    del span.unmet[key]
                else:
                    self.mine.append(key)

    def left(self, unlike: bytes) -> list[BridgeRange]:
        """Return the ranges to ask again. All others are settled."""
        again: list[BridgeRange] = []
        for span in self._asked:
            if span.answered < span.upper and self._rest is not None and span.upper > self._rest:
                again.append(_remainder(span, unlike))
            elif span.print is None:
                self._listed(span)
            elif span.floor < span.answered < span.upper:
                raise NegentropyError("an answer to a part", kind="bad-bound-order")
        return again

    def _listed(self, span: BridgeRange) -> None:
        if span.unmet is None:
            named = dict.fromkeys(span.named)
            self.for_other.append(BridgeRange(span.begin, span.upper, unmet=named))
        else:
            self.others += span.unmet


def _remainder(span: BridgeRange, unlike: bytes) -> BridgeRange:
    """Return the part of a range that has no answer."""
    if span.print is not None and span.answered > span.floor:
        return BridgeRange(span.answered, span.upper, unlike)
    span.floor = span.answered
    return span


def _blocks(spans: Sequence[BridgeRange]) -> list[Block]:
    """Return neighbouring ranges as one block each."""
    blocks: list[Block] = []
    for span in spans:
        if not blocks or blocks[-1].upper(-1) != span.floor:
            blocks.append(Block(span.floor))
        block = blocks[-1]
        block.stamps.append(span.upper[0])
        block.prefixes.append(span.upper[1])
        block.lows.append(0)
        block.prints.append(span.print)
    return blocks


def _floor(span: BridgeRange) -> Bound:
    return span.floor
