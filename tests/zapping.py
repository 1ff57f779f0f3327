"""Zap requests, invoices and receipts that hold, for tests."""

from __future__ import annotations

from hashlib import sha256

from nostr_client.codecs import bech32
from nostr_client.codecs.event import EventTemplate, Tags
from nostr_client.codecs.keys import KeySigner

SENDER = KeySigner(sha256(b"sender").digest())


def invoice(amount: str, description: str | None = None, *, at: int = 0) -> str:
    """An invoice with a prefix amount such as "210n"; its signature is made up.

    `at`: its time, which tells two invoices apart that are otherwise the same.
    """
    groups = [at >> 5 * i & 31 for i in reversed(range(7))]
    if description is not None:
        number = int.from_bytes(sha256(description.encode()).digest(), "big") << 4
        groups += [23, 52 >> 5, 52 & 31, *(number >> 5 * i & 31 for i in reversed(range(52)))]
    groups += [0] * 104
    return bech32.encode_groups(f"lnbc{amount}", groups)


def zap_tags(amount: str, receiver: str, *more: tuple[str, str], at: int = 0) -> Tags:
    """The tags of a receipt that holds: `more` are its `e` and `a`, in the request too.

    `at`: as that of `invoice`.
    """
    named = (("p", receiver), *more)
    template = EventTemplate(kind=9734, tags=(*named, ("relays", "wss://r.example")), created_at=1)
    text = SENDER.sign_now(template).event.to_json()
    return (*named, ("bolt11", invoice(amount, text, at=at)), ("description", text))
