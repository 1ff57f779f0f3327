"""Counting what the store takes in, in the transaction that stores it."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

import pytest

from nostr_client.codecs.event import Event, EventTemplate
from nostr_client.codecs.keys import KeySigner, VerifiedEvent
from nostr_client.counters.config import StreamConfig
from nostr_client.counters.engine.schema import MIGRATIONS
from nostr_client.counters.ingest import EVENTS, IngestCounters, Provenance, ingest_stream
from nostr_client.counters.sqlite import SqliteCounterStore
from nostr_client.store.sqlite import SqliteStore
from tests.unit.counters.engine import source
from tests.unit.test_zaps import RECEIVER, WALLET, invoice, receipt, zap_request

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from nostr_client.counters.base import Counters
    from nostr_client.store.base import SaveOutcome

SIGNER = KeySigner(sha256(b"counted").digest())
NOW = 1_700_000_000
DAMUS = "wss://relay.example.com"


def event(number: int, kind: int = 1) -> VerifiedEvent:
    template = EventTemplate(kind=kind, content=str(number), created_at=NOW + number)
    return SIGNER.sign_now(template)


def signed_again(found: Event) -> VerifiedEvent:
    """A receipt as an event that was verified."""
    template = EventTemplate(
        kind=found.kind, tags=found.tags, content=found.content, created_at=found.created_at
    )
    return WALLET.sign_now(template)


class Failing:
    """A hook after the counters' that makes one batch fail."""

    def __init__(self) -> None:
        self.fails = False

    def __call__(
        self, conn: sqlite3.Connection, pairs: Sequence[tuple[Event, SaveOutcome]]
    ) -> None:
        if self.fails:
            raise ZeroDivisionError


class Setup:
    def __init__(self, store: SqliteStore, counters: SqliteCounterStore) -> None:
        self.store = store
        self.counter_store = counters
        self.hook = IngestCounters()
        self.failing = Failing()
        store.on_batch += [self.hook, self.failing]

    async def values(self, stream: str = "INGEST") -> dict[str, int]:
        counters: Counters = await self.counter_store.counters(stream)
        return {subject: value async for subject, value in counters.load_many()}


@pytest.fixture
async def setup(tmp_path: Path) -> AsyncIterator[Setup]:
    async with await SqliteStore.open(tmp_path / "store.db", migrations=[MIGRATIONS]) as store:
        yield Setup(store, await SqliteCounterStore.over(store.database))


async def test_nothing_is_counted_where_nobody_asked(setup: Setup) -> None:
    await setup.store.save([event(1)])
    assert await setup.counter_store.streams() == []
    await setup.counter_store.create_stream(ingest_stream(subjects=[EVENTS]))
    setup.hook.provenance.note(event(2).event.id, DAMUS)
    await setup.store.save([event(2), event(3, kind=7)])
    assert await setup.values() == {"events.1": 1, "events.7": 1}


async def test_each_event_counts_once(setup: Setup) -> None:
    await setup.counter_store.create_stream(ingest_stream())
    for _ in range(3):
        for number in range(5):
            setup.hook.provenance.note(event(number).event.id, DAMUS)
        await setup.store.save([event(number) for number in range(5)])
    found = await setup.values()
    assert found == {"events.1": 5, "relay.relay_example_com.received": 5}


async def test_one_batch_is_one_change(setup: Setup) -> None:
    await setup.counter_store.create_stream(ingest_stream())
    await setup.store.save([event(number) for number in range(100)])
    counters = await setup.counter_store.counters("INGEST")
    assert [(e.incr, e.value) async for e in counters.history("events.1")] == [(100, 100)]


async def test_a_batch_that_is_undone_counts_nothing(setup: Setup) -> None:
    await setup.counter_store.create_stream(ingest_stream())
    await setup.store.save([event(1)])
    setup.failing.fails = True
    with pytest.raises(ZeroDivisionError):
        await setup.store.save([event(2)])
    setup.failing.fails = False
    assert await setup.values() == {"events.1": 1}
    await setup.store.save([event(2)])
    assert await setup.values() == {"events.1": 2}


async def test_zaps_that_hold_are_summed(setup: Setup) -> None:
    await setup.counter_store.create_stream(ingest_stream())
    good = signed_again(receipt(zap_request()))
    forged = signed_again(receipt(zap_request(), invoice("1m")))
    again = signed_again(receipt(zap_request(created_at=NOW + 5)))
    await setup.store.save([good, forged, again])
    found = await setup.values()
    assert found == {"events.9735": 3, f"zaps.{RECEIVER}.msats": 42_000}


@pytest.mark.parametrize("receiver", ["a b", "a..b", "", ">", "x" * 5_000])
async def test_a_receiver_that_is_no_subject_never_holds_up_an_event(
    setup: Setup, receiver: str
) -> None:
    await setup.counter_store.create_stream(ingest_stream())
    request = zap_request(tags=(("p", receiver), ("amount", "21000")))
    await setup.store.save([signed_again(receipt(request, None, ("p", receiver)))])
    assert await setup.values() == {"events.9735": 1}
    assert setup.hook.refused == 1


async def test_a_counter_that_is_broken_never_holds_up_an_event(setup: Setup) -> None:
    config = ingest_stream()
    await setup.counter_store.create_stream(config)
    await setup.store.save([event(1)])
    await setup.store.database.write(
        lambda conn: conn.execute("UPDATE counter_latest SET val = NULL").rowcount
    )
    await setup.store.database.write(
        lambda conn: conn.execute("UPDATE counter_message SET val = NULL, body = x'78'").rowcount
    )
    outcomes = await setup.store.save([event(2)])
    assert [outcome.stored for outcome in outcomes] == [True]
    assert setup.hook.refused == 1


async def test_what_sources_the_counts_moves_with_them(setup: Setup) -> None:
    await setup.counter_store.create_stream(ingest_stream())
    all_events = source("INGEST", "events.*", "total")
    config = StreamConfig(name="TOTAL", allow_msg_counter=True, sources=(all_events,))
    await setup.counter_store.create_stream(config)
    await setup.store.save([event(1), event(2), event(3, kind=7)])
    assert await setup.values("TOTAL") == {"total": 3}


def test_provenance_is_bounded_and_the_first_relay_counts() -> None:
    known = Provenance(limit=2)
    known.note("a", "wss://one")
    known.note("a", "wss://two")
    assert known.take("a") == "wss://one"
    assert known.take("a") is None
    for name in "xyz":
        known.note(name, "wss://one")
    assert [known.take(name) for name in "xyz"] == [None, "wss://one", "wss://one"]
