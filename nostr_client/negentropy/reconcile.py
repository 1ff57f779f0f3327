"""Both sides of a negentropy V1 session, without I/O.

    neg = Initiator(storage)                    answer = Responder(storage)
    message = neg.initiate()                    message = answer.reconcile(message)
    round_ = neg.reconcile(message)             # round_.have, round_.need; done at message None

The frame limit is kept by ending a message early. The responder then says one range for all that
follows: its fingerprint begins exactly where the last written range ended, and where nothing
follows an empty IdList says so. The initiator remembers what it did not get to say or to hear and
says it in the next message, so that no range is ever searched from the top again. Implementations
that let the fingerprint of the rest begin later lose items; a session with one of them is whole
all the same (docs/concepts/negentropy.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nostr_client.errors import InvalidInput, NegentropyError
from nostr_client.negentropy.blocks import locate, settle, split, whole
from nostr_client.negentropy.encoding import (
    ID_SIZE,
    INFINITY,
    MIN_FRAME_LIMIT,
    PROTOCOL_VERSION,
    Block,
    Bound,
    MessageReader,
    MessageWriter,
)
from nostr_client.negentropy.matching import Ids
from nostr_client.negentropy.reply import Reply

if TYPE_CHECKING:
    from nostr_client.negentropy.encoding import Ranges
    from nostr_client.negentropy.storage import Storage

__all__ = ["Ids", "Initiator", "ReconcileRound", "Responder"]

_FIRST_CHUNK, _LARGEST_CHUNK = 64, 4096

_SPLIT_SIZE = 16 * 20
"""Bytes that a split takes at least: more ranges than fit are not worth computing."""

_LIST_HEAD = 104
"""Bytes of a Skip, a bound, the mode and the number before the ids of a list, at most."""

_LEAST_WINDOW = 8
"""Ranges that are asked at once at least, however few were answered the last time."""


@dataclass(frozen=True, slots=True)
class ReconcileRound:
    """What one answer showed the initiator: ids that only we have, ids that we need.

    `message` is to be sent next; None: the session is complete. An id may be named in several
    rounds, and in both lists where the two sides hold it under different timestamps.
    """

    message: bytes | None
    have: Ids
    need: Ids


class Initiator:
    """The side that asks and learns the differences.

    `frame_limit`: bytes of a message at most, 0 for none; without one every message is byte for
    byte that of the reference implementations. Raises InvalidInput below 4096.
    """

    def __init__(self, storage: Storage, *, frame_limit: int = 0) -> None:
        _check_limit(frame_limit)
        self._storage = storage
        self._limit = frame_limit
        self._blocks: list[Block] = []
        self._sent = 0
        self._window = INFINITY
        self.rounds = 0

    def initiate(self) -> bytes:
        """The first message."""
        self._blocks = whole(self._storage, (INFINITY, b""))
        return self._ask()

    def reconcile(self, message: bytes) -> ReconcileRound:
        """Read the other side's answer.

        Raises NegentropyError for anything but a V1 message, kind "unsupported-version" where the
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
        asked, later = self._blocks[: self._sent], self._blocks[self._sent :]
        reply = Reply(self._storage, asked, later, terse=self._limit > 0)
        self._blocks = reply.read(reader)
        self._fit_window(reply.answered)
        have, need = Ids(b"".join(reply.have)), Ids(b"".join(reply.need))
        return ReconcileRound(self._ask() if self._blocks else None, have, need)

    def _fit_window(self, answered: int | None) -> None:
        """Ask as many ranges as the other side's frame held answers for, and try for more."""
        if answered is not None:
            self._window = max(_LEAST_WINDOW, answered + answered // 8)
        else:
            self._window = min(2 * self._window, INFINITY)

    def _ask(self) -> bytes:
        """The next message: what is unsettled from the lowest on, as far as it fits."""
        writer = MessageWriter(self._limit)
        self._sent = asked = 0
        while self._sent < len(self._blocks) and asked < self._window:
            block = self._split(self._window - asked)
            said = writer.write(block, self._storage.ids)
            self._split(said)
            self._sent += said > 0
            asked += said
            if said < len(block):
                break
        return writer.message()

    def _split(self, parts: int) -> Block:
        """The next block to be said, cut to so many ranges (0: not); its rest is the one after."""
        block = self._blocks[self._sent]
        if 0 < parts < len(block):
            rest = block.part(parts, len(block))
            block = block.part(0, parts)
            self._blocks[self._sent : self._sent + 1] = [block, rest]
        return block


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

        Raises NegentropyError for a malformed message.
        """
        reader = MessageReader(message, keep_ids=False)
        if reader.version != PROTOCOL_VERSION:
            return bytes([PROTOCOL_VERSION])
        self.rounds += 1
        reply = _Answer(self._storage, self._limit).to(reader)
        # A lone byte as the first message only asks for the version.
        self.done = len(reply) == 1 and (self.rounds > 1 or len(message) > 1)
        return reply


class _Answer:
    """One message of the responder in the making."""

    def __init__(self, storage: Storage, frame_limit: int) -> None:
        self._storage = storage
        self._writer = MessageWriter(frame_limit)
        self._floor: Bound = (0, b"")
        self._low = 0
        self._full = False

    def to(self, reader: MessageReader) -> bytes:
        """Answer range after range, in growing chunks, until the message or the frame ends."""
        chunk = _FIRST_CHUNK
        while not (reader.exhausted or self._full):
            self._answer(reader.read(min(chunk, 1 + self._writer.room // _SPLIT_SIZE)))
            chunk = min(2 * chunk, _LARGEST_CHUNK)
        return self._writer.message()

    def _answer(self, ranges: Ranges) -> None:
        span = locate(self._storage, ranges, self._floor, self._low)
        self._floor, self._low = span.upper(len(span.lows) - 1), span.highs[-1]
        for block in split(self._storage, span, settle(self._storage, span)[0]):
            written = self._writer.write(block, self._storage.ids)
            if written < len(block):
                self._end(block.part(written, len(block)))
                return

    def _end(self, block: Block) -> None:
        """End the message: such ids of the block as fit, and one range for all that is left."""
        floor, low = block.floor, block.lows[0]
        fitting = (self._writer.room - _LIST_HEAD) // ID_SIZE
        if block.prints[0] is None and fitting > 0:
            (stamp,), (prefix,) = self._storage.separators([low + fitting])
            part = Block(floor, low + fitting, [stamp], [prefix], [low], [None])
            self._writer.write(part, self._storage.ids)
            floor, low = (stamp, prefix), low + fitting
        self._full = True
        size = len(self._storage)
        rest = self._storage.fingerprints([low], [size])[0] if low < size else None
        self._writer.tail(floor, rest)


def _check_limit(frame_limit: int) -> None:
    if frame_limit and frame_limit < MIN_FRAME_LIMIT:
        raise InvalidInput(f"a frame limit is 0 (none) or at least {MIN_FRAME_LIMIT} bytes")
