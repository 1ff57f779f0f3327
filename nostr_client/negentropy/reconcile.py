"""Run both sides of a negentropy V1 session without I/O.

    neg = Initiator(storage)                    answer = Responder(storage)
    message = neg.initiate()                    message = answer.reconcile(message)
    round_ = neg.reconcile(message)             # round_.have, round_.need; done at message None

A side keeps the frame limit by ending a message early. The responder then ends with one range for
the rest. The fingerprint of this range begins exactly where the last written range ended. If
nothing follows, the range is an empty IdList. The initiator remembers the ranges that did not fit
or got no answer. It sends them in the next message, so no range is searched from the top again.
Some implementations let the fingerprint of the rest begin later, and so lose items. A session with
such a responder is still complete (docs/concepts/negentropy.md).
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
"""Fewest bytes of a split. Computing more ranges than fit would be useless."""

_LIST_HEAD = 104
"""Most bytes of a Skip, a bound, the mode and the number before the ids of a list."""

_LEAST_WINDOW = 8
"""Fewest ranges to ask at once, even if fewer were answered the last time."""


@dataclass(frozen=True, slots=True)
class ReconcileRound:
    """Result of one answer for the initiator: ids that only we have, and ids that we need.

    `message` is the next message to send, or None if the session is complete. Several rounds may
    name the same id. Both lists have an id if the two sides have it with different timestamps.
    """

    message: bytes | None
    have: Ids
    need: Ids


class Initiator:
    """Side that asks and learns the differences.

    `frame_limit`: most bytes of a message, or 0 for no limit. Without a limit, every message equals
    the message of the reference implementations byte for byte. Raises InvalidInput below 4096.
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
        """Return the first message."""
        self._blocks = whole(self._storage, (INFINITY, b""))
        return self._ask()

    def reconcile(self, message: bytes) -> ReconcileRound:
        """Read the other side's answer.

        Raises NegentropyError for anything but a V1 message. The kind is "unsupported-version" if
        the other side supports another version only. A single V1 byte is never a version error. It
        answers our V1 message, so it means that nothing is left.
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
        """Ask about as many ranges as the other side's last frame answered, and try a few more."""
        if answered is not None:
            self._window = max(_LEAST_WINDOW, answered + answered // 8)
        else:
            self._window = min(2 * self._window, INFINITY)

    def _ask(self) -> bytes:
        """Return the next message: the open ranges from the lowest on, as many as fit."""
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
        """Return the next block to send, cut after `parts` ranges (0: not cut).

        The rest follows it.
        """
        block = self._blocks[self._sent]
        if 0 < parts < len(block):
            rest = block.part(parts, len(block))
            block = block.part(0, parts)
            self._blocks[self._sent : self._sent + 1] = [block, rest]
        return block


class Responder:
    """Side that answers. It learns nothing, and keeps no ranges between messages.

    `frame_limit` is as for Initiator. `done` is True after an answer that leaves nothing open.
    """

    def __init__(self, storage: Storage, *, frame_limit: int = 0) -> None:
        _check_limit(frame_limit)
        self._storage = storage
        self._limit = frame_limit
        self.rounds = 0
        self.done = False

    def reconcile(self, message: bytes) -> bytes:
        """Return the answer to one message, or the single V1 byte for a message of another version.

        Raises NegentropyError for a malformed message.
        """
        reader = MessageReader(message, keep_ids=False)
        if reader.version != PROTOCOL_VERSION:
            return bytes([PROTOCOL_VERSION])
        self.rounds += 1
        reply = _Answer(self._storage, self._limit).to(reader)
        # A single byte as the first message only asks for the version.
        self.done = len(reply) == 1 and (self.rounds > 1 or len(message) > 1)
        return reply


class _Answer:
    """Builds one message of the responder."""

    def __init__(self, storage: Storage, frame_limit: int) -> None:
        self._storage = storage
        self._writer = MessageWriter(frame_limit)
        self._floor: Bound = (0, b"")
        self._low = 0
        self._full = False

    def to(self, reader: MessageReader) -> bytes:
        """Answer range by range, in growing chunks, until the message or the frame ends."""
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
        """End the message with those ids of the block that fit, and one range for all the rest."""
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
