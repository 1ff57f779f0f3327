"""What a negentropy engine asks of a set of items, and the set that plain ints hold.

An item is a timestamp (0 to 2**64 - 2) and an id of 32 bytes; items are ordered by timestamp and
then by id. A fingerprint is the first 16 bytes of SHA-256 over the sum of the ids, as little
endian numbers mod 2**256, and the varint of their number. Storages keep running sums, so that the
fingerprint of any range costs the same.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, Protocol

from nostr_client.errors import InvalidInput
from nostr_client.negentropy.encoding import ID_SIZE, INFINITY, fingerprint_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

ARRAY_THRESHOLD = 5_000
"""From this many items on numpy's columns are faster than plain ints (measured)."""


class Storage(Protocol):
    """An ordered, sealed set of items; every question is asked for many ranges at once."""

    def __len__(self) -> int: ...

    def lower_bounds(self, stamps: Sequence[int], prefixes: Sequence[bytes]) -> list[int]:
        """For each bound the index of the first item that is not below it."""
        ...

    def fingerprints(self, lows: Sequence[int], highs: Sequence[int]) -> list[bytes]:
        """The fingerprint of the items low ≤ index < high, for each pair."""
        ...

    def separators(self, indices: Sequence[int]) -> tuple[list[int], list[bytes]]:
        """For each index > 0 the shortest bound above the item before it and not above it."""
        ...

    def ids(self, low: int, high: int) -> bytes:
        """The packed ids of low ≤ index < high."""
        ...

    def item(self, index: int) -> tuple[int, bytes]:
        """Timestamp and id of one item."""
        ...


def separator(before: tuple[int, bytes], after: tuple[int, bytes]) -> tuple[int, bytes]:
    """The shortest bound above `before` and not above `after`, two neighbouring items."""
    stamp, key = after
    if stamp != before[0]:
        return stamp, b""
    differing = int.from_bytes(before[1], "big") ^ int.from_bytes(key, "big")
    return stamp, key[: ID_SIZE + 1 - (differing.bit_length() + 7) // 8]


def check_item(stamp: int, key: bytes) -> None:
    """Raises InvalidInput where this is no item."""
    if not 0 <= stamp < INFINITY:
        raise InvalidInput(f"a timestamp is 0 to 2**64 - 2, not {stamp}")
    if len(key) != ID_SIZE:
        raise InvalidInput(f"an id has 32 bytes, not {len(key)}")


class PlainStorage:
    """A set of up to some thousands of items, in Python's own ints.

    Takes the items in any order. Raises InvalidInput for a malformed item, and for an item that
    comes twice.
    """

    def __init__(self, items: Iterable[tuple[int, bytes]]) -> None:
        self._items = sorted(items)
        for stamp, key in self._items:
            check_item(stamp, key)
        if any(before == after for before, after in pairwise(self._items)):
            raise InvalidInput("the same item twice")
        self._ids = b"".join(key for _, key in self._items)
        numbers = (int.from_bytes(key, "little") for _, key in self._items)
        self._sums = list(accumulate(numbers, initial=0))

    def __len__(self) -> int:
        return len(self._items)

    def lower_bounds(self, stamps: Sequence[int], prefixes: Sequence[bytes]) -> list[int]:
        return [bisect_left(self._items, bound) for bound in zip(stamps, prefixes, strict=True)]

    def fingerprints(self, lows: Sequence[int], highs: Sequence[int]) -> list[bytes]:
        sums = self._sums
        return [
            fingerprint_of(sums[high] - sums[low], high - low)
            for low, high in zip(lows, highs, strict=True)
        ]

    def separators(self, indices: Sequence[int]) -> tuple[list[int], list[bytes]]:
        bounds = [separator(self._items[index - 1], self._items[index]) for index in indices]
        return [stamp for stamp, _ in bounds], [prefix for _, prefix in bounds]

    def ids(self, low: int, high: int) -> bytes:
        return self._ids[low * ID_SIZE : high * ID_SIZE]

    def item(self, index: int) -> tuple[int, bytes]:
        return self._items[index]


def seal(items: Iterable[tuple[int, bytes]]) -> Storage:
    """The storage that fits this many items: `PlainStorage`, or `ArrayStorage` for many.

    Raises InvalidInput as they do.
    """
    listed = list(items)
    if len(listed) < ARRAY_THRESHOLD:
        return PlainStorage(listed)
    from nostr_client.negentropy.columns import ArrayStorage

    for stamp, key in listed:
        check_item(stamp, key)
    return ArrayStorage([stamp for stamp, _ in listed], b"".join(key for _, key in listed))


def seal_columns(stamps: Any, ids: Any) -> Storage:
    """`seal` for columns: timestamps (uint64 array or ints) and as many ids.

    The ids are a buffer of n * 32 bytes: bytes, or an array of shape (n, 32) uint8 or (n, 4)
    uint64. Many that are in order are taken without a copy. Raises InvalidInput as `seal` does.
    """
    if len(stamps) >= ARRAY_THRESHOLD:
        from nostr_client.negentropy.columns import ArrayStorage

        return ArrayStorage(stamps, ids)
    raw = bytes(memoryview(ids).cast("B")) if len(stamps) else b""
    if len(raw) != len(stamps) * ID_SIZE:
        raise InvalidInput(f"{len(stamps)} timestamps and {len(raw)} bytes of ids")
    keys = (raw[at : at + ID_SIZE] for at in range(0, len(raw), ID_SIZE))
    return PlainStorage(zip(map(int, stamps), keys, strict=True))
