"""Show which relay has which of an author's events, and repair what is missing.

`looking` asks relays, `matrix` computes unions and gaps from the answers; `gathering` and `plan`
make the plan of a repair, `repair` executes it.
"""

from __future__ import annotations

from nostr_client.sync.coverage.looking import Look, look
from nostr_client.sync.coverage.matrix import Cell, Coverage
from nostr_client.sync.coverage.plan import Plan, Why
from nostr_client.sync.coverage.repair import RepairReport

__all__ = ["Cell", "Coverage", "Look", "Plan", "RepairReport", "Why", "look"]
