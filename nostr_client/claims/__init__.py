"""What relays said, kept: stored claims, how far each relay was read, and what is held of it."""

from __future__ import annotations

from nostr_client.claims.mark import (
    OVERLAP,
    Changes,
    Drift,
    Held,
    Mark,
    Reread,
    Update,
)
from nostr_client.claims.memory import ListMemory, Memory, reading_of

__all__ = [
    "OVERLAP",
    "Changes",
    "Drift",
    "Held",
    "ListMemory",
    "Mark",
    "Memory",
    "Reread",
    "Update",
    "reading_of",
]
