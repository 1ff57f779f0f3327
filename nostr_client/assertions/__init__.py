"""Publishes trusted assertions (NIP-85): counts as signed events, which other clients read.

Stored events enter; signed cards of people, events, addresses and identifiers leave, with each
relay's response. Start with `fields` (what each number means), then `tally` (how it is
counted), `cards` (which numbers are published, and when a card is signed again), `ledger` (which
cards were published and which relay accepted them) and `publisher`.
"""

from nostr_client.assertions.cards import Card, CardOptions, cards_of
from nostr_client.assertions.fields import FIELDS, Field
from nostr_client.assertions.ledger import ASSERTIONS, Ledger
from nostr_client.assertions.publisher import Publisher, PublishReport
from nostr_client.assertions.tally import Tally

__all__ = [
    "ASSERTIONS",
    "FIELDS",
    "Card",
    "CardOptions",
    "Field",
    "Ledger",
    "PublishReport",
    "Publisher",
    "Tally",
    "cards_of",
]
