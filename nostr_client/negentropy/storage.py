"""Define the set of items that a negentropy session needs, and a set in plain Python ints.

An item is a timestamp (0 to 2**64 - 2) and an id of 32 bytes. Items are ordered by timestamp, then
by id. A fingerprint is the first 16 bytes of a SHA-256. The hash covers the sum of the ids as
little endian numbers mod 2**256, and the varint of their number. Storages keep running sums, so the
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
"""Number of items from which numpy's columns are faster than plain ints (measured)."""


class Storage(Protocol):
    """Ordered, sealed set of items. Each method works on many ranges at once."""

    def __len__(self) -> int: ...

    def lower_bounds(self, stamps: Sequence[int], prefixes: Sequence[bytes]) -> list[int]:
        """Return for each bound the index of the first item that is not below it."""
        ...

    def fingerprints(self, lows: Sequence[int], highs: Sequence[int]) -> list[bytes]:
        """Return the fingerprint of the items low ≤ index < high, for each pair."""
        ...

    def separators(self, indices: Sequence[int]) -> tuple[list[int], list[bytes]]:
        """Return for each index > 0 the shortest bound above the item before it, and not above its
        item.
        """
        ...

    def ids(self, low: int, high: int) -> bytes:
        """Return the packed ids of low ≤ index < high."""
        ...

    def item(self, index: int) -> tuple[int, bytes]:
        """Return timestamp and id of one item."""
        ...


def separator(before: tuple[int, bytes], after: tuple[int, bytes]) -> tuple[int, bytes]:
    """Return the shortest bound above `before` and not above `after`, two neighbouring items."""
    stamp, key = after
    if stamp != before[0]:
        return stamp, b""
    differing = int.from_bytes(before[1], "big") ^ int.from_bytes(key, "big")
    return stamp, key[: ID_SIZE + 1 - (differing.bit_length() + 7) // 8]


def check_item(stamp: int, key: bytes) -> None:
    """Raise InvalidInput for an invalid item."""
    if not 0 <= stamp < INFINITY:
        raise InvalidInput(f"a timestamp is 0 to 2**64 - 2, not {stamp}")
    if len(key) != ID_SIZE:
        raise InvalidInput(f"an id has 32 bytes, not {len(key)}")


class PlainStorage:
    """Set of up to some thousands of items, in Python's own ints.

    Takes the items in any order. Raises InvalidInput for a malformed item, and for a repeated item.
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
    """Return the storage that suits the number of items: `PlainStorage`, or `ArrayStorage` for
    many.

    Raises InvalidInput as these classes do.
    """
    listed = list(items)
    if len(listed) < ARRAY_THRESHOLD:
        return PlainStorage(listed)
    from nostr_client.negentropy.columns import ArrayStorage

    for stamp, key in listed:
        check_item(stamp, key)
    return ArrayStorage([stamp for stamp, _ in listed], b"".join(key for _, key in listed))


def seal_columns(stamps: Any, ids: Any) -> Storage:
    """Seal columns as `seal` seals items: timestamps (uint64 array or ints) and as many ids.

    The ids are a buffer of n * 32 bytes: bytes, or an array of shape (n, 32) uint8 or (n, 4)
    uint64. Many items that are in order are used without a copy. Raises InvalidInput as `seal`
    does.
    """
    if len(stamps) >= ARRAY_THRESHOLD:
        from nostr_client.negentropy.columns import ArrayStorage

        return ArrayStorage(stamps, ids)
    raw = bytes(memoryview(ids).cast("B")) if len(stamps) else b""
    if len(raw) != len(stamps) * ID_SIZE:
        raise InvalidInput(f"{len(stamps)} timestamps and {len(raw)} bytes of ids")
    keys = (raw[at : at + ID_SIZE] for at in range(0, len(raw), ID_SIZE))
    return PlainStorage(zip(map(int, stamps), keys, strict=True))
