"""Stores what relays answered: claims, how far each relay was read, and its known events.

Claims and complete chains of pages enter; the earlier answer of each relay leaves. Start with
`coverage` (how far a relay was read), then `book` (the tables).
"""

from __future__ import annotations

from nostr_client.count.claims.book import CLAIMS, ClaimBook, Place, PlaceInMemory
from nostr_client.count.claims.coverage import (
    OVERLAP,
    VOID,
    Changes,
    Drift,
    Held,
    Mark,
    Reread,
    Update,
)
from nostr_client.count.claims.memory import ListMemory, Memory, reading_of
from nostr_client.count.claims.rows import Asked, Remembered, is_answer

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
