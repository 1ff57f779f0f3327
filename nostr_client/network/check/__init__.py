"""Checks one relay against the NIPs: asks it about its own events, and judges the answers.

`procedure.check_relay` is the way in. Modules `judge_*` judge what came and do no I/O; modules
`ask_*` decide what to ask next; `probe` talks to the relay.
"""

from __future__ import annotations

from nostr_client.network.check.findings import CheckReport, Finding, Outcome
from nostr_client.network.check.procedure import check_relay

__all__ = ["CheckReport", "Finding", "Outcome", "check_relay"]
