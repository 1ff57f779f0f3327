"""Both sides of a negentropy V1 session, without I/O.

    neg = Initiator(storage)                    answer = Responder(storage)
    message = neg.initiate()                    message = answer.reconcile(message)
    round_ = neg.reconcile(message)             # round_.have, round_.need; done at message None

The frame limit is kept by ending a message early: with a Skip up to the last thing said, if one is
owed, and one range for all that follows. Its fingerprint begins exactly where the last written
range ended, and where nothing follows an empty IdList says so. Implementations that let the
fingerprint begin later lose items; a session with one of them is whole all the same
(docs/concepts/negentropy.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, overload

from nostr_client.errors import InvalidInput, NegentropyError
from nostr_client.negentropy.encoding import (
    FINGERPRINT,
    ID_SIZE,
    INFINITY,
    MIN_FRAME_LIMIT,
    PROTOCOL_VERSION,
    SKIP,
    MessageReader,
    MessageWriter,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nostr_client.negentropy.encoding import Ranges
    from nostr_client.negentropy.storage import Storage

BUCKETS = 16
"""Parts that a range is split into."""

LIST_BELOW = 2 * BUCKETS
"""A range of fewer items is sent as their ids."""

_FIRST_CHUNK, _LARGEST_CHUNK = 64, 4096

_SPLIT_SIZE = BUCKETS * 20
"""Bytes that a split takes at least: more ranges than fit are not worth reading ahead."""

_LIST_HEAD = 104
"""Bytes of a Skip, a bound, the mode and the number before the ids of a list, at most."""


class Ids(Sequence[bytes]):
    """Ids of 32 bytes, packed: an immutable sequence; `packed` is its n * 32 bytes."""

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
        """The ids as lower-case hex."""
        text = self.packed.hex()
        return [text[at : at + 2 * ID_SIZE] for at in range(0, len(text), 2 * ID_SIZE)]

    def __repr__(self) -> str:
        return f"Ids({len(self)})"


@dataclass(frozen=True, slots=True)
class Round:
    """What one answer told the initiator: ids that only we have, ids that we need.

    `message` is to be sent next; None: the session is complete. An id may be named in several
    rounds, and in both lists where the two sides hold it under different timestamps.
    """

    message: bytes | None
    have: Ids
    need: Ids


class Initiator:
    """The side that asks and learns the differences.

    `frame_limit`: bytes of a message at most, 0 for none. Raises InvalidInput below 4096.
    """

    def __init__(self, storage: Storage, *, frame_limit: int = 0) -> None:
        _check_limit(frame_limit)
        self._storage = storage
        self._limit = frame_limit
        self.rounds = 0

    def initiate(self) -> bytes:
        """The first message."""
        answer = _Answer(self._storage, self._limit)
        answer.open()
        return answer.message()

    def reconcile(self, message: bytes) -> Round:
        """Read the other side's answer.

        Raises NegentropyError for what is no V1 message, kind "unsupported-version" where the
        other side speaks another version only. A lone V1 byte is never that: it answers our V1
        message, so it says that nothing is left.
        """
        reader = MessageReader(message)
        if reader.version != PROTOCOL_VERSION:
            raise NegentropyError(
                f"the other side speaks version {reader.version - 0x60}, not 1",
                kind="unsupported-version",
            )
        self.rounds += 1
        answer = _InitiatorAnswer(self._storage, self._limit)
        answer.read(reader)
        reply = answer.message()
        return Round(
            reply if len(reply) > 1 else None,
            Ids(b"".join(answer.have)),
            Ids(b"".join(answer.need)),
        )


class Responder:
    """The side that answers; it learns nothing and keeps nothing between messages.

    `frame_limit` as for Initiator. `done` is True after an answer that left nothing to say.
    """

    def __init__(self, storage: Storage, *, frame_limit: int = 0) -> None:
        _check_limit(frame_limit)
        self._storage = storage
        self._limit = frame_limit
        self.rounds = 0
        self.done = False

    def reconcile(self, message: bytes) -> bytes:
        """The answer to one message; the lone V1 byte to a message of another version.

        Raises NegentropyError for what is no message.
        """
        reader = MessageReader(message)
        if reader.version != PROTOCOL_VERSION:
            return bytes([PROTOCOL_VERSION])
        self.rounds += 1
        answer = _Answer(self._storage, self._limit)
        answer.read(reader)
        reply = answer.message()
        # A lone byte as the first message only asks for the version.
        self.done = len(reply) == 1 and (self.rounds > 1 or len(message) > 1)
        return reply


class _Answer:
    """One message in the making, the responder's way."""

    def __init__(self, storage: Storage, frame_limit: int) -> None:
        self._storage = storage
        self._writer = MessageWriter(frame_limit)
        self._low = 0
        self._full = False

    def message(self) -> bytes:
        return self._writer.message()

    def read(self, reader: MessageReader) -> None:
        """Answer range after range, in growing chunks, until the message or the frame ends."""
        chunk = _FIRST_CHUNK
        while not (reader.exhausted or self._full):
            self._answer(reader.read(min(chunk, 1 + self._writer.room // _SPLIT_SIZE)))
            chunk = min(2 * chunk, _LARGEST_CHUNK)

    def open(self) -> None:
        """Say what all our items are."""
        everything = (0, len(self._storage))
        self._split(INFINITY, b"", *everything, self._plan([everything]))

    def _answer(self, ranges: Ranges) -> None:
        highs = self._storage.lower_bounds(ranges.stamps, ranges.prefixes)
        lows = [self._low, *highs[:-1]]
        self._low = highs[-1]
        modes = self._settle(ranges, lows, highs)
        splits = self._plan(
            [
                (low, high)
                for mode, low, high in zip(modes, lows, highs, strict=True)
                if mode == FINGERPRINT
            ]
        )
        for mode, stamp, prefix, low, high, payload in zip(
            modes, ranges.stamps, ranges.prefixes, lows, highs, ranges.payloads, strict=True
        ):
            if mode == SKIP:
                self._writer.skip(stamp, prefix)
            elif mode == FINGERPRINT:
                self._split(stamp, prefix, low, high, splits)
            else:
                self._listed(stamp, prefix, low, high, payload)
            if self._full:
                return

    def _settle(self, ranges: Ranges, lows: list[int], highs: list[int]) -> list[int]:
        """The modes, with Skip in the place of every fingerprint that is ours too."""
        asked = [at for at, mode in enumerate(ranges.modes) if mode == FINGERPRINT]
        ours = self._storage.fingerprints([lows[i] for i in asked], [highs[i] for i in asked])
        modes = list(ranges.modes)
        for at, fingerprint in zip(asked, ours, strict=True):
            if fingerprint == ranges.payloads[at]:
                modes[at] = SKIP
        return modes

    def _plan(self, ranges: list[tuple[int, int]]) -> _Splits:
        """The parts of every range that is too long for a list, computed together."""
        edges: list[int] = []
        for low, high in ranges:
            if high - low >= LIST_BELOW:
                size, longer = divmod(high - low, BUCKETS)
                edges += [low + part * size + min(part, longer) for part in range(BUCKETS + 1)]
        lows = [edge for at, edge in enumerate(edges) if at % (BUCKETS + 1) != BUCKETS]
        highs = [edge for at, edge in enumerate(edges) if at % (BUCKETS + 1)]
        inner = [edge for at, edge in enumerate(edges) if 0 < at % (BUCKETS + 1) < BUCKETS]
        stamps, prefixes = self._storage.separators(inner)
        return _Splits(lows, stamps, prefixes, self._storage.fingerprints(lows, highs))

    def _split(self, stamp: int, prefix: bytes, low: int, high: int, splits: _Splits) -> None:
        """Say more about one range: its ids where they are few, else its parts' fingerprints."""
        if high - low < LIST_BELOW:
            self._list(stamp, prefix, low, high)
            return
        lows, stamps, prefixes, prints = splits.take()
        written = self._writer.fingerprints([*stamps, stamp], [*prefixes, prefix], prints)
        if written < BUCKETS:
            self._cut(lows[written])

    def _list(self, stamp: int, prefix: bytes, low: int, high: int) -> None:
        """Say the ids of one range, as many as fit."""
        fitting = min(high - low, (self._writer.room - _LIST_HEAD) // ID_SIZE)
        if fitting == high - low:
            self._writer.id_list(stamp, prefix, self._storage.ids(low, high))
            return
        if fitting > 0:
            (stamp,), (prefix,) = self._storage.separators([low + fitting])
            self._writer.id_list(stamp, prefix, self._storage.ids(low, low + fitting))
        self._cut(low + max(fitting, 0))

    def _cut(self, index: int) -> None:
        """End the message with one range for every item from `index` on."""
        self._full = True
        size = len(self._storage)
        self._writer.tail(self._storage.fingerprints([index], [size])[0] if index < size else None)

    def _listed(self, stamp: int, prefix: bytes, low: int, high: int, ids: bytes) -> None:
        self._list(stamp, prefix, low, high)


class _InitiatorAnswer(_Answer):
    """One message in the making, the initiator's way: lists of ids end here."""

    def __init__(self, storage: Storage, frame_limit: int) -> None:
        super().__init__(storage, frame_limit)
        self.have: list[bytes] = []
        self.need: list[bytes] = []

    def _listed(self, stamp: int, prefix: bytes, low: int, high: int, ids: bytes) -> None:
        ours = self._storage.ids(low, high)
        if ours != ids:
            have, need = _difference(ours, ids)
            self.have += have
            self.need += need
        self._writer.skip(stamp, prefix)


class _Splits:
    """The parts of several ranges, handed out range by range."""

    def __init__(
        self, lows: list[int], stamps: list[int], prefixes: list[bytes], prints: list[bytes]
    ) -> None:
        self._columns = (lows, stamps, prefixes, prints)
        self._taken = 0

    def take(self) -> tuple[list[int], list[int], list[bytes], list[bytes]]:
        """Lower indices, inner bounds (one fewer) and fingerprints of the next range's parts."""
        lows, stamps, prefixes, prints = self._columns
        at, inner = self._taken * BUCKETS, self._taken * (BUCKETS - 1)
        self._taken += 1
        return (
            lows[at : at + BUCKETS],
            stamps[inner : inner + BUCKETS - 1],
            prefixes[inner : inner + BUCKETS - 1],
            prints[at : at + BUCKETS],
        )


def _difference(ours: bytes, theirs: bytes) -> tuple[list[bytes], list[bytes]]:
    """Packed ids apart: those that only we have, those that only they have, each once."""
    mine = dict.fromkeys(ours[at : at + ID_SIZE] for at in range(0, len(ours), ID_SIZE))
    other = dict.fromkeys(theirs[at : at + ID_SIZE] for at in range(0, len(theirs), ID_SIZE))
    return [key for key in mine if key not in other], [key for key in other if key not in mine]


def _check_limit(frame_limit: int) -> None:
    if frame_limit and frame_limit < MIN_FRAME_LIMIT:
        raise InvalidInput(f"a frame limit is 0 (none) or at least {MIN_FRAME_LIMIT} bytes")
