"""Shows which relay has which of an author's events, and repairs what is missing.

An author and relays enter; a matrix of ids, a plan and its report leave. Start with `looking`,
which asks relays. `matrix` computes unions and gaps; `gathering` and `plan` make the plan of a
repair, and `repair` executes it.
"""

from __future__ import annotations

from nostr_client.sync.coverage.looking import Look, look
from nostr_client.sync.coverage.matrix import Coverage, CoverageCell
from nostr_client.sync.coverage.plan import CoveragePlan, SkipReason
from nostr_client.sync.coverage.repair import RepairReport

__all__ = ["Coverage", "CoverageCell", "CoveragePlan", "Look", "RepairReport", "SkipReason", "look"]
