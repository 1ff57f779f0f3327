"""Holds what all sessions of one relay share: options, clock, budgets, counts."""

from __future__ import annotations

import time
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent.relay.options import RelayOptions
    from nostr_client.network.pacing import TokenBucket


@dataclass(frozen=True, slots=True)
class RelayClock:
    """Two clocks: `monotonic` for rates and idle times, `wall` for what events say; seconds."""

    monotonic: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time


@dataclass(slots=True)
class NegBudget:
    """Events that the snapshots of all NIP-77 sessions hold together."""

    items: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayContext:
    """Everything a session needs to know that is not its own."""

    options: RelayOptions
    urls: frozenset[str]
    """Normalised URLs of this relay: what an AUTH event's `relay` tag may name."""

    search: bool = False
    """Whether the store answers NIP-50."""

    clock: RelayClock = field(default_factory=RelayClock)
    neg_budget: NegBudget = field(default_factory=NegBudget)
    counted: Counter[str] = field(default_factory=Counter)
    """What was done and cut since the start, by name; numbers of things."""

    count_seconds: deque[float] = field(default_factory=lambda: deque(maxlen=4_096))
    """How long the newest COUNTs took, from frame to answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """One connection's side: where it comes from and what it may do."""

    address: str
    challenge: str
    """NIP-42 challenge of this connection, fresh and random."""

    bucket: TokenBucket
    address_bucket: TokenBucket
    urls: frozenset[str] = frozenset()
    """URLs by which this client reached the relay, from its Host header."""

    read_only_reason: str = ""
    """Why it may not write, or ""."""
