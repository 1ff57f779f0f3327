"""Stores what relays answered: claims, how far each relay was read, and its known events.

Claims and complete chains of pages enter; the earlier answer of each relay leaves. Start with
`coverage` (how far a relay was read), then `book` (the tables). Names load on first use: a count
without a store needs no database.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nostr_client.count.claims.book import CLAIMS, ClaimBook
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
    from nostr_client.count.claims.memory import (
        ListMemory,
        Memory,
        MemoryAccess,
        TransientMemory,
        reading_of,
    )
    from nostr_client.count.claims.rows import StoredAnswers, StoredQuery, is_answer

_EXPORTS: dict[str, str] = {
    "CLAIMS": "book",
    "OVERLAP": "coverage",
    "VOID": "coverage",
    "ClaimBook": "book",
    "Drift": "coverage",
    "EventChanges": "coverage",
    "HeldEvent": "coverage",
    "ListMemory": "memory",
    "Memory": "memory",
    "MemoryAccess": "memory",
    "ReadCoverage": "coverage",
    "Reread": "coverage",
    "StoredAnswers": "rows",
    "StoredExperience": "evidence",
    "StoredQuery": "rows",
    "TransientMemory": "memory",
    "Update": "coverage",
    "is_answer": "rows",
    "reading_of": "memory",
}

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


def __getattr__(name: str) -> Any:
    """Load a public name on first use (PEP 562)."""
    if name not in _EXPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_EXPORTS[name]}"), name)
