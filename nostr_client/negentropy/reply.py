"""Read the responder's reply and compare it with the question.

The question is a row of ascending ranges, followed by ranges that were not sent yet. A reply goes
through the ranges in order. It skips equal ranges, and splits or lists the others. If its frame is
full, it ends with one range for all the rest. This last range says nothing new about the ranges in
it, so they are asked again.
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
    """Reads one reply. `asked` has the blocks that were sent, and `later` the others.

    `have` and `need` have packed ids. `answered` is the number of ranges that were answered before
    the other side's frame was full, or None if it was not full. `split` describes `terse`.
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
        """Return all ranges that are still open, lowest first.

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
        """Note up to which bound the other side answered. Its own Skips do not count."""
        for at in reversed(range(len(modes))):
            if modes[at] != SKIP or span.ranges.modes[at] == FINGERPRINT:
                self._settled = span.upper(at)
                return

    def _find_rest(self, span: RangeBlock, modes: list[int]) -> int | None:
        """Return the index of the differing range that is the rest of a full frame, or None."""
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
        """Return how many ranges were answered below `floor`, or None if the rest is one range
        itself.
        """
        key, count = _key(floor), 0
        if key <= _key(self._asked[0].floor):
            return None  # nothing was answered, and asking the same again would never end
        for block in self._asked:
            for part in range(len(block)):
                upper = _key(block.upper(part))
                if upper > key:
                    return count if upper[0] != INFINITY else None
                count += 1
        return count


def above(storage: Storage, blocks: list[Block], bound: Bound) -> list[Block]:
    """Return the parts of ascending blocks above a bound, with the upper part of a cut range."""
    key = _key(bound)
    for at, block in enumerate(blocks):
        if _key(block.upper(-1)) > key:
            return [*_cut(storage, block, bound), *blocks[at + 1 :]]
    return []


def _cut(storage: Storage, block: Block, bound: Bound) -> list[Block]:
    """Return the ranges of a block above a bound: whole ones, and the upper part of the first."""
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
    """Return a comparable bound. A prefix is an id filled up with zeros."""
    return bound[0], bound[1].rstrip(b"\0")
