"""Two answering sides compared by somebody who holds neither set, without I/O.

Both sides only answer (`Responder`). The one between them asks one side what it says of a range by
a fingerprint that nobody has; the parts of the answer, each with a fingerprint of that side, are
asked of the other side, whose parts go back to the first, until short ranges are said by ids.
What both say of a range is then compared, and forgotten. So the bytes grow with what differs, and
what is held with the ranges under way, not with the sets.

    bridge = Bridge(os.urandom(16))
    while not bridge.done:
        for side in (0, 1):
            if (message := bridge.ask(side, 50_000)) is not None:
                only = bridge.hear(side, answers[side].reconcile(message))

No range that is asked by fingerprint ends at infinity. A fingerprint up to infinity is therefore
always the rest of a full frame, which is never believed: what was not answered is asked again.
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
"""Unix time from which events are compared by their ids alone: some relays count in 32 bits."""

MOST_RANGES: Final = 200_000
"""Ranges under way, about 70 MB; two sets of ten million that differ in 1 % need a third of it."""

MOST_IDS: Final = 400_000
"""Ids held of them, about 30 MB."""

_ASKED: Final = 2_000
"""Ranges in one message: each can come back as sixteen."""

_MANY: Final = 20_000
"""Ranges that wait for one side, above which the other is asked for no further ones."""

_READ: Final = 4096


class DifferingIds(NamedTuple):
    """Ids that one side has and the other lacks: of side 0, and of side 1."""

    first: Ids
    second: Ids


class BridgeRange:
    """A range to be asked of one side.

    By `print`, the other side's fingerprint, or where that is None by ids: `unmet` are then those
    of the other side that this one has not named yet, None where the other was not asked yet.
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
        """Ids that are held for it."""
        return len(self.unmet or ()) + len(self.named)


class Bridge:
    """See the module; `unlike` is a fingerprint that no side has, `until` the newest timestamp.

    Both `ask` and `hear` take the side, 0 or 1. `again` after a session was lost: what it was
    asked and did not answer is asked again.
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
        """Nothing is left to ask, and nothing to hear."""
        return not any((*map(len, self._waiting), *self._asked))

    def again(self, side: int) -> None:
        """The answer to the last question will not come."""
        for span in self._asked[side]:
            span.answered = span.floor
        self._waiting[side].put(self._asked[side])
        self._asked[side].clear()

    def ask(self, side: int, frame_limit: int) -> bytes | None:
        """The next message to a side; None: it is to be asked nothing now.

        Ranges by ids come first, since they end a search and ids are held for them, then the
        lowest.
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
        """Take a side's answer; the ids found in it that are on one side only.

        Raises NegentropyError for an answer to another question, or too long a one.
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
    """What a side is to be asked, in order: ranges by ids, and by fingerprint."""

    def __init__(self) -> None:
        self.lists: list[BridgeRange] = []
        self.prints: list[BridgeRange] = []

    def __len__(self) -> int:
        return len(self.lists) + len(self.prints)

    def put(self, spans: Iterable[BridgeRange]) -> None:
        """Add these."""
        for span in spans:
            row = self.lists if span.print is None else self.prints
            bisect.insort(row, span, key=_floor)

    def take(self, most: int, *, prints: bool) -> list[BridgeRange]:
        """Remove and give so many, in order; without `prints` those by ids alone."""
        lists = self.lists[:most]
        prints_ = self.prints[: most - len(lists) if prints else 0]
        del self.lists[: len(lists)], self.prints[: len(prints_)]
        return sorted((*lists, *prints_), key=_floor)


class _Answer:
    """One answer in the reading, against what was asked in ascending order."""

    def __init__(self, asked: Sequence[BridgeRange]) -> None:
        self._asked = asked
        self._at = 0
        self._rest: Bound | None = None
        self.for_other: list[BridgeRange] = []
        self.mine: list[bytes] = []
        """Ids that only the answering side has."""
        self.others: list[bytes] = []

    def read(self, reader: MessageReader) -> None:
        """Take every range, until the rest of a full frame."""
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
        """What has to be asked again; the others are settled."""
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
    """What of a span was not answered."""
    if span.print is not None and span.answered > span.floor:
        return BridgeRange(span.answered, span.upper, unlike)
    span.floor = span.answered
    return span


def _blocks(spans: Sequence[BridgeRange]) -> list[Block]:
    """Neighbouring spans as one block each."""
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
