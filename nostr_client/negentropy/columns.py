"""Store large sets in numpy columns of 48 bytes for each item.

An item has 8 bytes of timestamp, 32 bytes of id and 8 bytes of running sums. The sums are of the
eight 32-bit limbs of the ids, one sum for every 8 items. They are in 64 bits, which cannot overflow
below 2**32 items.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any

import numpy as np

from nostr_client.errors import InvalidInput
from nostr_client.negentropy.encoding import (
    FINGERPRINT_SIZE,
    ID_SIZE,
    INFINITY,
    fingerprint_of,
    varint,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    U64 = NDArray[np.uint64]

_BLOCK = 8
_FEW = 16
"""Up to this many fingerprints, computing one after the other is faster (measured)."""

_ID_BITS = 8
"""Fewest bits of the id in the sort key."""

_LIMB_BITS = np.uint64(32)
_LIMB_MASK = np.uint64(2**32 - 1)


class ArrayStorage:
    """Sealed set in columns: `stamps` (n,) uint64, and `ids` of n * 32 bytes, in any order.

    Arrays that are already in order are used without a copy, so do not change them afterwards.
    Raises InvalidInput if the lengths differ, for a timestamp of 2**64 - 1, and for a repeated
    item.
    """

    def __init__(self, stamps: Any, ids: Any) -> None:
        self._stamps: U64 = np.ascontiguousarray(stamps, dtype="<u8")
        self._words: U64 = _id_words(ids)
        if len(self._stamps) != len(self._words):
            raise InvalidInput(f"timestamps: {len(self._stamps)}, ids: {len(self._words)}")
        if len(self._stamps) and int(self._stamps.max()) == INFINITY:
            raise InvalidInput("a timestamp is 0 to 2**64 - 2")
        if not _ascends(self._stamps, self._words):
            self._sort()
        self._sums = _block_sums(self._words)
        self._raw = self._words.reshape(-1).view(np.uint8).data

    def _sort(self) -> None:
        order = _order(self._stamps, self._words)
        self._stamps = self._stamps.take(order)
        self._words = self._words.take(order, axis=0)
        if not _ascends(self._stamps, self._words):
            raise InvalidInput("the same item twice")

    @property
    def nbytes(self) -> int:
        """The bytes of the columns."""
        return self._stamps.nbytes + self._words.nbytes + self._sums.nbytes

    def __len__(self) -> int:
        return len(self._stamps)

    def lower_bounds(self, stamps: Sequence[int], prefixes: Sequence[bytes]) -> list[int]:
        wanted = np.array(stamps, dtype=np.uint64)
        found = np.searchsorted(self._stamps, wanted)
        inside = [at for at, prefix in enumerate(prefixes) if prefix]
        if inside:
            ends = np.searchsorted(self._stamps, wanted[inside], side="right")
            keys = b"".join([prefixes[at].ljust(ID_SIZE, b"\0") for at in inside])
            found[inside] = self._search_ids(found[inside], ends, _native(_id_words(keys)))
        result: list[int] = found.tolist()
        return result

    def _search_ids(self, lows: NDArray[np.intp], highs: NDArray[np.intp], keys: U64) -> Any:
        """Bisect the id of each row of `keys` within its own run of equal timestamps."""
        open_ = np.flatnonzero(lows < highs)
        while len(open_):
            middles = (lows[open_] + highs[open_]) >> 1
            below = _less(_native(self._words.take(middles, axis=0)), keys[open_])
            lows[open_] = np.where(below, middles + 1, lows[open_])
            highs[open_] = np.where(below, highs[open_], middles)
            open_ = open_[lows[open_] < highs[open_]]
        return lows

    def fingerprints(self, lows: Sequence[int], highs: Sequence[int]) -> list[bytes]:
        if len(lows) <= _FEW:
            return [
                fingerprint_of(self._total_below(high) - self._total_below(low), high - low)
                for low, high in zip(lows, highs, strict=True)
            ]
        low, high = np.array(lows, dtype=np.intp), np.array(highs, dtype=np.intp)
        below_low = self._sums_below(low)
        below_high = np.empty_like(below_low)
        below_high[:-1] = below_low[1:]
        # Most ranges end where the next one begins, so the sums of that one serve twice.
        alone = np.flatnonzero(np.append(high[:-1] != low[1:], True))
        below_high[alone] = self._sums_below(high[alone])
        return _digests(_carry(below_high - below_low), high - low)

    def _total_below(self, index: int) -> int:
        """Return the sum of the ids of all items below an index."""
        limbs = self._words.view("<u4")[index & -_BLOCK : index]
        sums = self._sums[index // _BLOCK] + limbs.sum(axis=0, dtype=np.uint64)
        return sum(limb << (32 * at) for at, limb in enumerate(sums.tolist()))

    def _sums_below(self, indices: NDArray[np.intp]) -> U64:
        """Return the limb sums (m, 8) of all items below each index."""
        sums = self._sums.take(indices >> 3, axis=0)
        limbs = self._words.view("<u4")
        rest = indices & (_BLOCK - 1)
        for step in range(1, _BLOCK):
            chosen = np.flatnonzero(rest >= step)
            sums[chosen] += limbs.take(indices[chosen] - step, axis=0)
        return sums

    def separators(self, indices: Sequence[int]) -> tuple[list[int], list[bytes]]:
        at = np.array(indices, dtype=np.intp)
        stamps = self._stamps.take(at)
        prefixes = [b""] * len(at)
        same = np.flatnonzero(stamps == self._stamps.take(at - 1))
        if len(same):
            after = self._words.take(at[same], axis=0).view(np.uint8)
            before = self._words.take(at[same] - 1, axis=0).view(np.uint8)
            lengths = (after != before).argmax(axis=1) + 1
            raw = after.tobytes()
            for row, (where, length) in enumerate(
                zip(same.tolist(), lengths.tolist(), strict=True)
            ):
                prefixes[where] = raw[row * ID_SIZE : row * ID_SIZE + length]
        result: list[int] = stamps.tolist()
        return result, prefixes

    def ids(self, low: int, high: int) -> bytes:
        return self._raw[low * ID_SIZE : high * ID_SIZE].tobytes()

    def item(self, index: int) -> tuple[int, bytes]:
        return int(self._stamps[index]), self.ids(index, index + 1)


def _digests(sums: NDArray[np.uint32], counts: NDArray[np.intp]) -> list[bytes]:
    """Return the fingerprint of each sum and count."""
    width, most = ID_SIZE + 1, int(counts.max())
    if most >= 0x80:
        raw, texts = sums.tobytes(), map(varint, counts.tolist())
        return [
            sha256(raw[at : at + ID_SIZE] + text).digest()[:FINGERPRINT_SIZE]
            for at, text in zip(range(0, len(raw), ID_SIZE), texts, strict=True)
        ]
    rows = np.empty((len(sums), width), dtype=np.uint8)
    rows[:, :ID_SIZE] = sums.view(np.uint8)
    rows[:, ID_SIZE] = counts
    raw = rows.tobytes()
    return [
        sha256(raw[at : at + width]).digest()[:FINGERPRINT_SIZE] for at in range(0, len(raw), width)
    ]


def _id_words(ids: Any) -> U64:
    """Return ids as (n, 4) uint64, without a copy if possible."""
    if isinstance(ids, np.ndarray):
        raw = np.ascontiguousarray(ids).reshape(-1).view(np.uint8)
    else:
        raw = np.frombuffer(ids, dtype=np.uint8)
    if len(raw) % ID_SIZE:
        raise InvalidInput(f"{len(raw)} bytes of ids, no multiple of 32")
    return raw.view("<u8").reshape(-1, 4)


def _native(words: U64) -> U64:
    """Return words of ids as numbers that compare as the bytes do."""
    return words.byteswap()


def _less(a: U64, b: U64) -> NDArray[np.bool_]:
    """Return for each row of numbers (m, 4) whether it is below the row of b."""
    below = a[:, 3] < b[:, 3]
    for column in (2, 1, 0):
        below = (a[:, column] < b[:, column]) | ((a[:, column] == b[:, column]) & below)
    return below


def _ascends(stamps: U64, words: U64) -> bool:
    """Return True if every item is above the item before it."""
    if bool((stamps[1:] < stamps[:-1]).any()):
        return False
    tops = words[:, 0].byteswap()
    same = stamps[1:] == stamps[:-1]
    if bool((same & (tops[1:] < tops[:-1])).any()):
        return False
    tied = np.flatnonzero(same & (tops[1:] == tops[:-1]))
    before = _native(words.take(tied, axis=0))
    return bool(_less(before, _native(words.take(tied + 1, axis=0))).all())


def _order(stamps: U64, words: U64) -> NDArray[np.intp]:
    """Return the order of the items: a radix sort of a composite key, then a sort of its ties."""
    keys = _sort_keys(stamps - stamps.min(), words[:, 0].byteswap())
    order = np.argsort(keys[-1], kind="stable")
    for digit in reversed(keys[:-1]):
        order = order.take(np.argsort(digit.take(order), kind="stable"))
    tied = np.ones(len(order) - 1, dtype=bool)
    for digit in keys:
        placed = digit.take(order)
        tied &= placed[1:] == placed[:-1]
    if tied.any():
        _order_ties(order, tied, stamps, words)
    return order


def _sort_keys(stamps: U64, tops: U64) -> list[NDArray[np.uint16]]:
    """Return timestamp and top bits of the id as 16-bit digits, highest first. Changes both arrays.

    numpy sorts 16-bit numbers in linear time. Few bits of the id are enough, because few timestamps
    are equal.
    """
    bits = int(stamps.max()).bit_length()
    digits = min(4, (bits + _ID_BITS + 15) // 16)
    if bits:
        stamps <<= np.uint64(64 - bits)
        tops >>= np.uint64(min(bits, 63))
        tops = tops | stamps if bits < 64 else stamps
    return [(tops >> np.uint64(48 - 16 * digit)).astype(np.uint16) for digit in range(digits)]


def _order_ties(order: NDArray[np.intp], tied: NDArray[np.bool_], stamps: U64, words: U64) -> None:
    """Sort the items with equal keys in place."""
    where = np.flatnonzero(np.append(tied, False) | np.append(False, tied))
    rows = order[where]
    full = _native(words.take(rows, axis=0))
    order[where] = rows[
        np.lexsort((full[:, 3], full[:, 2], full[:, 1], full[:, 0], stamps.take(rows)))
    ]


def _block_sums(words: U64) -> U64:
    """Return running sums (n // 8 + 1, 8) of the limbs before each block of 8 items."""
    whole = len(words) // _BLOCK
    sums = np.zeros((whole + 1, _BLOCK), dtype=np.uint64)
    limbs = words[: whole * _BLOCK].view("<u4").reshape(whole, _BLOCK, 8)
    np.einsum("abc->ac", limbs, dtype=np.uint64, casting="unsafe", out=sums[1:])
    np.cumsum(sums, axis=0, out=sums)
    return sums


def _carry(limbs: U64) -> NDArray[np.uint32]:
    """Return sums mod 2**256 as (m, 8) uint32, from limb sums without carries."""
    result = np.empty(limbs.shape, dtype="<u4")
    carry = np.zeros(len(limbs), dtype=np.uint64)
    for column in range(8):
        carry += limbs[:, column]
        result[:, column] = carry & _LIMB_MASK
        carry >>= _LIMB_BITS
    return result
