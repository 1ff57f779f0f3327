"""Holds what the connections of one relay share: store, hub, ingest, threads."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from agent.relay.hub import Hub
from agent.relay.outbox import OutboxBudget
from agent.relay.outputs import Disconnect
from nostr_client.errors import StoreError
from nostr_client.network.ingest import Ingest, IngestOptions
from nostr_client.network.verifier import ThreadVerifier
from nostr_client.store.base import SaveOutcome, SaveStatus

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Sequence

    from agent.relay.context import RelayContext
    from agent.relay.merged import MergedNumbers
    from agent.relay.options import RelayOptions
    from agent.relay.outputs import Output, SaveJob, ServerSubscription
    from agent.relay.session import ServerSession
    from nostr_client.codecs.event import Event
    from nostr_client.codecs.keys import VerifiedEvent
    from nostr_client.network.ingest import Result
    from nostr_client.store.base import EventStore

INTERNAL_ERROR = 1011
"""WebSocket code for a server's own fault."""

TICK_S = 1.0
"""Seconds between two searches for idle NIP-77 sessions."""

WORKERS = 2
"""Threads for signatures, and as many for NIP-77: libsecp256k1 and numpy release the GIL."""

SCANS = 2
"""COUNTs and NEG-OPENs that read the store at once, fewer than its readers: however many clients
ask for these, a small REQ finds a reader free."""

INGEST: Final = IngestOptions(least=128, pause_s=0.005, batch=1_024)
"""A commit of more events would let those behind it wait for longer than about 0.1 s. Fewer than
128 events wait for those in verification, about 0.03 s at 4,000 a second."""

TOGETHER: Final = 128
"""Most events that go on together: what one thread verifies in about 6 ms."""

_NEW: Final = (SaveStatus.STORED, SaveStatus.EPHEMERAL)


class Client(Protocol):
    """What the relay needs of a connection."""

    session: ServerSession

    def handle(self, outputs: Iterable[Output]) -> None:
        """Carry out what the session wants."""

    def saved(self, answers: Sequence[str]) -> None:
        """Some of this connection's events are settled; each has one frame as its answer."""

    def live(self, subscription: ServerSubscription, event: Event, event_json: str) -> bool:
        """Hand a new event to a subscription; True when it was sent."""

    def end(self, end: Disconnect) -> None:
        """End the connection."""


class SubscriptionRoute:
    """A subscription and the connection that it belongs to: what the hub finds."""

    __slots__ = ("connection", "subscription")

    def __init__(self, connection: Client, subscription: ServerSubscription) -> None:
        self.connection = connection
        self.subscription = subscription


class RelayCore:
    """One relay without its sockets. `on_event` gets the id of each event to save, and `url`.

    `merged`: what answers on the path of merged numbers; None where there is no such path.
    """

    def __init__(
        self,
        store: EventStore,
        context: RelayContext,
        url: str = "",
        on_event: Callable[[str, str], None] | None = None,
        merged: MergedNumbers | None = None,
    ) -> None:
        self.store = store
        self.merged = merged
        self.context = context
        self.hub: Hub[SubscriptionRoute] = Hub()
        self.threads = ThreadPoolExecutor(WORKERS, thread_name_prefix="relay")
        self.url = url
        self._verifier = ThreadVerifier(workers=WORKERS)
        """Not that of a pool, which would share events: `is_saving` goes by identity."""
        self.ingest = Ingest(store, INGEST, verifier=self._verifier, on_event=on_event)
        self._arrived: list[tuple[Client, SaveJob]] = []
        self.connections: set[Client] = set()
        self.stopped = False
        self.waiting = OutboxBudget(context.options.limits.send_total_bytes)
        self.scans = asyncio.Semaphore(SCANS)
        """Held by a COUNT or a NEG-OPEN while it reads the store."""
        self.counts_rest_until = 0.0
        """When COUNTs are answered at once again, by the monotonic clock."""
        self.large = asyncio.Lock()
        """Held while one large event is read: only after that is the room for others known."""

    @property
    def options(self) -> RelayOptions:
        """The relay's options."""
        return self.context.options

    def save(self, connection: Client, job: SaveJob) -> None:
        """Store an event of a client: OK after the commit, then to the subscriptions.

        The caller reads no further frames until there is room (`Ingest.room`). The events that
        arrive in one turn of the event loop go on together.
        """
        self._arrived.append((connection, job))
        if len(self._arrived) >= TOGETHER:
            self._hand_over()
        elif len(self._arrived) == 1:
            asyncio.get_running_loop().call_soon(self._hand_over)

    def _hand_over(self) -> None:
        taken, self._arrived = self._arrived, []
        if taken:
            self.ingest.put([job.event for _, job in taken], self.url, partial(self._saved, taken))

    async def saved(self) -> None:
        """Wait until every EVENT that was taken has its answer. Safe to cancel."""
        self._hand_over()
        await self.ingest.drain()

    def _saved(
        self,
        taken: Sequence[tuple[Client, SaveJob]],
        events: Sequence[Event | VerifiedEvent],
        results: Sequence[Result],
    ) -> None:
        new: list[Event] = []
        answers: dict[Client, list[str]] = {}
        for (connection, job), result in zip(taken, results, strict=True):
            if isinstance(result, SaveOutcome):
                outcome: SaveOutcome | StoreError | str = result
                if result.status in _NEW:
                    new.append(job.event)
            else:
                outcome = result if isinstance(result, StoreError) else str(result)
            given = answers.setdefault(connection, [])
            given += connection.session.saved(job.event, outcome)
        for connection, given in answers.items():
            connection.saved(given)
        self.announce(new)

    def announce(self, events: Sequence[Event]) -> None:
        """Hand new events to the subscriptions that match them; they are committed, or ephemeral.

        For events that the relay itself did not take in, too: what a sync stored.
        """
        if not len(self.hub):
            return
        sent = 0
        for event in events:
            routes = list(self.hub.match(event))
            if routes:
                text = event.to_json()
                sent += sum(r.connection.live(r.subscription, event, text) for r in routes)
        self.context.counted["live_events"] += sent

    async def run(self) -> None:
        """Run the work beside the connections until cancelled; if it fails, end them."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self.ingest.run())
                group.create_task(self._tick())
        finally:
            self.stopped = True
            self.end_all(Disconnect(INTERNAL_ERROR, "error: the relay broke down"))

    async def drain(self, seconds: float) -> None:
        """Wait until every EVENT that was taken has its answer, but no longer than `seconds`."""
        if self.stopped:
            return
        try:
            async with asyncio.timeout(seconds):
                await self.saved()
        except TimeoutError:
            self.context.counted["undrained"] += 1

    def end_all(self, end: Disconnect) -> None:
        """End every connection with the same reason."""
        for connection in list(self.connections):
            connection.end(end)

    async def _tick(self) -> None:
        """Look for idle NIP-77 sessions, for ever."""
        while True:
            await asyncio.sleep(TICK_S)
            for connection in list(self.connections):
                connection.handle(connection.session.negotiation.tick())

    @asynccontextmanager
    async def room(self) -> AsyncIterator[None]:
        """Wait until readers have taken enough for one more large event, which the block reads.

        Raises TimeoutError after the time in which a reader that takes nothing is disconnected.
        """
        async with asyncio.timeout(self.options.limits.send_timeout_s), self.large:
            await self.waiting.room()
            yield

    def forget(self, connection: Client) -> None:
        """Remove a connection that has ended."""
        self.connections.discard(connection)

    async def close(self) -> None:
        """Let the threads go."""
        self.threads.shutdown(wait=False, cancel_futures=True)
        await self._verifier.close()
