"""Bytes of a negentropy V1 message: varints, bounds, ranges.

Source: the protocol V1 appendix of NIP-77. A message is the version byte and then ranges in
ascending order, each an upper bound, a mode and the mode's payload; a range begins where the one
before it ended. Everything read here was sent by a stranger: no length is trusted before it was
compared with the bytes that are there.
"""

from __future__ import annotations

from typing import NamedTuple

from nostr_client.errors import InvalidInput, NegentropyError

PROTOCOL_VERSION = 0x61
ID_SIZE = 32
FINGERPRINT_SIZE = 16
INFINITY = 2**64 - 1
"""The timestamp of the bound after every item; no item may have it."""

SKIP, FINGERPRINT, ID_LIST = 0, 1, 2

MIN_FRAME_LIMIT = 4096
"""The smallest frame limit, bytes: below it a split of one range may not fit."""

FRAME_MARGIN = 64
"""Bytes kept free under the limit for a Skip (44) and the fingerprint of the tail (19)."""

_MAX_VARINT_BYTES = 10
_TABLE_SIZE = 1 << 14


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


_VARINTS = [encode_varint(number) for number in range(_TABLE_SIZE)]


def varint(number: int) -> bytes:
    """`encode_varint`, from a table where the number is small."""
    return _VARINTS[number] if 0 <= number < _TABLE_SIZE else encode_varint(number)


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


class Ranges(NamedTuple):
    """Some ranges of a message, as columns; `payloads` is b"" for a Skip."""

    stamps: list[int]
    prefixes: list[bytes]
    modes: list[int]
    payloads: list[bytes]


class MessageReader:
    """Reads the ranges of one message a few at a time.

    Raises NegentropyError, from the constructor: truncated, bad-version-byte. `version` is the
    sender's; only V1 can be read on.
    """

    def __init__(self, message: bytes) -> None:
        if not message:
            raise _truncated()
        if not 0x60 <= message[0] <= 0x6F:
            raise NegentropyError("not a negentropy version byte", kind="bad-version-byte")
        self.version = message[0]
        self._data = bytes(message)
        self._at = 1
        self._stamp = 0
        self._prefix = b""

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
        data, end = self._data, len(self._data)
        while most > 0 and self._at < end:
            at = self._read_bound()
            mode = data[at] if at < end else -1
            if mode == FINGERPRINT:
                size = FINGERPRINT_SIZE
                at += 1
            else:
                mode, size, at = self._read_other_mode(at)
            if size > end - at:
                raise _truncated()
            ranges.stamps.append(self._stamp)
            ranges.prefixes.append(self._prefix)
            ranges.modes.append(mode)
            ranges.payloads.append(data[at : at + size])
            self._at = at + size
            most -= 1
        return ranges

    def _read_bound(self) -> int:
        data, at = self._data, self._at
        delta = data[at]
        at += 1
        if delta >= 0x80:
            delta, at = decode_varint(data, at - 1)
        stamp = min(self._stamp + delta - 1, INFINITY) if delta else INFINITY
        length = data[at] if at < len(data) else 0x80
        at += 1
        if length:
            if length > ID_SIZE:
                length, at = decode_varint(data, at - 1)
            if length > ID_SIZE:
                raise NegentropyError(f"a bound of {length} bytes", kind="bound-too-long")
            if length > len(data) - at:
                raise _truncated()
        prefix = data[at : at + length]
        if stamp == self._stamp and self._prefix:
            self._check_order(prefix)
        self._stamp, self._prefix = stamp, prefix
        return at + length

    def _check_order(self, prefix: bytes) -> None:
        # Prefixes stand for ids filled up with zeros, so b"\1" and b"\1\0" are the same bound.
        if prefix.ljust(ID_SIZE, b"\0") < self._prefix.ljust(ID_SIZE, b"\0"):
            raise NegentropyError("bounds that descend", kind="bad-bound-order")

    def _read_other_mode(self, at: int) -> tuple[int, int, int]:
        mode, at = decode_varint(self._data, at)
        if mode == SKIP:
            return mode, 0, at
        if mode == FINGERPRINT:
            return mode, FINGERPRINT_SIZE, at
        if mode != ID_LIST:
            raise NegentropyError(f"mode {mode}", kind="bad-mode")
        count, at = decode_varint(self._data, at)
        return mode, count * ID_SIZE, at


class MessageWriter:
    """Writes the ranges of one message, as far as they fit below `frame_limit` bytes (0: all do).

    A range of nothing to say is noted by `skip` and written only when a range follows it.
    """

    def __init__(self, frame_limit: int = 0) -> None:
        self._parts = [bytes([PROTOCOL_VERSION])]
        self._size = 1
        self._budget = frame_limit - FRAME_MARGIN if frame_limit else INFINITY
        self._stamp = 0
        self._owed: tuple[int, bytes] | None = None

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

    def skip(self, stamp: int, prefix: bytes) -> None:
        """Nothing more to say up to this bound."""
        self._owed = (stamp, prefix)

    def fingerprints(self, stamps: list[int], prefixes: list[bytes], prints: list[bytes]) -> int:
        """Write Fingerprint ranges until one does not fit; how many were written."""
        room = self.room - self._flush_cost()
        parts: list[bytes] = []
        last, written = self._stamp, 0
        for stamp, prefix, fingerprint in zip(stamps, prefixes, prints, strict=True):
            delta = varint(0 if stamp == INFINITY else stamp - last + 1)
            room -= len(delta) + len(prefix) + 2 + FINGERPRINT_SIZE
            if room < 0:
                break
            parts += (delta, _LENGTHS[len(prefix)], prefix, b"\1", fingerprint)
            last = stamp
            written += 1
        if written:
            # The first delta counts from the Skip's bound, where one is owed.
            self._flush_skip()
            first = 0 if stamps[0] == INFINITY else stamps[0] - self._stamp + 1
            parts[0] = varint(first)
            self._append(parts)
            self._stamp = last
        return written

    def id_list(self, stamp: int, prefix: bytes, ids: bytes) -> None:
        """Write one IdList of packed ids; the caller looked at `room`."""
        self._flush_skip()
        self._append([*self._bound(stamp, prefix), b"\2", varint(len(ids) // ID_SIZE), ids])

    def tail(self, fingerprint: bytes | None) -> None:
        """End the message: all that follows has this fingerprint, None where nothing follows.

        An empty rest is an empty IdList: the other side then names what it has there, where an
        empty fingerprint may by accident equal that of a range that it cut at another place.
        """
        if INFINITY in (self._stamp, self._owed and self._owed[0]):
            return
        self._flush_skip()
        body = [b"\2\0"] if fingerprint is None else [b"\1", fingerprint]
        self._append([*self._bound(INFINITY, b""), *body])

    def _bound(self, stamp: int, prefix: bytes) -> tuple[bytes, bytes, bytes]:
        delta = varint(0 if stamp == INFINITY else stamp - self._stamp + 1)
        self._stamp = stamp
        return delta, _LENGTHS[len(prefix)], prefix

    def _flush_cost(self) -> int:
        return 12 + len(self._owed[1]) if self._owed else 0

    def _flush_skip(self) -> None:
        if self._owed:
            self._append([*self._bound(*self._owed), b"\0"])
            self._owed = None

    def _append(self, parts: list[bytes]) -> None:
        self._parts += parts
        self._size += sum(map(len, parts))


_LENGTHS = [bytes([length]) for length in range(ID_SIZE + 1)]


def _truncated() -> NegentropyError:
    return NegentropyError("the message ends too early", kind="truncated")
