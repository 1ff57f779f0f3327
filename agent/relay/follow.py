"""Live subscriptions for what gets into the store by other ways than the relay: syncs, imports."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from nostr_client.filters import Filter

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import AsyncIterator, Sequence

    from agent.relay.server import RelayServer
    from nostr_client.event import Event
    from nostr_client.store.base import Outcome
    from nostr_client.store.sqlite import SqliteStore

AT_ONCE = 500
"""Events that the store is asked for at once."""

WAITING = 20_000
"""Events that wait to be announced; above it the oldest go: a live feed is no backlog."""


@asynccontextmanager
async def following(store: SqliteStore, server: RelayServer) -> AsyncIterator[None]:
    """While the block runs, `server` announces what others store, after its commit.

    What the server itself takes in it announces by itself. Costs nothing while nobody subscribes.
    """
    follower = _Follower(store, server)
    store.on_batch.append(follower.hook)
    working = asyncio.create_task(follower.run())
    try:
        yield
    finally:
        store.on_batch.remove(follower.hook)
        working.cancel()
        await asyncio.wait({working})


class _Follower:
    """From the writer's thread, inside its transaction, to the loop after the commit."""

    def __init__(self, store: SqliteStore, server: RelayServer) -> None:
        self._store = store
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._events: list[Event] = []
        self._some = asyncio.Event()

    def hook(self, _: sqlite3.Connection, batch: Sequence[tuple[Event, Outcome]]) -> None:
        """Called by the store; the transaction is still open."""
        events = [event for event, outcome in batch if outcome.stored]
        if events:
            self._loop.call_soon_threadsafe(self._note, events)

    def _note(self, events: list[Event]) -> None:
        if self._server.subscriptions:
            self._events += [event for event in events if not self._server.is_taking(event)]
            del self._events[:-WAITING]
            self._some.set()

    async def run(self) -> None:
        """Announce, until cancelled."""
        while True:
            await self._some.wait()
            self._some.clear()
            noted, self._events = self._events, []
            wanted = {event.id: event for event in noted if self._server.is_wanted(event)}
            # Writes end in order: when this one is done, those of `noted` are, or were undone.
            await self._store.database.write(lambda _: None)
            self._server.announce(await self._kept(wanted))

    async def _kept(self, events: dict[str, Event]) -> list[Event]:
        """Those that the store has: a hook also sees batches that are undone after it."""
        ids = list(events)
        kept: list[Event] = []
        for at in range(0, len(ids), AT_ONCE):
            some = Filter(ids=ids[at : at + AT_ONCE])
            held = {event.id for event in await self._store.query([some])}
            kept += [events[event_id] for event_id in some.ids or () if event_id in held]
        return kept
