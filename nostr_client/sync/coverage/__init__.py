"""Shows which relay has which of an author's events, and repairs what is missing.

An author and relays enter; a matrix of ids, a plan and its report leave. Start with `looking`,
which asks relays. `matrix` computes unions and gaps; `gathering` and `plan` make the plan of a
repair, and `repair` executes it.
"""

from __future__ import annotations

from nostr_client.sync.coverage.looking import Look, look
from nostr_client.sync.coverage.matrix import Cell, Coverage
from nostr_client.sync.coverage.plan import Plan, Why
from nostr_client.sync.coverage.repair import RepairReport

__all__ = ["Cell", "Coverage", "Look", "Plan", "RepairReport", "Why", "look"]
