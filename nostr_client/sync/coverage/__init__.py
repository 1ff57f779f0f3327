"""Which relay has which of an author's events: a matrix by ids, and what its deletions left."""

from __future__ import annotations

from nostr_client.sync.coverage.looking import Look, look
from nostr_client.sync.coverage.matrix import Cell, Coverage

__all__ = ["Cell", "Coverage", "Look", "look"]
