"""Encode and decode negentropy V1 messages: varints, bounds and ranges.

Source: the protocol V1 appendix of NIP-77. A message is a version byte and then ranges in ascending
order. A range has an upper bound, a mode and the mode's payload, and begins at the end of the range
before it. A stranger wrote the message. Every length is compared with the available bytes before
use.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

from nostr_client.errors import InvalidInput, NegentropyError

if TYPE_CHECKING:
    from collections.abc import Callable

PROTOCOL_VERSION = 0x61
ID_SIZE = 32
FINGERPRINT_SIZE = 16
SUM_MASK = 2**256 - 1
INFINITY = 2**64 - 1
"""Timestamp of the bound after every item. No item may have this timestamp."""

SKIP, FINGERPRINT, ID_LIST = 0, 1, 2

MIN_FRAME_LIMIT = 4096
"""Smallest frame limit in bytes. Below it, a split of one range may not fit."""

FRAME_MARGIN = 64
"""Bytes to keep free below the limit for a Skip (44) and the fingerprint of the tail (19)."""

_MAX_VARINT_BYTES = 10


def encode_varint(number: int) -> bytes:
    """Encode in base 128, most significant digit first. All bytes but the last have the high bit.

    Raises InvalidInput outside 0 to 2**64 - 1.
    """
    if not 0 <= number <= INFINITY:
        raise InvalidInput(f"a varint holds 0 to 2**64 - 1, not {number}")
    digits = [number & 0x7F]
    while number := number >> 7:
        digits.append(number & 0x7F | 0x80)
    return bytes(reversed(digits))


_SMALL = 1 << 14

VARINTS = [encode_varint(number) for number in range(_SMALL)]
"""Varints of one and two bytes."""


def varint(number: int) -> bytes:
    """Return the same as `encode_varint`, from a table for small numbers."""
    return VARINTS[number] if 0 <= number < _SMALL else encode_varint(number)


def fingerprint_of(total: int, count: int) -> bytes:
    """Return the fingerprint of `count` ids whose little endian sum is `total`."""
    raw = (total & SUM_MASK).to_bytes(ID_SIZE, "little")
    return sha256(raw + varint(count)).digest()[:FINGERPRINT_SIZE]


def decode_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the number at offset `at`, and the offset after it.

    Raises NegentropyError: truncated, or varint-overflow above 64 bits or 10 bytes.
    """
    number = 0
    for position in range(at, at + _MAX_VARINT_BYTES):
        if position >= len(data):
            raise _truncated()
        byte = data[position]
        number = number << 7 | byte & 0x7F
        if byte < 0x80:
            if number > INFINITY:
                break
            return number, position + 1
    raise NegentropyError("a varint of more than 64 bits", kind="varint-overflow")


Bound = tuple[int, bytes]
"""Timestamp and prefix of an id. The first item that is not below it begins the next range."""


class Ranges(NamedTuple):
    """Ranges of a message, as columns. `payloads` has b"" for a Skip."""

    stamps: list[int]
    prefixes: list[bytes]
    modes: list[int]
    payloads: list[bytes]


@dataclass(slots=True)
class Block:
    """Neighbouring ranges above `floor`, as columns.

    `stamps` and `prefixes` are the upper bounds. `lows` has the index of the first item of each
    range, and `high` is the index after the last item. `prints` has the fingerprints, or None for a
    range that is sent as ids.
    """

    floor: Bound
    high: int = 0
    stamps: list[int] = field(default_factory=list)
    prefixes: list[bytes] = field(default_factory=list)
    lows: list[int] = field(default_factory=list)
    prints: list[bytes | None] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.stamps)

    def highs(self) -> list[int]:
        """Return the index after the last item of each range."""
        return [*self.lows[1:], self.high]

    def upper(self, part: int) -> Bound:
        """Return the upper bound of one range."""
        return self.stamps[part], self.prefixes[part]

    def part(self, begin: int, end: int) -> Block:
        """Return the ranges begin ≤ index < end."""
        return Block(
            self.upper(begin - 1) if begin else self.floor,
            self.lows[end] if end < len(self) else self.high,
            self.stamps[begin:end],
            self.prefixes[begin:end],
            self.lows[begin:end],
            self.prints[begin:end],
        )


class MessageReader:
    """Reads the ranges of one message in parts.

    `version` is the sender's version. Only V1 can be read on. Without `keep_ids`, the payload of an
    IdList is b"" too. The constructor raises NegentropyError: truncated, bad-version-byte.
    """

    def __init__(self, message: bytes, *, keep_ids: bool = True) -> None:
        if not message:
            raise _truncated()
        if not 0x60 <= message[0] <= 0x6F:
            raise NegentropyError("not a negentropy version byte", kind="bad-version-byte")
        self.version = message[0]
        self._data = bytes(message)
        self._keep_ids = keep_ids
        self._at = 1
        self._bound: Bound = (0, b"")

    @property
    def exhausted(self) -> bool:
        """Whether every range was read."""
        return self._at >= len(self._data)

    def read(self, most: int) -> Ranges:
        """Return at most `most` further ranges.

        Raises NegentropyError: truncated, bound-too-long, bad-mode, varint-overflow,
        bad-bound-order.
        """
        ranges = Ranges([], [], [], [])
        try:
            self._read(ranges, most)
        except IndexError:
            raise _truncated() from None
        return ranges

    def _read(self, ranges: Ranges, most: int) -> None:
        # This loop is the hottest of a session: one long function, with varints of up to two bytes
        # inline.
        stamps, prefixes, modes, payloads = ranges
        data, at, end = self._data, self._at, len(self._data)
        stamp, prefix = self._bound
        keep = self._keep_ids
        for _ in range(most):
            if at >= end:
                break
            before, last = stamp, prefix
            delta = data[at]
            at += 1
            if delta >= 0x80:
                low = data[at]
                if low < 0x80:
                    delta = (delta & 0x7F) << 7 | low
                    at += 1
                else:
                    delta, at = decode_varint(data, at - 1)
            stamp = stamp + delta - 1 if delta else INFINITY
            if stamp > INFINITY:
                stamp = INFINITY
            length = data[at]
            at += 1
            if length > ID_SIZE:
                length, at = self._long_prefix(at - 1)
            prefix = data[at : at + length]
            at += length
            if last and stamp == before:
                _check_order(last, prefix)
            mode = data[at]
            at += 1
            if mode == FINGERPRINT:
                stop = at + FINGERPRINT_SIZE
            elif mode == ID_LIST and data[at] < 0x80:
                stop = at + 1 + data[at] * ID_SIZE
                at += 1
            else:
                mode, at, stop = self._read_mode(at - 1)
            if stop > end:
                raise _truncated()
            stamps.append(stamp)
            prefixes.append(prefix)
            modes.append(mode)
            payloads.append(data[at:stop] if keep or mode == FINGERPRINT else b"")
            at = stop
        self._at, self._bound = at, (stamp, prefix)

    def _long_prefix(self, at: int) -> tuple[int, int]:
        length, at = decode_varint(self._data, at)
        if length > ID_SIZE:
            raise NegentropyError(f"a bound of {length} bytes", kind="bound-too-long")
        return length, at

    def _read_mode(self, at: int) -> tuple[int, int, int]:
        mode, at = decode_varint(self._data, at)
        if mode == ID_LIST:
            count, at = decode_varint(self._data, at)
            return mode, at, at + count * ID_SIZE
        if mode not in (SKIP, FINGERPRINT):
            raise NegentropyError(f"mode {mode}", kind="bad-mode")
        return mode, at, at + (FINGERPRINT_SIZE if mode == FINGERPRINT else 0)


class MessageWriter:
    """Writes the ranges of one message while they fit below `frame_limit` bytes (0: no limit).

    The range from `bound`, the last written bound, to the next written range is skipped. The end of
    the message skips all that follows.
    """

    def __init__(self, frame_limit: int = 0) -> None:
        self._parts = [bytes([PROTOCOL_VERSION])]
        self._size = 1
        self._budget = frame_limit - FRAME_MARGIN if frame_limit else INFINITY
        self.bound: Bound = (0, b"")

    @property
    def size(self) -> int:
        """The number of bytes written so far."""
        return self._size

    @property
    def room(self) -> int:
        """The number of bytes that may still be written."""
        return self._budget - self._size

    def message(self) -> bytes:
        """Return the whole message."""
        return b"".join(self._parts)

    def write(self, block: Block, ids: Callable[[int, int], bytes]) -> int:
        """Write ranges until one does not fit. Return how many were written.

        `ids(low, high)` returns the packed ids of a range that is sent as ids.
        """
        # This loop is hot in every session. The first part is the Skip, or empty.
        skip = self.bound != block.floor
        parts = [_skip(self.bound, block.floor) if skip else b""]
        room = self.room - len(parts[0])
        last, written = (block.floor if skip else self.bound)[0], 0
        for stamp, prefix, low, high, fingerprint in zip(
            block.stamps, block.prefixes, block.lows, block.highs(), block.prints, strict=True
        ):
            step = stamp - last + 1 if stamp != INFINITY else 0
            delta = VARINTS[step] if step < _SMALL else encode_varint(step)
            need = len(delta) + len(prefix) + 2
            if fingerprint is not None:
                need += FINGERPRINT_SIZE
                if need > room:
                    break
                head = _LENGTHS[len(prefix)] + prefix + b"\1" if prefix else b"\0\1"
                parts += (delta, head, fingerprint)
            else:
                size = high - low
                count = VARINTS[size] if size < _SMALL else encode_varint(size)
                need += len(count) + size * ID_SIZE
                if need > room:
                    break
                head = _LENGTHS[len(prefix)] + prefix + b"\2" if prefix else b"\0\2"
                parts += (delta, head, count, ids(low, high))
            room -= need
            last = stamp
            written += 1
        if written:
            # Joining now is faster than joining many small parts at the end (cache).
            self._parts.append(b"".join(parts))
            self._size = self._budget - room
            self.bound = block.upper(written - 1)
        return written

    def tail(self, floor: Bound, fingerprint: bytes | None) -> None:
        """End the message with one range above `floor`, with this fingerprint, or empty for None.

        An empty rest is an empty IdList, so the other side names its ids there. An empty
        fingerprint could by accident equal the one of a range that the other side cut at another
        place.
        """
        if INFINITY in (self.bound[0], floor[0]):
            return
        if self.bound != floor:
            self._append(_skip(self.bound, floor), floor)
        body = b"\2\0" if fingerprint is None else b"\1" + fingerprint
        self._append(b"\0\0" + body, (INFINITY, b""))

    def _append(self, part: bytes, bound: Bound) -> None:
        self._parts.append(part)
        self._size += len(part)
        self.bound = bound


def _skip(last: Bound, bound: Bound) -> bytes:
    """Return a Skip up to `bound`, after a range up to `last`."""
    stamp, prefix = bound
    delta = varint(0 if stamp == INFINITY else stamp - last[0] + 1)
    return b"".join((delta, _LENGTHS[len(prefix)], prefix, b"\0"))


_LENGTHS = [bytes([length]) for length in range(ID_SIZE + 1)]


def _check_order(before: bytes, prefix: bytes) -> None:
    # A prefix is an id filled up with zeros, so b"\1" and b"\1\0" are the same bound.
    if prefix.ljust(ID_SIZE, b"\0") < before.ljust(ID_SIZE, b"\0"):
        raise NegentropyError("bounds that descend", kind="bad-bound-order")


def _truncated() -> NegentropyError:
    return NegentropyError("the message ends too early", kind="truncated")
