"""Bytes of a negentropy V1 message: varints, bounds, ranges.

Source: the protocol V1 appendix of NIP-77. A message is the version byte and then ranges in
ascending order, each an upper bound, a mode and the mode's payload; a range begins where the one
before it ended. Everything read here was sent by a stranger: no length is trusted before it was
compared with the bytes that are there.
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
"""The timestamp of the bound after every item; no item may have it."""

SKIP, FINGERPRINT, ID_LIST = 0, 1, 2

MIN_FRAME_LIMIT = 4096
"""The smallest frame limit, bytes: below it a split of one range may not fit."""

FRAME_MARGIN = 64
"""Bytes kept free under the limit for a Skip (44) and the fingerprint of the tail (19)."""

_MAX_VARINT_BYTES = 10


def encode_varint(number: int) -> bytes:
    """Base 128, most significant digit first, the high bit set on all but the last byte.

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
"""The varints of one and two bytes."""


def varint(number: int) -> bytes:
    """`encode_varint`, from a table where the number is small."""
    return VARINTS[number] if 0 <= number < _SMALL else encode_varint(number)


def fingerprint_of(total: int, count: int) -> bytes:
    """The fingerprint of `count` ids whose little endian sum is `total`."""
    raw = (total & SUM_MASK).to_bytes(ID_SIZE, "little")
    return sha256(raw + varint(count)).digest()[:FINGERPRINT_SIZE]


def decode_varint(data: bytes, at: int) -> tuple[int, int]:
    """The number at `at`, and the offset after it.

    Raises NegentropyError: truncated, or varint-overflow past 64 bits or 10 bytes.
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
"""A timestamp and a prefix of an id: the first item that is not below it begins the next range."""


class Ranges(NamedTuple):
    """Some ranges of a message, as columns; `payloads` is b"" for a Skip."""

    stamps: list[int]
    prefixes: list[bytes]
    modes: list[int]
    payloads: list[bytes]


@dataclass(slots=True)
class Block:
    """Neighbouring ranges above `floor`, as columns.

    `stamps` and `prefixes` are the upper bounds, `lows` the index of the first item of each range
    and `high` that after the last; `prints` the fingerprints, None for a range said by its ids.
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
        """The index after the last item of each range."""
        return [*self.lows[1:], self.high]

    def upper(self, part: int) -> Bound:
        """The upper bound of one range."""
        return self.stamps[part], self.prefixes[part]

    def part(self, begin: int, end: int) -> Block:
        """The ranges begin ≤ index < end."""
        return Block(
            self.upper(begin - 1) if begin else self.floor,
            self.lows[end] if end < len(self) else self.high,
            self.stamps[begin:end],
            self.prefixes[begin:end],
            self.lows[begin:end],
            self.prints[begin:end],
        )


class MessageReader:
    """Reads the ranges of one message a few at a time.

    Raises NegentropyError, from the constructor: truncated, bad-version-byte. `version` is the
    sender's; only V1 can be read on. Without `keep_ids` the payload of an IdList is b"" too.
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
        """At most `most` further ranges.

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
        # The hot loop of every session: one long function, varints of up to two bytes inline.
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
    """Writes the ranges of one message, as far as they fit below `frame_limit` bytes (0: all do).

    What lies between `bound`, the last one written, and the ranges that are written next is
    skipped; where nothing follows, the end of the message says as much.
    """

    def __init__(self, frame_limit: int = 0) -> None:
        self._parts = [bytes([PROTOCOL_VERSION])]
        self._size = 1
        self._budget = frame_limit - FRAME_MARGIN if frame_limit else INFINITY
        self.bound: Bound = (0, b"")

    @property
    def size(self) -> int:
        """Bytes written so far."""
        return self._size

    @property
    def room(self) -> int:
        """Bytes that may still be written."""
        return self._budget - self._size

    def message(self) -> bytes:
        """The whole message."""
        return b"".join(self._parts)

    def write(self, block: Block, ids: Callable[[int, int], bytes]) -> int:
        """Write ranges until one does not fit; how many were written.

        `ids(low, high)` gives the packed ids of a range that is said by them.
        """
        # The hot loop of every session; the first part is the Skip, or empty.
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
            # Joined while it is warm in the cache: many small parts at the end are slower.
            self._parts.append(b"".join(parts))
            self._size = self._budget - room
            self.bound = block.upper(written - 1)
        return written

    def tail(self, floor: Bound, fingerprint: bytes | None) -> None:
        """End the message: all above `floor` has this fingerprint, None where nothing follows.

        An empty rest is an empty IdList: the other side then names what it has there, where an
        empty fingerprint may by accident equal that of a range that it cut at another place.
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
    """A Skip up to `bound` after a range up to `last`."""
    stamp, prefix = bound
    delta = varint(0 if stamp == INFINITY else stamp - last[0] + 1)
    return b"".join((delta, _LENGTHS[len(prefix)], prefix, b"\0"))


_LENGTHS = [bytes([length]) for length in range(ID_SIZE + 1)]


def _check_order(before: bytes, prefix: bytes) -> None:
    # Prefixes stand for ids filled up with zeros, so b"\1" and b"\1\0" are the same bound.
    if prefix.ljust(ID_SIZE, b"\0") < before.ljust(ID_SIZE, b"\0"):
        raise NegentropyError("bounds that descend", kind="bad-bound-order")


def _truncated() -> NegentropyError:
    return NegentropyError("the message ends too early", kind="truncated")
