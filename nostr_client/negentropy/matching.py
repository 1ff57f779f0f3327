"""Find ids that only one of two lists has, for many pairs of lists at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, overload

from nostr_client.negentropy.encoding import ID_SIZE

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from numpy.typing import NDArray

_ARRAYS_FROM = 256
"""Number of ids from which numpy is faster (measured)."""

_MOST_PASSES = 12
"""Hash tables to try. After that, the ids may be crafted to collide, and Python's sets are used."""

# Odd constants without structure. They mix a row of four words and its pair's number into one word.
# Each table multiplies this word again.
_MIX = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93)


class Ids(Sequence[bytes]):
    """Packed ids of 32 bytes as an immutable sequence. `packed` has the n * 32 bytes."""

    __slots__ = ("packed",)

    def __init__(self, packed: bytes = b"") -> None:
        self.packed = packed

    def __len__(self) -> int:
        return len(self.packed) // ID_SIZE

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> list[bytes]: ...
    def __getitem__(self, index: int | slice) -> bytes | list[bytes]:
        if isinstance(index, slice):
            return [self[at] for at in range(*index.indices(len(self)))]
        at = range(len(self))[index] * ID_SIZE
        return self.packed[at : at + ID_SIZE]

    def __iter__(self) -> Iterator[bytes]:
        packed = self.packed
        return (packed[at : at + ID_SIZE] for at in range(0, len(packed), ID_SIZE))

    def hex(self) -> list[str]:
        """Return the ids as lower-case hex."""
        text = self.packed.hex()
        return [text[at : at + 2 * ID_SIZE] for at in range(0, len(text), 2 * ID_SIZE)]

    def __repr__(self) -> str:
        return f"Ids({len(self)})"


def differences(ours: list[bytes], theirs: list[bytes]) -> tuple[bytes, bytes]:
    """Return packed ids that only we have, and that only they have, from pairs of packed lists.

    Each pair is compared alone. An id in our list of one pair and in their list of another pair is
    in both results. An id that they repeat within a list is returned once.
    """
    have: list[bytes] = []
    need: list[bytes] = []
    pairs: list[tuple[bytes, bytes]] = []
    for mine, other in zip(ours, theirs, strict=True):
        if not other:
            have.append(mine)
        elif not mine and len(other) >= _ARRAYS_FROM * ID_SIZE and _are_distinct(other):
            need.append(other)
        elif mine != other:
            pairs.append((mine, other))
    found = None
    if sum(len(mine) + len(other) for mine, other in pairs) >= _ARRAYS_FROM * ID_SIZE:
        found = _by_arrays([mine for mine, _ in pairs], [other for _, other in pairs])
    more_have, more_need = found or _by_sets(pairs)
    return b"".join((*have, more_have)), b"".join((*need, more_need))


def _are_distinct(packed: bytes) -> bool:
    """Return True if no two ids begin with the same 8 bytes, so that no two ids are equal."""
    import numpy as np

    words = np.sort(np.frombuffer(packed, dtype="<u8")[::4])
    return not bool((words[1:] == words[:-1]).any())


def _by_sets(pairs: list[tuple[bytes, bytes]]) -> tuple[bytes, bytes]:
    have: list[bytes] = []
    need: list[bytes] = []
    for mine, other in pairs:
        kept, wanted = dict.fromkeys(Ids(mine)), dict.fromkeys(Ids(other))
        have += [key for key in kept if key not in wanted]
        need += [key for key in wanted if key not in kept]
    return b"".join(have), b"".join(need)


def _by_arrays(ours: list[bytes], theirs: list[bytes]) -> tuple[bytes, bytes] | None:
    """Return `differences` with hash tables in numpy, or None if too many hashes collide."""
    import numpy as np

    rows = _Rows(ours + theirs, len(ours))
    border = sum(map(len, ours)) // ID_SIZE
    lone = np.ones(len(rows.words), dtype=bool)
    mine, other = np.arange(border), np.arange(border, len(lone))
    for number in range(_MOST_PASSES):
        table = rows.table(mine, number)
        met = table.find(other)
        lone[met[met >= 0]] = False
        lone[other[met >= 0]] = False
        other = other[met < 0]
        mine = table.losers(lone)
        if not len(mine):
            break
    else:
        return None
    for number in range(_MOST_PASSES):
        other = rows.table(other, number).losers(lone)
        if not len(other):
            return rows.words[:border][lone[:border]].tobytes(), rows.words[border:][
                lone[border:]
            ].tobytes()
    return None


class _Rows:
    """Ids of many lists as one array. The lists from `lists` on begin again with pair 0."""

    def __init__(self, packed: list[bytes], lists: int) -> None:
        import numpy as np

        self.words = np.frombuffer(b"".join(packed), dtype="<u8").reshape(-1, 4)
        sizes = [len(ids) // ID_SIZE for ids in packed]
        self._pairs = np.repeat(np.tile(np.arange(lists, dtype=np.uint64), 2), sizes)
        self._hashes = self._pairs * np.uint64(_MIX[0])
        for column in (0, 3):
            self._hashes += self.words[:, column]
            self._hashes *= np.uint64(_MIX[column])

    def equal(self, a: NDArray[np.intp], b: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Return for each two rows whether they are the same id of the same pair."""
        same = self._pairs.take(a) == self._pairs.take(b)
        found: NDArray[np.bool_] = same & (self.words.take(a, 0) == self.words.take(b, 0)).all(1)
        return found

    def slots(self, rows: NDArray[np.intp], number: int, bits: int) -> NDArray[np.intp]:
        """Return the slot of each row in table `number`, which has 2**bits slots."""
        import numpy as np

        mixed = self._hashes.take(rows) * np.uint64(_MIX[1] + 2 * number)
        return (mixed >> np.uint64(64 - bits)).astype(np.intp)

    def table(self, rows: NDArray[np.intp], number: int) -> _Table:
        """Return a hash table of these rows."""
        return _Table(self, rows, number)


class _Table:
    """Hash table of rows. Only one of the rows that share a slot stays in it."""

    def __init__(self, rows: _Rows, members: NDArray[np.intp], number: int) -> None:
        import numpy as np

        self._rows, self._members, self._number = rows, members, number
        self._bits = max(6, 2 + len(members).bit_length())
        self._slots = rows.slots(members, number, self._bits)
        self._table = np.full(1 << self._bits, -1, dtype=np.intp)
        self._table[self._slots] = members

    def find(self, rows: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return the member that is equal to each row, or -1."""
        import numpy as np

        met = self._table.take(self._rows.slots(rows, self._number, self._bits))
        there = np.flatnonzero(met >= 0)
        unlike = there[~self._rows.equal(met[there], rows[there])]
        met[unlike] = -1
        return met

    def losers(self, lone: NDArray[np.bool_]) -> NDArray[np.intp]:
        """Return the members that lost their slot to another id.

        Marks repeated members as not lone.
        """
        winners = self._table.take(self._slots)
        lost = winners != self._members
        winners, losers = winners[lost], self._members[lost]
        twins = self._rows.equal(winners, losers)
        lone[losers[twins]] = False
        found: NDArray[np.intp] = losers[~twins]
        return found
