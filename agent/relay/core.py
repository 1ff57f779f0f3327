"""What the connections of one relay share: store, hub, ingest, threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from agent.relay.hub import Hub
from agent.relay.ingest import Ingest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent.relay.connection import Connection, Route
    from agent.relay.context import Context
    from agent.relay.options import RelayOptions
    from nostr_client.event import Event
    from nostr_client.store.base import EventStore

WORKERS = 2
"""Threads for signatures and reconciliation: libsecp256k1 and numpy leave the GIL to others."""


class Core:
    """One relay without its sockets."""

    def __init__(self, store: EventStore, context: Context) -> None:
        self.store = store
        self.context = context
        self.hub: Hub[Route] = Hub()
        self.threads = ThreadPoolExecutor(WORKERS, thread_name_prefix="relay")
        self.ingest = Ingest(store, self.threads, self.announce)
        self.connections: set[Connection] = set()

    @property
    def options(self) -> RelayOptions:
        """The relay's options."""
        return self.context.options

    def announce(self, events: Sequence[Event]) -> None:
        """Hand new events to the subscriptions that match them; they are committed, or ephemeral.

        For events that the relay itself did not take in, too: what a sync stored.
        """
        sent = 0
        for event in events:
            routes = list(self.hub.match(event))
            if routes:
                text = event.to_json()
                sent += sum(r.connection.live(r.subscription, event, text) for r in routes)
        self.context.counted["live_events"] += sent

    def forget(self, connection: Connection) -> None:
        """The connection is gone."""
        self.connections.discard(connection)

    def close(self) -> None:
        """Let the threads go."""
        self.threads.shutdown(wait=False, cancel_futures=True)
