"""Show which relay has which of an author's events, and repair gaps.

The package takes an author and relays. It returns a matrix of ids, a plan and a report. Start with
`looking`, which asks relays. `matrix` computes unions and gaps. `gathering` and `plan` make the
plan of a repair, and `repair` executes the plan.
"""

from __future__ import annotations

from nostr_client.sync.coverage.looking import Look, look
from nostr_client.sync.coverage.matrix import Coverage, CoverageCell
from nostr_client.sync.coverage.plan import CoveragePlan, SkipReason
from nostr_client.sync.coverage.repair import RepairReport

__all__ = ["Coverage", "CoverageCell", "CoveragePlan", "Look", "RepairReport", "SkipReason", "look"]
