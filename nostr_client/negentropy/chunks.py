"""Keep fingerprints of a changing set: a directory of chunks of about 1,024 items.

A chunk is a row of records. A record has 8 bytes of timestamp (big endian) and 32 bytes of id, so
records sort as items do. The head of a chunk has its first item, its number of items, and the sum
of their ids mod 2**256. Sums add and subtract, so a new or removed item changes one head and one
chunk. A session over millions of items reads the heads, and only those chunks that its ranges cut.

This module does no I/O. The caller gives the heads and a function that loads a chunk.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

from nostr_client.errors import InvalidInput
from nostr_client.negentropy.encoding import ID_SIZE, INFINITY, SUM_MASK, fingerprint_of
from nostr_client.negentropy.storage import check_item, separator

CHUNK_ITEMS = 1_024
"""Items of a chunk. One event rewrites 40 KB, and 10 million events have 10,000 heads."""

RECORD_SIZE = 8 + ID_SIZE
CACHED_CHUNKS = 64
"""Chunks that a session keeps in memory, about 7 MB. The next level cuts near the same places."""

Load = Callable[[int], bytes]
"""Returns the records of the chunk with this index in the directory."""


@dataclass(frozen=True, slots=True)
class ChunkHeader:
    """Head of a chunk: its first item, its number of items, and the sum of their ids."""

    stamp: int
    id: bytes
    count: int
    total: int

    @property
    def record(self) -> bytes:
        """The first item as a record."""
        return record(self.stamp, self.id)


def record(stamp: int, key: bytes) -> bytes:
    """Return an item as a record. Raises InvalidInput for an invalid item."""
    check_item(stamp, key)
    return stamp.to_bytes(8, "big") + key


def records(packed: bytes) -> list[bytes]:
    """Split packed records."""
    return [packed[at : at + RECORD_SIZE] for at in range(0, len(packed), RECORD_SIZE)]


def head_of(packed: bytes) -> ChunkHeader:
    """Return the head of a chunk, from its records.

    Raises InvalidInput if the chunk is damaged: empty, cut off, or not ascending.
    """
    rows = records(packed)
    if not rows or len(rows[-1]) != RECORD_SIZE:
        raise InvalidInput(f"a chunk of {len(packed)} bytes")
    if any(before >= after for before, after in pairwise(rows)):
        raise InvalidInput("the records of a chunk do not ascend")
    total = sum(int.from_bytes(row[8:], "little") for row in rows) & SUM_MASK
    return ChunkHeader(int.from_bytes(rows[0][:8], "big"), rows[0][8:], len(rows), total)


def chunks_of(stamps: Any, ids: Any) -> Iterator[bytes]:
    """Yield chunks of ordered columns: n timestamps (uint64) and n * 32 bytes of ids."""
    import numpy as np

    keys = np.frombuffer(memoryview(ids), dtype=np.uint8).reshape(-1, ID_SIZE)
    stamps = np.asarray(stamps, dtype=np.uint64)
    for begin in range(0, len(stamps), CHUNK_ITEMS):
        rows = slice(begin, begin + CHUNK_ITEMS)
        packed = np.empty((len(stamps[rows]), RECORD_SIZE), dtype=np.uint8)
        packed[:, :8] = stamps[rows].astype(">u8").view(np.uint8).reshape(-1, 8)
        packed[:, 8:] = keys[rows]
        yield packed.tobytes()


class ChunkedStorage:
    """Sealed set behind a directory. `heads` are in order. `load` returns the records of one chunk.

    The directory must not change during use, so take it from one snapshot. Errors of `load` pass
    through. Raises InvalidInput if a loaded chunk does not have as many records as its head says.
    """

    def __init__(
        self, heads: Sequence[ChunkHeader], load: Load, *, cached: int = CACHED_CHUNKS
    ) -> None:
        self._heads = heads
        self._load = load
        self._cached = cached
        self._chunks: OrderedDict[int, _Chunk] = OrderedDict()
        self._keys = [head.record for head in heads]
        self._starts = list(accumulate((head.count for head in heads), initial=0))
        self._totals = list(accumulate((head.total for head in heads), initial=0))
        self.loaded = 0

    def __len__(self) -> int:
        return self._starts[-1]

    def lower_bounds(self, stamps: Sequence[int], prefixes: Sequence[bytes]) -> list[int]:
        return [self._lower_bound(*bound) for bound in zip(stamps, prefixes, strict=True)]

    def _lower_bound(self, stamp: int, prefix: bytes) -> int:
        if stamp >= INFINITY:
            return len(self)
        wanted = stamp.to_bytes(8, "big") + prefix
        at = bisect_left(self._keys, wanted) - 1
        if at < 0:
            return 0
        return self._starts[at] + bisect_left(self._chunk(at).rows, wanted)

    def fingerprints(self, lows: Sequence[int], highs: Sequence[int]) -> list[bytes]:
        return [
            fingerprint_of(self._sum_below(high) - self._sum_below(low), high - low)
            for low, high in zip(lows, highs, strict=True)
        ]

    def _sum_below(self, index: int) -> int:
        at = bisect_right(self._starts, index) - 1
        within = index - self._starts[at]
        return self._totals[at] + (self._chunk(at).sums[within] if within else 0)

    def separators(self, indices: Sequence[int]) -> tuple[list[int], list[bytes]]:
        bounds = [separator(self.item(index - 1), self.item(index)) for index in indices]
        return [stamp for stamp, _ in bounds], [prefix for _, prefix in bounds]

    def ids(self, low: int, high: int) -> bytes:
        found: list[bytes] = []
        while low < high:
            at = bisect_right(self._starts, low) - 1
            start, end = self._starts[at], min(high, self._starts[at + 1])
            found += [row[8:] for row in self._chunk(at).rows[low - start : end - start]]
            low = end
        return b"".join(found)

    def item(self, index: int) -> tuple[int, bytes]:
        at = bisect_right(self._starts, index) - 1
        row = self._chunk(at).rows[index - self._starts[at]]
        return int.from_bytes(row[:8], "big"), row[8:]

    def _chunk(self, at: int) -> _Chunk:
        chunk = self._chunks.get(at)
        if chunk is None:
            chunk = self._chunks[at] = _Chunk(self._load(at))
            self.loaded += 1
            if len(chunk.rows) != self._heads[at].count:
                raise InvalidInput(f"chunk {at} has not the items that its head says")
            if len(self._chunks) > self._cached:
                self._chunks.popitem(last=False)
        self._chunks.move_to_end(at)
        return chunk


class _Chunk:
    """A loaded chunk. Its running sums are computed at first use."""

    def __init__(self, packed: bytes) -> None:
        self.rows = records(packed)
        self._sums: list[int] = []

    @property
    def sums(self) -> list[int]:
        if not self._sums:
            numbers = (int.from_bytes(row[8:], "little") for row in self.rows)
            self._sums = list(accumulate(numbers, initial=0))
        return self._sums


@dataclass(frozen=True, slots=True)
class Edit:
    """Chunks to remove (indexes in the directory), and chunks to put in their place."""

    drop: tuple[int, ...]
    put: tuple[bytes, ...]


def edit(
    heads: Sequence[ChunkHeader], load: Load, added: Iterable[bytes], removed: Iterable[bytes]
) -> list[Edit]:
    """Return the changes of a directory for added and removed records.

    Records that change nothing cause no edit. A chunk that gets too long is split. A chunk that
    gets too short joins its neighbour. Every index is dropped at most once, so edits may be applied
    in any order.
    """
    keys = [head.record for head in heads]
    comes, goes = _by_chunk(keys, added), _by_chunk(keys, removed)
    edits: list[Edit] = []
    taken: set[int] = set()
    for at in sorted(comes.keys() | goes.keys()):
        if at in taken:
            continue
        old = set(records(load(at))) if heads else set()
        rows = (old - goes.get(at, set())) | comes.get(at, set())
        if rows == old:
            continue
        drop = [at] if heads else []
        while rows and len(rows) < CHUNK_ITEMS // 4 and drop and drop[-1] + 1 < len(heads):
            # A short chunk joins the next one, with the changes of that one.
            following = drop[-1] + 1
            rows |= set(records(load(following))) - goes.get(following, set())
            rows |= comes.get(following, set())
            drop.append(following)
            taken.add(following)
        edits.append(Edit(tuple(drop), tuple(_parted(sorted(rows)))))
    return edits


def _by_chunk(keys: list[bytes], rows: Iterable[bytes]) -> dict[int, set[bytes]]:
    found: dict[int, set[bytes]] = {}
    for row in rows:
        found.setdefault(max(0, bisect_right(keys, row) - 1), set()).add(row)
    return found


def _parted(rows: list[bytes]) -> Iterator[bytes]:
    """Split rows into chunks: one chunk up to twice the usual size, else as many as needed."""
    parts = 1 if len(rows) <= 2 * CHUNK_ITEMS else -(-len(rows) // CHUNK_ITEMS)
    for part in range(parts if rows else 0):
        begin, end = part * len(rows) // parts, (part + 1) * len(rows) // parts
        yield b"".join(rows[begin:end])
