"""Check one relay against the NIPs: query it about its own events, and judge the answers.

Start with `procedure.check_relay`. Modules `judge_*` judge answers and do no I/O. Modules `ask_*`
choose the next request. `probe` sends requests to the relay.
"""

from __future__ import annotations

from nostr_client.network.check.findings import CheckOutcome, CheckReport, Finding
from nostr_client.network.check.procedure import check_relay

__all__ = ["CheckOutcome", "CheckReport", "Finding", "check_relay"]
