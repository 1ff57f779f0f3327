"""Chooses the relays for a target (NIP-65): lists, bounds, refusals, and a cover of many targets.

A target and indexers enter; relays leave, with the reason of each that is refused. What relays
showed so far (`evidence`) orders them. Start with `finding`, then `choose`.
"""

from __future__ import annotations

from nostr_client.network.outbox.choose import (
    ChosenRelays,
    RelayChoice,
    choose,
    choose_many,
    greedy_cover,
)
from nostr_client.network.outbox.evidence import RankedRelay, RelayEvidence, rank
from nostr_client.network.outbox.finding import (
    Experience,
    Fetch,
    OutboxTarget,
    PoolFetch,
    RelayFinder,
    read_target,
)
from nostr_client.network.outbox.relaylist import (
    MOST_LISTED,
    RELAY_LIST,
    RelayList,
    parse_relay_list,
)

__all__ = [
    "MOST_LISTED",
    "RELAY_LIST",
    "ChosenRelays",
    "Experience",
    "Fetch",
    "OutboxTarget",
    "PoolFetch",
    "RankedRelay",
    "RelayChoice",
    "RelayEvidence",
    "RelayFinder",
    "RelayList",
    "choose",
    "choose_many",
    "greedy_cover",
    "parse_relay_list",
    "rank",
    "read_target",
]
