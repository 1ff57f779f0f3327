"""What a zap receipt (NIP-57, kind 9735) proves: who paid how much for what. Pure.

A receipt is written by the wallet service of the receiver, and anybody may write one. Checked is
what can be checked without asking that service: the zap request inside is signed, asks for the
same target and amount, and the invoice was made for exactly this request. Counts, counters and the
derived tables of a store all use it. What one receipt does not show is left to counts, as it
depends on what else is known: whether the receiver may be paid for the target, and whether other
receipts claim the same payment.

That a receipt holds does not mean that anybody paid: the receiver's wallet may write any invoice,
and so may whoever signs receipts with a key of their own. Sums are what receipts claim.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Final, NamedTuple

from nostr_client.bolt11 import Invoice, parse_invoice
from nostr_client.errors import InvalidEvent, InvalidInput
from nostr_client.event import parse_event
from nostr_client.keys import verify

if TYPE_CHECKING:
    from collections.abc import Collection

    from nostr_client.event import Event

RECEIPT: Final = 9735
REQUEST: Final = 9734

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


class Paid(NamedTuple):
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
    request = held.request
    about = request.first_tag("e") or request.first_tag("a")
    receiver = request.first_tag("p") or ""
    return Zap(held.amount, request.pubkey, receiver, about, held.payment)


def paid(receipt: Event) -> list[Paid]:
    """What `read_zap` says of each target that receipt and request both name; none: [].

    For sums of what receipts claim: derived tables keep no invoices, and an event may come long
    after its receipts, so sums by target are not checked against its author and splits.
    """
    held = _held(receipt)
    if held is None:
        return []
    named = _named(held.request)
    targets = {(name, value) for name in TARGET_TAGS for value in receipt.tag_values(name)}
    return [Paid(name, value, held.amount) for name, value in sorted(targets) if value in named]


class _Held(NamedTuple):
    request: Event
    amount: int
    payment: bytes


def _held(receipt: Event) -> _Held | None:
    """The request and the amount of a receipt that holds; the signature is looked at last."""
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
    """What tells payments apart: the payment hash, or the text of an invoice that has none.

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
