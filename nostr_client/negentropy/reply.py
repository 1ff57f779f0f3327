"""Reading the responder's reply against what was asked.

What was asked is a row of ranges that ascend, and what was not yet asked follows them. A reply
goes through the ranges in order: it skips what is equal, splits or lists what is not, and where
its frame is full it ends with one range for all the rest. That last range says nothing new about
what was asked in it, so those ranges are simply asked again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nostr_client.negentropy.blocks import LIST_BELOW, RangeBlock, locate, settle, split
from nostr_client.negentropy.encoding import FINGERPRINT, ID_LIST, INFINITY, SKIP, Block, Bound
from nostr_client.negentropy.matching import differences

if TYPE_CHECKING:
    from nostr_client.negentropy.encoding import MessageReader
    from nostr_client.negentropy.storage import Storage

_CHUNK = 4096


class Reply:
    """One reply in the reading; `asked` and `later` are the blocks said and not said yet.

    `have` and `need` hold packed ids. `answered` is the number of ranges that were answered
    before the other side's frame was full, None where it was not. `terse` as for `split`.
    """

    def __init__(
        self, storage: Storage, asked: list[Block], later: list[Block], *, terse: bool
    ) -> None:
        self._storage = storage
        self._asked = asked
        self._later = later
        self._terse = terse
        self._floor: Bound = (0, b"")
        self._low = 0
        self._settled: Bound = (0, b"")
        self._fresh: list[Block] = []
        self.have: list[bytes] = []
        self.need: list[bytes] = []
        self.answered: int | None = None

    def read(self, reader: MessageReader) -> list[Block]:
        """All that is still unsettled, lowest first.

        Raises NegentropyError.
        """
        while not reader.exhausted and self.answered is None:
            self._read(locate(self._storage, reader.read(_CHUNK), self._floor, self._low))
        rest = self._later if self.answered is None else self._asked + self._later
        return self._fresh + above(self._storage, rest, self._settled)

    def _read(self, span: RangeBlock) -> None:
        modes, prints = settle(self._storage, span)
        rest = self._find_rest(span, modes)
        if rest is not None:
            span = span.below(rest)
            del modes[rest:]
        else:
            self._settle(span, modes)
        self._compare(span, modes)
        unlike = [SKIP if mode == ID_LIST else mode for mode in modes]
        terse = prints if self._terse else None
        self._fresh += split(self._storage, span, unlike, merge=True, terse=terse)
        if modes:
            self._floor, self._low = span.upper(len(modes) - 1), span.highs[-1]

    def _compare(self, span: RangeBlock, modes: list[int]) -> None:
        listed = [at for at, mode in enumerate(modes) if mode == ID_LIST]
        ours = [self._storage.ids(span.lows[at], span.highs[at]) for at in listed]
        theirs = [span.ranges.payloads[at] for at in listed]
        for found, ids in zip((self.have, self.need), differences(ours, theirs), strict=True):
            if ids:
                found.append(ids)

    def _settle(self, span: RangeBlock, modes: list[int]) -> None:
        """Note how far the other side has spoken; its own Skips say nothing."""
        for at in reversed(range(len(modes))):
            if modes[at] != SKIP or span.ranges.modes[at] == FINGERPRINT:
                self._settled = span.upper(at)
                return

    def _find_rest(self, span: RangeBlock, modes: list[int]) -> int | None:
        """The index of the differing range that is the rest of a full frame, if there is one."""
        for at in range(len(modes) - 1, -1, -1):
            if span.ranges.stamps[at] != INFINITY:
                return None
            if modes[at] == FINGERPRINT:
                floor = span.upper(at - 1)
                answered = self._answered(floor)
                if answered is not None:
                    self._settled, self.answered = floor, answered
                    return at
        return None

    def _answered(self, floor: Bound) -> int | None:
        """How many ranges were answered below `floor`; None where the rest is one range itself."""
        key, count = _key(floor), 0
        if key <= _key(self._asked[0].floor):
            return None  # Nothing was answered at all: to ask the same again would never end.
        for block in self._asked:
            for part in range(len(block)):
                upper = _key(block.upper(part))
                if upper > key:
                    return count if upper[0] != INFINITY else None
                count += 1
        return count


def above(storage: Storage, blocks: list[Block], bound: Bound) -> list[Block]:
    """What of these ascending blocks lies above a bound, a range that it cuts included."""
    key = _key(bound)
    for at, block in enumerate(blocks):
        if _key(block.upper(-1)) > key:
            return [*_cut(storage, block, bound), *blocks[at + 1 :]]
    return []


def _cut(storage: Storage, block: Block, bound: Bound) -> list[Block]:
    """The ranges of a block above a bound: whole ones, and what it leaves of the first."""
    key, part = _key(bound), 0
    if _key(block.floor) >= key:
        return [block]
    while _key(block.upper(part)) <= key:
        part += 1
    rest = block.part(part, len(block))
    if _key(rest.floor) < key:
        (low,) = storage.lower_bounds([bound[0]], [bound[1]])
        high = rest.highs()[0]
        rest.floor, rest.lows[0] = bound, low
        rest.prints[0] = None
        if high - low >= LIST_BELOW:
            (rest.prints[0],) = storage.fingerprints([low], [high])
    return [rest]


def _key(bound: Bound) -> Bound:
    """A bound that compares: a prefix stands for an id filled up with zeros."""
    return bound[0], bound[1].rstrip(b"\0")
