"""Stores what relays answered: claims, how far each relay was read, and its known events.

Claims and complete chains of pages enter; the earlier answer of each relay leaves. Start with
`coverage` (how far a relay was read), then `book` (the tables).
"""

from __future__ import annotations

from nostr_client.count.claims.book import CLAIMS, ClaimBook, MemoryAccess, TransientMemory
from nostr_client.count.claims.coverage import (
    OVERLAP,
    VOID,
    Drift,
    EventChanges,
    HeldEvent,
    ReadCoverage,
    Reread,
    Update,
)
from nostr_client.count.claims.evidence import StoredExperience
from nostr_client.count.claims.memory import ListMemory, Memory, reading_of
from nostr_client.count.claims.rows import StoredAnswers, StoredQuery, is_answer

__all__ = [
    "CLAIMS",
    "OVERLAP",
    "VOID",
    "ClaimBook",
    "Drift",
    "EventChanges",
    "HeldEvent",
    "ListMemory",
    "Memory",
    "MemoryAccess",
    "ReadCoverage",
    "Reread",
    "StoredAnswers",
    "StoredExperience",
    "StoredQuery",
    "TransientMemory",
    "Update",
    "is_answer",
    "reading_of",
]
