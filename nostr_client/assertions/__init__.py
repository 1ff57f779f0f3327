"""Publishes trusted assertions (NIP-85): counts as signed events, which other clients read.

Stored events enter; signed cards of people, events, addresses and identifiers leave, with each
relay's response. Start with `fields` (what each number means), then `tally` (how it is
counted), `cards` (which numbers are published, and when a card is signed again), `ledger` (which
cards were published and which relay accepted them) and `publisher`. `run` does all of it once.
Names are imported when they are first used: the report alone loads neither SQLite nor asyncio.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nostr_client.assertions.cards import Card, CardOptions, cards_of
    from nostr_client.assertions.fields import FIELDS, CardField
    from nostr_client.assertions.ledger import ASSERTIONS, Ledger
    from nostr_client.assertions.publisher import Publisher
    from nostr_client.assertions.report import PublishReport
    from nostr_client.assertions.tally import AssertionTally

_EXPORTS: dict[str, str] = {
    "ASSERTIONS": "ledger",
    "FIELDS": "fields",
    "Card": "cards",
    "CardOptions": "cards",
    "CardField": "fields",
    "Ledger": "ledger",
    "PublishReport": "report",
    "Publisher": "publisher",
    "AssertionTally": "tally",
    "cards_of": "cards",
}

__all__ = [
    "ASSERTIONS",
    "FIELDS",
    "AssertionTally",
    "Card",
    "CardField",
    "CardOptions",
    "Ledger",
    "PublishReport",
    "Publisher",
    "cards_of",
]


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_EXPORTS[name]}"), name)
