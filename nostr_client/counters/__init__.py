"""Count exactly, with counters that merge (ADR-49, JetStream Distributed Counter CRDT).

The package takes increments of subjects. It returns values, with the part of each source. Start
with `base`, the protocol of both backends: `sqlite` (over `engine`) and `jetstream`. `subjects`,
`rules`, `config` and `audit` are pure. `ingest` counts the events that the store accepts. `push`
sends values to a server.

Names load on first use, because the pure modules need no SQLite. Programs without Nostr can use
counters too, because counters load no code for relays or keys.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nostr_client.counters.base import CounterStore
    from nostr_client.counters.config import SourceConfig, StreamConfig, TransformConfig
    from nostr_client.counters.jetstream import JetStreamCounterStore, NatsOptions
    from nostr_client.counters.push import Pusher, PushOptions, PushReport
    from nostr_client.counters.sqlite import SqliteCounterStore

_EXPORTS: dict[str, str] = {
    "CounterStore": "base",
    "JetStreamCounterStore": "jetstream",
    "NatsOptions": "jetstream",
    "PushOptions": "push",
    "PushReport": "push",
    "Pusher": "push",
    "SourceConfig": "config",
    "SqliteCounterStore": "sqlite",
    "StreamConfig": "config",
    "TransformConfig": "config",
}

__all__ = [
    "CounterStore",
    "JetStreamCounterStore",
    "NatsOptions",
    "PushOptions",
    "PushReport",
    "Pusher",
    "SourceConfig",
    "SqliteCounterStore",
    "StreamConfig",
    "TransformConfig",
]


def __getattr__(name: str) -> Any:
    """Load a public name on first use (PEP 562)."""
    if name not in _EXPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_EXPORTS[name]}"), name)
