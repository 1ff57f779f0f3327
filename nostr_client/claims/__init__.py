"""What relays said, kept: stored claims, how far each relay was read, and what is held of it."""

from __future__ import annotations

from nostr_client.claims.book import ClaimBook
from nostr_client.claims.mark import (
    OVERLAP,
    VOID,
    Changes,
    Drift,
    Held,
    Mark,
    Reread,
    Update,
)
from nostr_client.claims.memory import ListMemory, Memory, reading_of
from nostr_client.claims.places import Place, PlaceInMemory
from nostr_client.claims.rows import Asked, Remembered, is_answer
from nostr_client.claims.schema import CLAIMS

__all__ = [
    "CLAIMS",
    "OVERLAP",
    "VOID",
    "Asked",
    "Changes",
    "ClaimBook",
    "Drift",
    "Held",
    "ListMemory",
    "Mark",
    "Memory",
    "Place",
    "PlaceInMemory",
    "Remembered",
    "Reread",
    "Update",
    "is_answer",
    "reading_of",
]
