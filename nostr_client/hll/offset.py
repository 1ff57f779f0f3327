"""Which eight bytes of a pubkey a filter's sketch looks at (NIP-45, "offset computation")."""

from __future__ import annotations

import re
from hashlib import sha256
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_HEX32 = re.compile(r"[0-9a-f]{64}")
# The identifier is whatever follows the second colon, colons and line breaks included.
_ADDRESS = re.compile(r"[0-9]+:([0-9a-f]{64}):.*", re.DOTALL)


def offset(filter: Mapping[str, object]) -> int | None:
    """The byte index 8..23 for a NIP-01 filter, or None where NIP-45 leaves it undefined.

    The first value of the first tag attribute decides, in the order of the mapping: a filter that
    was re-serialised in another order has another offset (see `eligible`). `limit`, `since` and
    the rest do not matter.
    """
    for name, values in filter.items():
        if name.startswith("#"):
            return _offset_of(values[0]) if isinstance(values, (list, tuple)) and values else None
    return None


def eligible(filter: Mapping[str, object]) -> bool:
    """Whether relays that give registers give them for this filter: one attribute of one value."""
    return mergeable(filter) and len(_attributes(filter)[0]) == 1


def mergeable(filter: Mapping[str, object]) -> bool:
    """Whether sketches for this filter may be merged: one tag attribute, of values that are text.

    Of several values the first decides. Stricter than the text on purpose: of several attributes
    relays that keep filters in unordered maps take another one first, and their registers would
    silently not fit ours.
    """
    attributes = _attributes(filter)
    if len(attributes) != 1 or not all(isinstance(value, str) for value in attributes[0]):
        return False
    return offset(filter) is not None


def _attributes(filter: Mapping[str, object]) -> list[Sequence[object]]:
    """The values of each tag attribute, none where they are no list."""
    found = (values for name, values in filter.items() if name.startswith("#"))
    return [values if isinstance(values, (list, tuple)) else () for values in found]


def _offset_of(value: object) -> int | None:
    digits = _hex_of(value) if isinstance(value, str) else None
    return None if digits is None else int(digits[32], 16) + 8


def _hex_of(value: str) -> str | None:
    """The 64 hex digits that stand for a tag value; None for text that is no Unicode."""
    if _HEX32.fullmatch(value):
        return value
    address = _ADDRESS.fullmatch(value)
    if address:
        return address[1]
    try:
        return sha256(value.encode()).hexdigest()
    except UnicodeEncodeError:
        return None
