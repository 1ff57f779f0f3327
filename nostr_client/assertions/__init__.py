"""Trusted assertions (NIP-85): counts as signed events, which other clients read.

Stored events enter; signed cards of people, events, addresses and identifiers leave, each with what
every relay said of it. Start with `fields` (what each number means), then `tally` (how it is
counted), `cards` (which numbers are published, and when a card is signed again), `ledger` (what was
published and who took it) and `publisher`.
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
