"""From subscriptions into a store: nothing lost, nothing forged, nothing verified twice."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from nostr_client.codecs.event import Event
from nostr_client.codecs.filters import Filter
from nostr_client.codecs.keys import verify_many
from nostr_client.errors import InvalidEvent, StoreError, StoreFull
from nostr_client.network import verifier as module
from nostr_client.network.event_queue import EventQueue, Overflow, QueuedEvent
from nostr_client.network.ingest import Ingest, IngestOptions, IngestReport
from nostr_client.network.subscription import Subscription
from nostr_client.network.verifier import ThreadVerifier, footprint
from nostr_client.options import Limits
from nostr_client.protocol import SubscriptionTally
from nostr_client.store.base import SaveOutcome, SaveStatus
from tests.conformance.store_events import make

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nostr_client.codecs.keys import VerifiedEvent
    from nostr_client.store.sqlite import SqliteStore

RELAY, OTHER = "wss://one.example", "wss://two.example"


@pytest.fixture
def verified(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ids that were verified, in order."""
    seen: list[str] = []

    def counting(events: Sequence[Event]) -> object:
        seen.extend(event.id for event in events)
        return verify_many(events)

    monkeypatch.setattr(module, "verify_many", counting)
    return seen


class Fed(Subscription):
    """A subscription whose queue the test feeds."""

    def __init__(self, most: int) -> None:
        limits = Limits(queue=most)
        self.queue = EventQueue([Filter()], limits, live=False, overflow=Overflow.WAIT)
        super().__init__(self.queue, ThreadVerifier(), limits)


def subscription(*relays: str, queue: int = 1_000) -> Fed:
    made = Fed(queue)
    for relay in relays or (RELAY,):
        made.queue.attach(relay, SubscriptionTally(), lambda: None)
    return made


async def send(into: Fed, events: Iterable[VerifiedEvent | Event], relay: str = RELAY) -> None:
    """Everything one relay has, then its end."""
    for one in events:
        event = one if isinstance(one, Event) else one.event
        await into.queue.put(QueuedEvent(relay, event, 500))
    into.queue.mark_ended(relay, None)


async def taken(store: SqliteStore, source: Subscription, **options: Any) -> IngestReport:
    async with Ingest(store, IngestOptions(**options), known=store.known) as ingest:
        return await asyncio.wait_for(ingest.take(source), 30)


async def test_everything_that_comes_is_stored(store: SqliteStore, verified: list[str]) -> None:
    events = [make(n % 7, at=n) for n in range(1_000)]
    source = subscription(queue=50)
    async with asyncio.TaskGroup() as group:
        group.create_task(send(source, events))
        report = await taken(store, source, step=16, batch=100, waiting=150)
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
    report = await taken(store, source, step=16)
    assert (report.stored, report.known + report.outcomes[SaveStatus.DUPLICATE]) == (100, 20)
    assert (source.sources[RELAY].delivered, source.sources[OTHER].duplicates) == (60, 20)
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
        SaveStatus.STORED: 1,
        SaveStatus.SUPERSEDED: 1,
        SaveStatus.EPHEMERAL: 1,
        SaveStatus.EXPIRED: 1,
    }


class Held:
    """A store that keeps every event, and holds up each commit until it is let go."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.batches: list[int] = []
        self.began = asyncio.Event()

    async def save(self, events: Sequence[VerifiedEvent]) -> list[SaveOutcome]:
        self.batches.append(len(events))
        self.began.set()
        await self.go.wait()
        return [SaveOutcome(one.event.id, SaveStatus.STORED) for one in events]


class Failing:
    """A store that holds up every save until it is let go, then says that the disk is full."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.offered = 0

    async def save(self, events: Sequence[VerifiedEvent]) -> list[SaveOutcome]:
        self.offered += len(events)
        await self.go.wait()
        raise StoreFull("no room left")


async def test_what_waits_for_a_commit_makes_the_next_batch() -> None:
    """A lone event waits for nobody; all sources share what comes after it."""
    held = Held()
    async with Ingest(held) as ingest, asyncio.timeout(30), asyncio.TaskGroup() as group:
        group.create_task(ingest.save([make(at=1)], RELAY))
        await held.began.wait()
        for number in range(4):
            events = [make(number, at=n) for n in range(10, 15)]  # verified: one turn is enough
            group.create_task(ingest.save(events, RELAY))
        for _ in range(10):
            await asyncio.sleep(0)
        held.go.set()
    assert held.batches == [1, 20]


async def test_a_full_batch_is_waited_for_while_more_is_on_its_way() -> None:
    held = Held()
    held.go.set()
    options = IngestOptions(step=2, batch=6, full=True)
    async with Ingest(held, options) as ingest, asyncio.timeout(30), asyncio.TaskGroup() as group:
        for n in range(20):
            group.create_task(ingest.save([make(at=n).event]))
    assert held.batches == [6, 6, 6, 2]


async def test_few_events_wait_for_those_on_their_way_and_enough_do_not() -> None:
    held = Held()
    held.go.set()
    options = IngestOptions(step=2, least=5)
    async with Ingest(held, options) as ingest, asyncio.timeout(30), asyncio.TaskGroup() as group:
        for n in range(20):
            group.create_task(ingest.save([make(at=n).event]))
    assert held.batches == [6, 6, 6, 2]


async def test_few_events_wait_for_a_moment_after_a_commit_and_a_lone_one_does_not() -> None:
    held = Held()
    held.go.set()
    options = IngestOptions(least=5, pause_s=3_600)
    async with asyncio.timeout(30), Ingest(held, options) as ingest, asyncio.TaskGroup() as group:
        await ingest.save([make(at=0)])
        for n in range(1, 6):
            group.create_task(ingest.save([make(at=n)]))
            for _ in range(10):
                await asyncio.sleep(0)
    assert held.batches == [1, 5]


async def test_the_pause_after_a_commit_ends() -> None:
    held = Held()
    held.go.set()
    options = IngestOptions(least=5, pause_s=0.001)
    async with asyncio.timeout(30), Ingest(held, options) as ingest:
        for n in range(3):
            await ingest.save([make(at=n)])
    assert held.batches == [1, 1, 1]


async def test_a_batch_ends_at_its_bytes() -> None:
    held = Held()
    held.go.set()
    size = footprint(make(at=0).event)
    options = IngestOptions(step=2, batch_bytes=4 * size, full=True)
    async with Ingest(held, options) as ingest, asyncio.timeout(30), asyncio.TaskGroup() as group:
        for n in range(10):
            group.create_task(ingest.save([make(at=n).event]))
    assert held.batches == [4, 4, 2]


async def test_each_entry_gets_its_own_results(store: SqliteStore) -> None:
    good, forged = make(content="x").event, make(content="y").event
    forged = Event(forged.id, forged.pubkey, forged.created_at, 1, (), "forged", forged.sig)
    async with Ingest(store) as ingest, asyncio.TaskGroup() as group:
        first = group.create_task(ingest.save([forged, good]))
        second = group.create_task(ingest.save([good, make(kind=20_000)]))
    invalid, stored = first.result()
    assert isinstance(invalid, InvalidEvent)
    statuses = [one.status for one in (stored, *second.result()) if isinstance(one, SaveOutcome)]
    assert statuses == [SaveStatus.STORED, SaveStatus.DUPLICATE, SaveStatus.EPHEMERAL]


async def test_only_what_matches_is_verified_and_saved(
    store: SqliteStore, verified: list[str]
) -> None:
    notes, others = [make(at=n) for n in range(5)], [make(kind=7, at=n) for n in range(5)]
    source = subscription()
    await send(source, [*notes, *others])
    async with Ingest(store) as ingest:
        report = await asyncio.wait_for(ingest.take(source, wanted=[Filter(kinds=[1])]), 30)
    assert (report.stored, report.unwanted) == (5, 5)
    assert len(verified) == 5


async def test_a_silent_source_keeps_what_it_sent(store: SqliteStore) -> None:
    source = subscription()
    await source.queue.put(QueuedEvent(RELAY, make().event, 500))
    async with Ingest(store) as ingest:
        with pytest.raises(TimeoutError):
            await ingest.take(source, silence=0.05)
        assert await store.count([Filter()]) == 1


async def test_a_failed_save_leaves_the_next_one_be() -> None:
    failing = Failing()
    failing.go.set()
    async with Ingest(failing) as ingest:
        for n in range(2):
            with pytest.raises(StoreFull):
                await ingest.save([make(at=n).event])


async def test_a_bug_in_a_callback_ends_the_ingest_and_is_raised(store: SqliteStore) -> None:
    def breaks(events: object, results: object) -> None:
        raise ZeroDivisionError

    async def broken() -> None:
        async with Ingest(store) as ingest:
            ingest.put([make().event], RELAY, breaks)
            await ingest.drain()
            with pytest.raises(StoreError, match="has ended"):
                await ingest.save([make(at=2).event])

    with pytest.raises(ExceptionGroup) as caught:
        await asyncio.wait_for(broken(), 30)
    assert caught.group_contains(ZeroDivisionError)


async def test_a_slow_store_holds_up_the_relay() -> None:
    """Bounded all the way: the queue, the chunks under way and what waits for the store."""
    failing = Failing()
    source = subscription(queue=20)
    relay = asyncio.create_task(send(source, [make(at=n) for n in range(500)]))
    options = IngestOptions(step=5, batch=10, waiting=30)
    async with Ingest(failing, options) as ingest:
        taking = asyncio.create_task(ingest.take(source))
        before = -1
        while before != (now := failing.offered):
            before = now
            await asyncio.wait([relay, taking], timeout=0.3)
        assert not relay.done()
        assert ingest.is_full
        assert source.statistics().queued == 20
        failing.go.set()
        with pytest.raises(StoreFull):
            await asyncio.wait_for(taking, 30)
    relay.cancel()
    await asyncio.wait([relay])


async def test_a_cancelled_reader_leaves_a_whole_store(store: SqliteStore) -> None:
    source = subscription()
    for n in range(300):
        await source.queue.put(QueuedEvent(RELAY, make(at=n).event, 500))
    saved, loop = asyncio.Event(), asyncio.get_running_loop()
    store.on_batch.append(lambda conn, pairs: loop.call_soon_threadsafe(saved.set))
    async with Ingest(store, IngestOptions(step=32)) as ingest:
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
    async with Ingest(store, on_event=lambda id_, relay: heard.append((id_, relay))) as ingest:
        await asyncio.wait_for(ingest.take(source), 30)
    assert heard == [(true.id, OTHER), (true.id, RELAY)]  # the first counts
