"""Keep counters on a nats-server, through nats-py (extra `[nats]`).

The package takes increments. It returns the values that the server stores. Start with `store`. Only
this package imports nats-py.
"""

from __future__ import annotations

from nostr_client.counters.jetstream.counters import JetStreamCounters
from nostr_client.counters.jetstream.dial import NatsOptions
from nostr_client.counters.jetstream.store import JetStreamCounterStore

__all__ = ["JetStreamCounterStore", "JetStreamCounters", "NatsOptions"]
