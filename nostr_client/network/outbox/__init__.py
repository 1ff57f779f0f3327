"""Choose the relays for a target (NIP-65).

The package takes a target and indexers. It returns relays, with the reason for each refused relay.
Bounds limit how many relays it returns, and many targets share relays. Earlier answers of relays
(`evidence`) order them. Start with `finding`, then read `choose`.
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
