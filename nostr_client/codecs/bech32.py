"""Bech32 (BIP-173) without its limit of 90 characters, as NIP-19 uses it."""

from __future__ import annotations

from functools import reduce
from operator import xor
from typing import TYPE_CHECKING, Final

from nostr_client.errors import InvalidIdentifier

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MAX_LENGTH: Final = 5000
"""Characters of one identifier: the limit that NIP-19 recommends."""

_ALPHABET: Final = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
_VALUES: Final = {char: value for value, char in enumerate(_ALPHABET)}
_GENERATOR: Final = (0x3B6A57B2, 0x26508E6D, 0x1EA119FA, 0x3D4233DD, 0x2A1462B3)
_REMAINDERS: Final = tuple(
    reduce(xor, (one for bit, one in enumerate(_GENERATOR) if top >> bit & 1), 0)
    for top in range(32)
)
"""What the five highest bits of a checksum add to it: one lookup for each character."""


def encode(prefix: str, payload: bytes) -> str:
    """Text of `payload` under a lower-case `prefix`. Raises InvalidIdentifier when too long."""
    return encode_groups(prefix, list(_regroup(payload, 8, 5, pad=True)))


def encode_groups(prefix: str, data: Sequence[int]) -> str:
    """Text of groups of five bits. Raises InvalidIdentifier when too long."""
    text = f"{prefix}1" + "".join(_ALPHABET[v] for v in (*data, *_checksum(prefix, data)))
    if len(text) > MAX_LENGTH:
        raise InvalidIdentifier(f"longer than {MAX_LENGTH} characters")
    return text


def decode(text: str) -> tuple[str, bytes]:
    """The lower-case prefix and the payload of bech32 text. Raises InvalidIdentifier."""
    prefix, data = decode_groups(text)
    return prefix, bytes(_regroup(data, 5, 8, pad=False))


def decode_groups(text: str) -> tuple[str, list[int]]:
    """The lower-case prefix and the groups of five bits, for payloads that are no whole bytes.

    Raises InvalidIdentifier.
    """
    if len(text) > MAX_LENGTH:
        raise InvalidIdentifier(f"longer than {MAX_LENGTH} characters")
    if not text.isascii():
        raise InvalidIdentifier("not bech32: a character of no bech32 text")
    if text != text.lower() and text != text.upper():
        raise InvalidIdentifier("not bech32: letters of both cases")
    prefix, separator, rest = text.lower().rpartition("1")
    if not separator or not prefix or len(rest) < 6:
        raise InvalidIdentifier("not bech32: too short, or no prefix")
    data = _read(rest)
    if _polymod((*_expand(prefix), *data)) != 1:
        raise InvalidIdentifier("not bech32: the checksum does not hold, a character is wrong")
    return prefix, data[:-6]


def _read(text: str) -> list[int]:
    try:
        return [_VALUES[char] for char in text]
    except KeyError as error:
        raise InvalidIdentifier("not bech32: a character of no bech32 text") from error


def _polymod(values: Iterable[int]) -> int:
    check = 1
    for value in values:
        top = check >> 25
        check = (check & 0x1FFFFFF) << 5 ^ value ^ _REMAINDERS[top]
    return check


def _expand(prefix: str) -> tuple[int, ...]:
    return (*(ord(c) >> 5 for c in prefix), 0, *(ord(c) & 31 for c in prefix))


def _checksum(prefix: str, data: Sequence[int]) -> list[int]:
    check = _polymod((*_expand(prefix), *data, 0, 0, 0, 0, 0, 0)) ^ 1
    return [check >> 5 * (5 - place) & 31 for place in range(6)]


def _regroup(values: Iterable[int], width: int, to: int, *, pad: bool) -> list[int]:
    bits = held = 0
    out = []
    for value in values:
        bits = (bits << width | value) & 0xFFF
        held += width
        while held >= to:
            held -= to
            out.append(bits >> held & (1 << to) - 1)
    left = bits & (1 << held) - 1
    if pad and held:
        out.append(left << to - held)
    elif not pad and (held >= width or left):
        raise InvalidIdentifier("not bech32: padding that is not zero")
    return out
