"""Lightning invoices (BOLT 11), as far as a zap needs them: what they ask for, and for what. Pure.

The invoice's signature is not checked: whoever counts zaps knows no node's key to compare with.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Final

import msgspec

from nostr_client.bech32 import decode_groups
from nostr_client.errors import InvalidIdentifier, InvalidInput

_PREFIX: Final = re.compile(r"ln(?:bcrt|bc|tbs|tb|sb)(?:([1-9][0-9]{0,17})([munp]?))?")
_MILLISATS: Final = {
    "": Fraction(10**11),
    "m": Fraction(10**8),
    "u": Fraction(10**5),
    "n": Fraction(10**2),
    "p": Fraction(1, 10),
}
_ALL_COINS: Final = 21_000_000 * 10**11
_SIGNATURE: Final = 104  # groups of five bits: 64 bytes and the recovery id
_TIMESTAMP: Final = 7
_HASH: Final = 23  # the field type "h": SHA-256 of the description
_PAYMENT: Final = 1  # the field type "p": the hash whose preimage the payer gets


class Invoice(msgspec.Struct, frozen=True, kw_only=True):
    """`amount` in millisats, None where the payer chooses; `created_at` in Unix seconds.

    `description_hash` are 32 bytes, None where the description stands in the invoice itself.
    `payment_hash` are 32 bytes, the same in all invoices that one payment settles; None where the
    field is missing.
    """

    amount: int | None
    created_at: int
    description_hash: bytes | None = None
    payment_hash: bytes | None = None


def parse_invoice(text: str) -> Invoice:
    """Read an invoice, with or without `lightning:`. Raises InvalidInput."""
    bare = text.strip()
    bare = bare[10:] if bare[:10].lower() == "lightning:" else bare
    try:
        prefix, groups = decode_groups(bare)
    except InvalidIdentifier as error:
        raise InvalidInput(f"not an invoice: {error}") from error
    found = _PREFIX.fullmatch(prefix)
    if found is None or len(groups) < _TIMESTAMP + _SIGNATURE:
        raise InvalidInput("not an invoice: no Lightning prefix, or too short")
    return Invoice(
        amount=None if found[1] is None else _amount(found[1], found[2]),
        created_at=_number(groups[:_TIMESTAMP]),
        description_hash=_field(groups[_TIMESTAMP:-_SIGNATURE], _HASH),
        payment_hash=_field(groups[_TIMESTAMP:-_SIGNATURE], _PAYMENT),
    )


def _amount(digits: str, multiplier: str) -> int:
    amount = int(digits) * _MILLISATS[multiplier]
    if amount.denominator != 1 or amount > _ALL_COINS:
        raise InvalidInput("not an invoice: no whole number of millisats, or more than there are")
    return int(amount)


def _field(groups: list[int], wanted: int) -> bytes | None:
    """The first field of 32 bytes of a type; those of another length are skipped (BOLT 11)."""
    at = 0
    while at + 3 <= len(groups):
        kind, length = groups[at], _number(groups[at + 1 : at + 3])
        field = groups[at + 3 : at + 3 + length]
        if len(field) < length:
            raise InvalidInput("not an invoice: a field is cut off")
        if kind == wanted and length == 52:
            return (_number(field) >> 4).to_bytes(32, "big")
        at += 3 + length
    return None


def _number(groups: list[int]) -> int:
    number = 0
    for group in groups:
        number = number << 5 | group
    return number
