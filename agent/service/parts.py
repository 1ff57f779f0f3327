"""Opens the parts of the agent in order: store, relays, counting and counters."""

from __future__ import annotations

import secrets
import time
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from agent.alerts.outbox import OUTBOX
from agent.config.model import BUILT_IN
from agent.maintenance.index import Indexing
from agent.service.relay_state import RELAY_BOOK, RelayBook
from agent.state import AGENT
from nostr_client.assertions import ASSERTIONS
from nostr_client.codecs.relay_url import normalize
from nostr_client.count.asking import CountOptions
from nostr_client.count.claims import CLAIMS, ClaimBook, StoredExperience
from nostr_client.count.merge import TrustPolicy
from nostr_client.count.procedure import CountEngine
from nostr_client.count.wallets.rows import WALLETS
from nostr_client.counters.base import NoStream
from nostr_client.counters.config import StreamConfig
from nostr_client.counters.engine.schema import MIGRATIONS as COUNTERS
from nostr_client.counters.ingest import IngestCounters, Provenance, ingest_stream
from nostr_client.counters.sqlite.store import SqliteCounterStore
from nostr_client.errors import StoreFull
from nostr_client.network.ingest import Ingest
from nostr_client.network.outbox import PoolFetch, RelayChoice, RelayFinder
from nostr_client.network.pool import RelayPool
from nostr_client.options import ConnectionOptions, Options
from nostr_client.paths import store_path, user_path
from nostr_client.store.index.keeper import Index
from nostr_client.store.options import StoreOptions
from nostr_client.store.sqlite import SqliteStore
from nostr_client.sync.coverage.history import COVERAGES
from nostr_client.sync.coverage.relays import CoverageRelays
from nostr_client.sync.memory import SyncMemory, memory_of
from nostr_client.sync.sent import REPAIRS, StoredAttempts
from nostr_client.watch import WATCHES

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Sequence
    from pathlib import Path

    from agent.config import Config
    from agent.config.model import RelaysSection
    from nostr_client.codecs.keys import Signer, VerifiedEvent
    from nostr_client.count.reading.events import Keep
    from nostr_client.watch.clock import Clock

FIND_TIMEOUT_S: Final = 10.0
"""For the relay lists of all targets."""

STUCK_S: Final = 30.0
"""A writer that has finished nothing for so long is stuck."""


@dataclass(slots=True)
class Heartbeat:
    """Whether event loop and writer make progress; beaten by the service's ticker."""

    written_at: float = field(default_factory=time.monotonic)
    stopping: bool = False

    def beat(self) -> None:
        """The writer has done something just now."""
        self.written_at = time.monotonic()

    @property
    def alive(self) -> bool:
        """Whether the writer's last sign is recent."""
        return time.monotonic() - self.written_at < STUCK_S

    def reasons(self) -> list[str]:
        """Why it is not well."""
        found = [] if self.alive else ["the store's writer makes no progress"]
        return [*found, "stopping"] if self.stopping else found


@dataclass(frozen=True, slots=True)
class AgentParts:
    """Open parts; `run` names this run of the agent."""

    store: SqliteStore
    path: str
    pool: RelayPool
    count_options: CountOptions
    """How watches count, and the store that knows deletions."""
    keep: Keep
    """Stores events that relays sent, if the store takes any."""
    memory: SyncMemory
    counters: SqliteCounterStore
    signer: Signer | None
    provenance: Provenance
    ingest: Ingest
    """Stores what counts read and live watches keep, while `Agent.run` runs it."""
    health: Heartbeat
    run: str
    index: Indexing | None
    book: RelayBook


@asynccontextmanager
async def open_parts(
    config: Config, clock: Clock, signer: Signer | None, urls: Collection[str] = ()
) -> AsyncIterator[AgentParts]:
    """Open everything for as long as the block runs. Raises StoreError and its kinds."""
    async with AsyncExitStack() as stack:
        path = store_file(config)
        store = await stack.enter_async_context(await _open_store(config, path, clock, urls))
        await store.room.look()
        index = Indexing(store, await Index.open(store)) if config.store.index else None
        options = pool_options(config)
        book = await RelayBook.open(store.database, clock.wall())
        pool = await stack.enter_async_context(
            RelayPool(
                options=options,
                signer=signer,
                known=book.known,
                unnamed=(*BUILT_IN.default, *BUILT_IN.indexers),
                now=clock.wall,
                sleep=clock.sleep,
            )
        )
        counters = await SqliteCounterStore.over(
            store.database, clock=lambda: int(clock.wall() * 1e9)
        )
        await make_streams(counters, config)
        run = secrets.token_hex(6)
        await counters.remotes.begin_run(run)
        # Counts only where a configured stream listens on events.*, relay.*.received, zaps.*.msats.
        counted = IngestCounters(clock=lambda: int(clock.wall() * 1e9))
        store.on_batch.append(counted)
        provenance = counted.provenance
        ingest = Ingest(store, verifier=pool.verifier, on_event=provenance.note)
        keep = keeping(store, ingest)
        yield AgentParts(
            store=store,
            path=str(path),
            pool=pool,
            count_options=CountOptions(timeouts=options.timeouts, stored=store),
            keep=keep,
            ingest=ingest,
            memory=memory_of(store, clock.wall),
            counters=counters,
            signer=signer,
            provenance=provenance,
            health=Heartbeat(),
            run=run,
            index=index,
            book=book,
        )


def store_file(config: Config) -> Path:
    """Where the store is."""
    return user_path(config.store.path) if config.store.path else store_path()


async def _open_store(
    config: Config, path: Path, clock: Clock, urls: Collection[str]
) -> SqliteStore:
    section = config.store
    options = StoreOptions(
        synchronous=section.synchronous,
        cache_mb=section.cache_mb,
        most_bytes=section.most_mb * 1_000_000 or None,
        least_free_bytes=section.least_free_mb * 1_000_000,
    )
    return await SqliteStore.open(
        path,
        urls=urls,
        migrations=[
            CLAIMS,
            WALLETS,
            COUNTERS,
            WATCHES,
            ASSERTIONS,
            AGENT,
            OUTBOX,
            RELAY_BOOK,
            REPAIRS,
            COVERAGES,
        ],
        options=options,
        clock=clock.wall,
    )


def pool_options(config: Config) -> Options:
    """How relays are connected to."""
    network = config.network
    return Options(
        share_budget=True,
        unlimited=frozenset(map(normalize, config.relays.unlimited)),
        connection=ConnectionOptions(
            proxy=network.proxy or None,
            no_proxy=network.no_proxy or None,
            strangers_by_proxy=network.strangers_by_proxy,
        ),
    )


def keeping(store: SqliteStore, ingest: Ingest) -> Keep:
    """What stores events that are read; while the store is full, nothing."""

    async def keep(relay: str, events: Sequence[VerifiedEvent]) -> None:
        if store.full:
            return  # counting continues
        try:
            await ingest.save(events, relay)
        except StoreFull:
            return

    return keep


def make_finder(
    section: RelaysSection, pool: RelayPool, store: SqliteStore, clock: Clock
) -> RelayFinder | None:
    """What finds the relays of watches that name none (NIP-65); None without indexers.

    Strangers wrote these lists, so their relays are bounded, checked, and connected to only on
    public addresses. If no list is found, the defaults are asked. The claims of the store show
    which relays of a long list are worth asking.
    """
    if not section.indexers:
        return None
    choice = choice_of(section, pool)
    return RelayFinder(
        PoolFetch(pool, choice, FIND_TIMEOUT_S),
        choice,
        now=clock.wall,
        experience=StoredExperience(store.database, store, clock.wall),
    )


def choice_of(section: RelaysSection, pool: RelayPool) -> RelayChoice:
    """How relays are chosen from the lists that strangers wrote."""
    return RelayChoice(
        defaults=section.default,
        indexers=section.indexers,
        deny=frozenset(section.denied),
        most=section.most,
        monitors=section.monitors,
        connection=pool.options.connection,
    )


def make_coverage(
    section: RelaysSection, parts: AgentParts, finder: RelayFinder | None, clock: Clock
) -> CoverageRelays:
    """What compares and repairs relays, with the events of the store and the agent's own key."""
    return CoverageRelays(
        parts.pool,
        parts.memory,
        StoredAttempts(parts.store.database),
        store=parts.store,
        finder=finder,
        choice=choice_of(section, parts.pool),
        pubkey=None if parts.signer is None else parts.signer.pubkey,
        now=clock.wall,
    )


def make_counter(config: Config, store: SqliteStore, clock: Clock) -> CountEngine:
    """What counts, with the claims of the store."""
    return CountEngine(
        policy=TrustPolicy(config.relays.trust),
        trusted=[normalize(url) for url in config.relays.trusted],
        book=ClaimBook(store.database),
        now=clock.wall,
    )


async def make_streams(counters: SqliteCounterStore, config: Config) -> None:
    """Make the configured streams where they are missing; others are left as they are."""
    wanted = [
        StreamConfig(name=one.name, subjects=one.subjects, allow_msg_counter=True)
        for one in config.counters.streams
    ]
    if config.counters.ingest:
        wanted.append(ingest_stream())
    for stream in wanted:
        try:
            await counters.stream_info(stream.name)
        except NoStream:
            await counters.create_stream(stream)


async def open_for_reindex(path: Path) -> SqliteStore:
    """Open a store that no agent runs, to adopt a new index. Raises StoreLocked, StoreError."""
    return await SqliteStore.open(path, migrations=[CLAIMS, COUNTERS, AGENT])
