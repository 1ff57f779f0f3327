"""From subscriptions into a store: nothing lost, nothing forged, nothing verified twice."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from nostr_client import verifier as module
from nostr_client.errors import StoreError, StoreFull
from nostr_client.event import Event
from nostr_client.filters import Filter
from nostr_client.ingest import Ingest, IngestOptions, IngestReport
from nostr_client.keys import verify_many
from nostr_client.options import Limits
from nostr_client.protocol import Tally
from nostr_client.store.base import Status
from nostr_client.store.sqlite import SqliteStore
from nostr_client.subscription import Overflow, Received, Subscription
from nostr_client.verifier import ThreadVerifier
from tests.conformance.store_events import NOW, make

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Sequence

    from nostr_client.keys import VerifiedEvent
    from nostr_client.store.base import Outcome

RELAY, OTHER = "wss://one.example", "wss://two.example"


@pytest.fixture
async def store() -> AsyncIterator[SqliteStore]:
    async with await SqliteStore.open(":memory:", clock=lambda: NOW) as opened:
        yield opened


@pytest.fixture
def verified(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ids that were verified, in order."""
    seen: list[str] = []

    def counting(events: Sequence[Event]) -> object:
        seen.extend(event.id for event in events)
        return verify_many(events)

    monkeypatch.setattr(module, "verify_many", counting)
    return seen


def subscription(*relays: str, queue: int = 1_000) -> Subscription:
    made = Subscription(
        [Filter()], ThreadVerifier(), Limits(queue=queue), live=False, overflow=Overflow.WAIT
    )
    for relay in relays or (RELAY,):
        made.attach(relay, Tally(), lambda: None)
    return made


async def send(
    into: Subscription, events: Iterable[VerifiedEvent | Event], relay: str = RELAY
) -> None:
    """Everything one relay has, then its end."""
    for one in events:
        event = one if isinstance(one, Event) else one.event
        await into.put(Received(relay, event, 500))
    into.mark_ended(relay, None)


async def taken(store: SqliteStore, source: Subscription, **options: Any) -> IngestReport:
    async with Ingest(store, IngestOptions(**options)) as ingest:
        return await asyncio.wait_for(ingest.take(source), 30)


async def test_everything_that_comes_is_stored(store: SqliteStore, verified: list[str]) -> None:
    events = [make(n % 7, at=n) for n in range(1_000)]
    source = subscription(queue=50)
    async with asyncio.TaskGroup() as group:
        group.create_task(send(source, events))
        report = await taken(store, source, chunk=16, batch=100, waiting=150)
    assert (report.received, report.stored, report.invalid) == (1_000, 1_000, 0)
    assert await store.count([Filter()]) == 1_000
    assert len(verified) == 1_000
    assert source.sources[RELAY].delivered == 1_000


async def test_forged_events_are_counted_and_hide_no_true_one(store: SqliteStore) -> None:
    true = make(content="true").event
    forged = Event(true.id, true.pubkey, true.created_at, 1, (), "forged", true.sig)
    unsigned = Event(true.id, true.pubkey, true.created_at, 1, true.tags, true.content, "0" * 128)
    source = subscription(RELAY, OTHER)
    await send(source, [forged, unsigned], OTHER)
    await send(source, [true])
    report = await taken(store, source)
    assert (report.received, report.invalid, report.stored) == (3, 2, 1)
    assert await store.query([Filter()]) == [true]
    assert source.sources[OTHER].invalid == 2


async def test_what_two_relays_send_is_verified_once(
    store: SqliteStore, verified: list[str]
) -> None:
    events = [make(at=n) for n in range(100)]
    source = subscription(RELAY, OTHER)
    await send(source, events[:60])
    await send(source, events[40:], OTHER)
    report = await taken(store, source, chunk=16)
    assert (report.stored, report.known) == (100, 20)
    assert sorted(verified) == sorted(v.event.id for v in events)


async def test_what_the_pool_verified_for_somebody_else_is_not_verified_again(
    store: SqliteStore, verified: list[str]
) -> None:
    shared = ThreadVerifier()
    events = [make(at=n) for n in range(50)]
    await shared.verify([one.event for one in events[:30]])
    source = subscription()
    await send(source, events)
    async with Ingest(store, verifier=shared) as ingest:
        report = await asyncio.wait_for(ingest.take(source), 30)
    assert report.stored == 50
    assert sorted(verified) == sorted(one.event.id for one in events)
    assert shared.reused == 30
    assert len(await shared.verify([make(at=99).event])) == 1  # it is the pool's to close
    await shared.close()


async def test_what_the_store_knows_is_not_verified(
    store: SqliteStore, verified: list[str]
) -> None:
    old, new = make(kind=0, at=1), make(kind=0, at=2)
    await store.save([old, new])
    source = subscription()
    await send(source, [old, new])
    report = await taken(store, source)
    assert (report.known, verified) == (2, [])


async def test_outcomes_are_told_by_status(store: SqliteStore) -> None:
    source = subscription()
    gone = make(tags=(("expiration", "5"),))
    await send(source, [make(kind=0, at=2), make(kind=0, at=1), make(kind=20_000), gone])
    report = await taken(store, source)
    assert report.outcomes == {
        Status.STORED: 1,
        Status.SUPERSEDED: 1,
        Status.EPHEMERAL: 1,
        Status.EXPIRED: 1,
    }


async def test_subscriptions_share_the_batches(store: SqliteStore) -> None:
    batches: list[int] = []
    store.on_batch.append(lambda conn, pairs: batches.append(len(pairs)))
    sources = [subscription() for _ in range(4)]
    for number, source in enumerate(sources):
        await send(source, [make(number, at=n) for n in range(5)])
    options = IngestOptions(linger=5, batch=20)
    async with Ingest(store, options) as ingest, asyncio.timeout(4), asyncio.TaskGroup() as group:
        for source in sources:
            group.create_task(ingest.take(source))
    assert batches == [20]


class Failing:
    """A store that holds up every save until it is let go, then says that the disk is full."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.error: StoreError | None = StoreFull("no room left")

    async def known(self, ids: Iterable[str]) -> set[str]:
        return set()

    async def save(self, events: Sequence[VerifiedEvent]) -> list[Outcome]:
        await self.go.wait()
        assert self.error is not None
        raise self.error


async def test_a_slow_store_holds_up_the_relay() -> None:
    """Bounded all the way: the queue, the chunks under way and what waits for the store."""
    failing = Failing()
    source = subscription(queue=20)
    relay = asyncio.create_task(send(source, [make(at=n) for n in range(500)]))
    async with Ingest(failing, IngestOptions(chunk=5, batch=10, waiting=30)) as ingest:
        taking = asyncio.create_task(ingest.take(source))
        before = -1
        while before != (now := source.statistics().delivered):
            before = now
            await asyncio.wait([relay, taking], timeout=0.3)
        assert not relay.done()
        assert now <= 30 + 4 * 5
        failing.go.set()
        with pytest.raises(StoreFull):
            await asyncio.wait_for(taking, 30)
    relay.cancel()
    await asyncio.wait([relay])


async def test_a_cancelled_reader_leaves_a_whole_store(store: SqliteStore) -> None:
    source = subscription()
    for n in range(300):
        await source.put(Received(RELAY, make(at=n).event, 500))
    saved, loop = asyncio.Event(), asyncio.get_running_loop()
    store.on_batch.append(lambda conn, pairs: loop.call_soon_threadsafe(saved.set))
    async with Ingest(store, IngestOptions(chunk=32)) as ingest:
        taking = asyncio.create_task(ingest.take(source))
        await asyncio.wait_for(saved.wait(), 30)
        taking.cancel()
        await asyncio.wait([taking])
    assert taking.cancelled()
    assert await store.count([Filter()]) > 0
    assert (await store.verify()).ok


async def test_who_brought_an_event_is_told_before_it_is_saved(store: SqliteStore) -> None:
    heard: list[tuple[str, str]] = []
    true, forged = make(content="true").event, make(content="x", at=2).event
    broken = Event(
        forged.id, forged.pubkey, forged.created_at, 1, forged.tags, "forged", forged.sig
    )
    source = subscription(RELAY, OTHER)
    await send(source, [true, broken], OTHER)
    await send(source, [true])
    async with Ingest(store, heard=lambda id_, relay: heard.append((id_, relay))) as ingest:
        await asyncio.wait_for(ingest.take(source), 30)
    assert heard == [(true.id, OTHER)]
