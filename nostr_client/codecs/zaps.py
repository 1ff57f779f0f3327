"""What a zap receipt (NIP-57, kind 9735) proves: who paid how much for what. Pure.

A receipt is written by the wallet service of the receiver, and anybody may write one. Checked is
what can be checked without asking that service: the zap request inside is signed, asks for the
same target and amount, and the invoice was made for exactly this request. Counts, counters and the
derived tables of a store all use it. What one receipt does not show is left to counts, as it
depends on what else is known: whether the receiver may be paid for the target, and whether other
receipts claim the same payment.

That a receipt holds does not mean that anybody paid: the receiver's wallet may write any invoice,
and so may anybody who signs receipts with a key of their own. Sums are what receipts claim.
"""

from __future__ import annotations

import re
from fractions import Fraction
from hashlib import sha256
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from nostr_client.codecs import kinds
from nostr_client.codecs.bech32 import decode_groups
from nostr_client.codecs.event import parse_event
from nostr_client.codecs.keys import verify
from nostr_client.errors import InvalidEvent, InvalidIdentifier, InvalidInput

if TYPE_CHECKING:
    from collections.abc import Collection

    from nostr_client.codecs.event import Event


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


RECEIPT: Final = kinds.ZAP
REQUEST: Final = kinds.ZAP_REQUEST

TARGET_TAGS: Final = ("e", "a", "p")
"""What a zap can be for: an event, an address, a person."""

MOST_MSATS: Final = 100 * 100_000_000 * 1_000
"""A hundred bitcoin: a zap of more is not believed, it would hide every honest sum."""


class Zap(NamedTuple):
    """A zap that holds: `amount` in millisats, the pubkey that asked for it, and whom it pays.

    Wallets sign for people who pay without a key of their own by a key that is made for one zap.
    `about`: the event id or address that it names, None for a zap of a person alone. `payment`: 16
    bytes, the same in all receipts that claim one and the same payment.
    """

    amount: int
    sender: str
    receiver: str
    about: str | None = None
    payment: bytes = b""


class ZapPayment(NamedTuple):
    """What a zap was for, as tag name and value, and its amount in millisats."""

    name: str
    value: str
    msats: int


def read_zap(
    receipt: Event, target: str | None = None, receivers: Collection[str] | None = None
) -> Zap | None:
    """The zap of a receipt, or None where it does not hold; never raises.

    `target`: hex id, hex pubkey or address that the zap must be for. `receivers`: pubkeys that it
    may pay, the author of the target and those of its splits; None: anybody. Costs a signature
    check.
    """
    if receivers is not None and receipt.first_tag("p") not in receivers:
        return None
    held = _held(receipt)
    if held is None or (target is not None and target not in _named(held.request)):
        return None
    return _zap_of(held)


def paid(receipt: Event) -> list[ZapPayment]:
    """What `read_zap` says of each target that receipt and request both name; none: [].

    For sums of what receipts claim: derived tables keep no invoices, and an event may come long
    after its receipts, so sums by target are not checked against its author and splits.
    """
    held = _held(receipt)
    return [] if held is None else _payments_of(receipt, held)


def claimed(receipt: Event) -> tuple[Zap, list[ZapPayment]] | None:
    """Return what `read_zap` and `paid` say, for one signature check; None if it does not hold."""
    held = _held(receipt)
    return None if held is None else (_zap_of(held), _payments_of(receipt, held))


def _zap_of(held: _Held) -> Zap:
    request = held.request
    about = request.first_tag("e") or request.first_tag("a")
    return Zap(held.amount, request.pubkey, request.first_tag("p") or "", about, held.payment)


def _payments_of(receipt: Event, held: _Held) -> list[ZapPayment]:
    named = _named(held.request)
    targets = {(name, value) for name in TARGET_TAGS for value in receipt.tag_values(name)}
    return [
        ZapPayment(name, value, held.amount) for name, value in sorted(targets) if value in named
    ]


class _Held(NamedTuple):
    request: Event
    amount: int
    payment: bytes


def _held(receipt: Event) -> _Held | None:
    """The request and the amount of a receipt that holds; the signature is checked last."""
    text, invoice = receipt.first_tag("description"), receipt.first_tag("bolt11")
    if receipt.kind != RECEIPT or text is None or invoice is None:
        return None
    try:
        request, bill = parse_event(text), parse_invoice(invoice)
        amount = bill.amount
        if request.kind != REQUEST or amount is None or amount > MOST_MSATS:
            return None
        if bill.description_hash not in (None, sha256(text.encode()).digest()):
            return None
        if not _agree(receipt, request, amount):
            return None
        return _Held(verify(request).event, amount, _payment(invoice, bill))
    except (InvalidEvent, InvalidInput):
        return None


def _payment(invoice: str, bill: Invoice) -> bytes:
    """Distinguishes payments: the payment hash, or the text of an invoice that has none.

    The amount belongs to it, so that nobody lowers a sum by a receipt of less under a known hash.
    """
    text = invoice.strip().lower().removeprefix("lightning:").encode()
    return sha256(b"%d " % (bill.amount or 0) + (bill.payment_hash or text)).digest()[:16]


def _named(request: Event) -> set[str]:
    return {value for name in TARGET_TAGS for value in request.tag_values(name)}


def _agree(receipt: Event, request: Event, amount: int) -> bool:
    """One receiver, at most one event, the same ones in both, and the amount that was asked for."""
    receivers, events = list(request.tag_values("p")), list(request.tag_values("e"))
    if len(receivers) != 1 or len(events) > 1:
        return False
    asked = request.first_tag("amount")
    return (
        list(receipt.tag_values("p")) == receivers
        and list(receipt.tag_values("e")) == events
        and asked in (None, str(amount))
    )
