"""Keep counters in the SQLite store, with the answers of a real nats-server.

The package takes increments. It returns values. Start with `store`. `engine` does the work in the
transaction.
"""

from __future__ import annotations

from nostr_client.counters.sqlite.counters import SqliteCounters
from nostr_client.counters.sqlite.store import SqliteCounterStore

__all__ = ["SqliteCounterStore", "SqliteCounters"]
