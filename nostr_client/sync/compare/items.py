"""Hold the local items of a sync: columns in memory, or fingerprints that the store keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from nostr_client.negentropy.storage import seal_columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from nostr_client.negentropy.storage import Storage


class Items(Protocol):
    """Local items of a window, in order."""

    def __len__(self) -> int: ...

    def stamp(self, at: int) -> int:
        """Return the timestamp of one item. Negative indexes count from the end."""
        ...

    def between(self, since: int | None, until: int | None) -> Items:
        """Return the items of a time range, both ends included. The result shares the memory."""
        ...

    def seal(self) -> Storage:
        """Return a negentropy storage over these items."""
        ...

    def packed(self, low: int = 0, high: int | None = None) -> bytes:
        """Return the packed ids of low ≤ index < high."""
        ...


class LocalItems:
    """Items in columns: `stamps` (n,) uint64 and `ids` (n, 32) uint8, ascending by both."""

    __slots__ = ("ids", "stamps")

    def __init__(self, stamps: NDArray[np.uint64], ids: NDArray[np.uint8]) -> None:
        self.stamps = stamps
        self.ids = ids

    def __len__(self) -> int:
        return len(self.stamps)

    def stamp(self, at: int) -> int:
        return int(self.stamps[at])

    def between(self, since: int | None, until: int | None) -> LocalItems:
        low = 0 if since is None else int(np.searchsorted(self.stamps, np.uint64(since)))
        high = (
            len(self)
            if until is None
            else int(np.searchsorted(self.stamps, np.uint64(until), side="right"))
        )
        return LocalItems(self.stamps[low:high], self.ids[low:high])

    def seal(self) -> Storage:
        columns: tuple[Any, Any] = (self.stamps, self.ids)
        return seal_columns(*columns)

    def packed(self, low: int = 0, high: int | None = None) -> bytes:
        return self.ids[low:high].tobytes()


class KeptItems:
    """Items low ≤ index < high of a storage whose fingerprints the store keeps."""

    __slots__ = ("_high", "_low", "_storage")

    def __init__(self, storage: Storage, low: int, high: int) -> None:
        self._storage = storage
        self._low = low
        self._high = high

    def __len__(self) -> int:
        return self._high - self._low

    def stamp(self, at: int) -> int:
        return self._storage.item((self._low if at >= 0 else self._high) + at)[0]

    def between(self, since: int | None, until: int | None) -> KeptItems:
        low, high = self._low, self._high
        if since is not None:
            low = max(low, self._storage.lower_bounds([since], [b""])[0])
        if until is not None:
            high = min(high, self._storage.lower_bounds([until + 1], [b""])[0])
        return KeptItems(self._storage, low, max(low, high))

    def seal(self) -> Storage:
        return StorageSlice(self._storage, self._low, self._high)

    def packed(self, low: int = 0, high: int | None = None) -> bytes:
        last = len(self) if high is None else min(high, len(self))
        return self._storage.ids(self._low + low, self._low + last)


class StorageSlice:
    """The items low ≤ index < high of another storage, as a storage of their own."""

    def __init__(self, whole: Storage, low: int, high: int) -> None:
        self._whole = whole
        self._low = low
        self._high = high

    def __len__(self) -> int:
        return self._high - self._low

    def lower_bounds(self, stamps: Sequence[int], prefixes: Sequence[bytes]) -> list[int]:
        found = self._whole.lower_bounds(stamps, prefixes)
        return [min(max(at, self._low), self._high) - self._low for at in found]

    def fingerprints(self, lows: Sequence[int], highs: Sequence[int]) -> list[bytes]:
        return self._whole.fingerprints(self._shifted(lows), self._shifted(highs))

    def separators(self, indices: Sequence[int]) -> tuple[list[int], list[bytes]]:
        return self._whole.separators(self._shifted(indices))

    def ids(self, low: int, high: int) -> bytes:
        return self._whole.ids(low + self._low, high + self._low)

    def item(self, index: int) -> tuple[int, bytes]:
        return self._whole.item(index + self._low)

    def _shifted(self, indices: Sequence[int]) -> list[int]:
        return [at + self._low for at in indices]


def no_items() -> LocalItems:
    """Return an empty set."""
    return LocalItems(np.empty(0, np.uint64), np.empty((0, 32), np.uint8))


def united(parts: Sequence[LocalItems]) -> LocalItems:
    """Return all items of several sets, each once, in order."""
    if len(parts) == 1:
        return parts[0]
    rows = {
        (stamp, bytes(key))
        for part in parts
        for stamp, key in zip(part.stamps.tolist(), part.ids, strict=True)
    }
    ordered = sorted(rows)
    stamps = np.fromiter((stamp for stamp, _ in ordered), np.uint64, len(ordered))
    ids = np.frombuffer(b"".join(key for _, key in ordered), np.uint8)
    return LocalItems(stamps, ids.reshape(len(ordered), 32))
