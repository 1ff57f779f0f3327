"""Counters on a real nats-server, through nats-py (extra `[nats]`).

Increments enter; values that the server stores leave. Start with `store`. Only this package
imports nats-py.
"""

from __future__ import annotations

from nostr_client.counters.jetstream.counters import JetStreamCounters
from nostr_client.counters.jetstream.dial import NatsOptions
from nostr_client.counters.jetstream.store import JetStreamCounterStore

__all__ = ["JetStreamCounterStore", "JetStreamCounters", "NatsOptions"]
