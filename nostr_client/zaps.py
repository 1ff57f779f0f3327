"""What a zap receipt (NIP-57, kind 9735) proves: who paid how much for what. Pure.

A receipt is written by the wallet service of the receiver, and anybody may write one. Checked is
what can be checked without asking that service: the zap request inside is signed, asks for the
same target and amount, and the invoice was made for exactly this request.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Final, NamedTuple

from nostr_client.bolt11 import parse_invoice
from nostr_client.errors import InvalidEvent, InvalidInput
from nostr_client.event import parse_event
from nostr_client.keys import verify

if TYPE_CHECKING:
    from nostr_client.event import Event

RECEIPT: Final = 9735
REQUEST: Final = 9734


class Zap(NamedTuple):
    """A zap that holds: `amount` in millisats, and the pubkey that asked for it.

    Wallets sign for people who pay without a key of their own by a key that is made for one zap.
    """

    amount: int
    sender: str


def read_zap(receipt: Event, target: str | None = None) -> Zap | None:
    """The zap of a receipt, or None where it does not hold; never raises.

    `target`: hex id, hex pubkey or address that the zap must be for. Costs a signature check.
    """
    if receipt.kind != RECEIPT:
        return None
    text, invoice = receipt.first_tag("description"), receipt.first_tag("bolt11")
    if text is None or invoice is None:
        return None
    try:
        request = verify(parse_event(text)).event
        paid = parse_invoice(invoice)
    except (InvalidEvent, InvalidInput):
        return None
    if paid.amount is None or not _is_for(request, target):
        return None
    if paid.description_hash not in (None, sha256(text.encode()).digest()):
        return None
    return Zap(paid.amount, request.pubkey) if _agree(receipt, request, paid.amount) else None


def _is_for(request: Event, target: str | None) -> bool:
    if request.kind != REQUEST:
        return False
    named = [value for name in "pea" for value in request.tag_values(name)]
    return target is None or target in named


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
