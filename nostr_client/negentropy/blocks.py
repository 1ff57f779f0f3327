"""Choose what to send for ranges: fingerprints of their parts, or their ids."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nostr_client.negentropy.encoding import FINGERPRINT, SKIP, Block, Bound, Ranges

if TYPE_CHECKING:
    from nostr_client.negentropy.storage import Storage

BUCKETS = 16
"""Number of parts into which a range is split."""

LIST_BELOW = 2 * BUCKETS
"""A range with fewer items is sent as a list of its ids."""

TERSE_FROM = 4
"""From this many items on, a terse question sends a fingerprint instead of ids: see `split`."""


@dataclass(frozen=True, slots=True)
class RangeBlock:
    """Ranges of a message that was read, with the indexes of the local items in them."""

    floor: Bound
    ranges: Ranges
    lows: list[int]
    highs: list[int]

    def upper(self, at: int) -> Bound:
        """Return the upper bound of a range. At -1, return the lower bound of the first range."""
        return (self.ranges.stamps[at], self.ranges.prefixes[at]) if at >= 0 else self.floor

    def below(self, end: int) -> RangeBlock:
        """Return the first `end` ranges."""
        stamps, prefixes, modes, payloads = self.ranges
        ranges = Ranges(stamps[:end], prefixes[:end], modes[:end], payloads[:end])
        return RangeBlock(self.floor, ranges, self.lows[:end], self.highs[:end])


def locate(storage: Storage, ranges: Ranges, floor: Bound, low: int) -> RangeBlock:
    """Find the local items of ranges from `floor` on. The first item has index `low`."""
    highs = storage.lower_bounds(ranges.stamps, ranges.prefixes)
    return RangeBlock(floor, ranges, [low, *highs[:-1]], highs)


def settle(storage: Storage, span: RangeBlock) -> tuple[list[int], list[bytes]]:
    """Return the modes, with Skip for each fingerprint that is equal to the local one, and the
    prints.

    A print is the local fingerprint, or b"" if the message has no fingerprint for the range.
    """
    modes = list(span.ranges.modes)
    asked = [at for at, mode in enumerate(modes) if mode == FINGERPRINT]
    ours = storage.fingerprints([span.lows[at] for at in asked], [span.highs[at] for at in asked])
    prints = [b""] * len(modes)
    for at, fingerprint in zip(asked, ours, strict=True):
        prints[at] = fingerprint
        if fingerprint == span.ranges.payloads[at]:
            modes[at] = SKIP
    return modes, prints


def whole(storage: Storage, upper: Bound) -> list[Block]:
    """Return all items below `upper`, split."""
    ranges = Ranges([upper[0]], [upper[1]], [FINGERPRINT], [b""])
    return split(storage, RangeBlock((0, b""), ranges, [0], [len(storage)]), [FINGERPRINT])


def split(
    storage: Storage,
    span: RangeBlock,
    modes: list[int],
    *,
    merge: bool = False,
    terse: list[bytes] | None = None,
) -> list[Block]:
    """Choose the answer to each range: nothing for a Skip, parts or ids for a Fingerprint, else
    ids.

    `merge`: neighbouring ranges without local items become one. There are then never many more
    ranges than items, even if a hostile message has very many ranges.

    `terse`: the local fingerprint of each range. A short range that differs is then asked for with
    this fingerprint of 16 bytes instead of ids. The other side has another fingerprint, and so
    answers with its ids.
    """
    lows: list[int] = []
    highs: list[int] = []
    cuts: list[int] = []
    for mode, low, high in zip(modes, span.lows, span.highs, strict=True):
        if mode == FINGERPRINT and high - low >= LIST_BELOW:
            size, longer = divmod(high - low, BUCKETS)
            middle = low + longer * (size + 1)
            parts = [*range(low, middle, size + 1), *range(middle, high, size)]
            lows += parts
            del parts[0]
            cuts += parts
            highs += parts
            highs.append(high)
    prints = storage.fingerprints(lows, highs) if lows else []
    stamps, prefixes = storage.separators(cuts) if cuts else ([], [])
    return _assemble(span, modes, _Parts(lows, stamps, prefixes, prints), merge, terse)


@dataclass(slots=True)
class _Parts:
    """Parts of all split ranges: for each range 16 `lows` and `prints`, and 15 inner bounds."""

    lows: list[int]
    stamps: list[int]
    prefixes: list[bytes]
    prints: list[bytes]


def _assemble(
    span: RangeBlock, modes: list[int], parts: _Parts, merge: bool, terse: list[bytes] | None
) -> list[Block]:
    blocks: list[Block] = []
    block: Block | None = None
    at = cut = 0
    columns = zip(
        modes, span.ranges.stamps, span.ranges.prefixes, span.lows, span.highs, strict=True
    )
    for index, (mode, stamp, prefix, low, high) in enumerate(columns):
        if mode == SKIP:
            block = None
            continue
        if block is None:
            block = Block(span.upper(index - 1))
            blocks.append(block)
        if mode == FINGERPRINT and high - low >= LIST_BELOW:
            block.lows += parts.lows[at : at + BUCKETS]
            block.prints += parts.prints[at : at + BUCKETS]
            block.stamps += parts.stamps[cut : cut + BUCKETS - 1]
            block.prefixes += parts.prefixes[cut : cut + BUCKETS - 1]
            at += BUCKETS
            cut += BUCKETS - 1
        elif merge and low == high and block.prints and block.lows[-1] == low:
            block.stamps[-1], block.prefixes[-1] = stamp, prefix
            continue
        else:
            block.lows.append(low)
            block.prints.append(terse[index] if terse and high - low >= TERSE_FROM else None)
        block.stamps.append(stamp)
        block.prefixes.append(prefix)
        block.high = high
    return blocks
