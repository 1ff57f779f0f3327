"""What a count keeps beside claims: events, if the user wants them; and by whose clock it reads."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from contextlib import closing
from email.utils import formatdate
from typing import TYPE_CHECKING

import msgspec
import pytest

from nostr_client import count
from nostr_client.client import NostrClient
from nostr_client.codecs.filters import Filter
from nostr_client.errors import InvalidInput
from nostr_client.store.sqlite import SqliteStore
from nostr_client.watch import Watch, WatchRepository
from tests.faults import COUNT_REFUSALS, AnswersCount, RefusesCount
from tests.faulty_relay import Behaviour, FaultyRelay
from tests.worlds import NOTE, Sketches, reaction

if TYPE_CHECKING:
    from pathlib import Path

    from nostr_client.count.result import CountResult
    from nostr_client.watch.state import Merge


REACTIONS = count.reactions(NOTE)
HOUR = 3600.0


def plain() -> Behaviour:
    """A relay that knows no COUNT."""
    return RefusesCount(COUNT_REFUSALS["notice, rnostr"])


async def asked(client: NostrClient, relay: FaultyRelay) -> CountResult:
    return await client.count(REACTIONS, relays=relay.url)


@pytest.mark.parametrize("keep", [True, False])
async def test_events_that_are_read_are_kept_if_wanted(tmp_path: Path, keep: bool) -> None:
    path = tmp_path / "store.db"
    events = [reaction(i) for i in range(700)]
    async with FaultyRelay(plain(), events=events) as relay:
        async with NostrClient(timeout=5, store=path, keep_events=keep) as client:
            assert (await asked(client, relay)).value == 700
        relay.events.append(reaction(800))
        async with NostrClient(timeout=5, store=path, keep_events=keep) as client:
            assert (await asked(client, relay)).value == 701
    async with await SqliteStore.open(path, read_only=True) as store:
        found = await store.query([Filter(kinds=[7])])
    assert {event.id for event in found} == (
        {event.id for event in relay.events} if keep else set()
    )


async def test_events_are_verified_once_and_go_into_a_store_that_is_open() -> None:
    async with (
        FaultyRelay(plain(), events=[reaction(i) for i in range(30)]) as relay,
        await SqliteStore.open(":memory:") as store,
        NostrClient(timeout=5, store=store, keep_events=True) as client,
    ):
        assert (await asked(client, relay)).value == 30
        assert await store.count([Filter(kinds=[7])]) == 30


async def test_live_events_of_a_watch_are_kept_too(tmp_path: Path) -> None:
    relay = FaultyRelay(Sketches(), events=[reaction(i) for i in range(5)])
    async with (
        relay,
        await SqliteStore.open(tmp_path / "store.db") as store,
        NostrClient(relay.url, timeout=5, store=store, keep_events=True) as client,
        client.watch(REACTIONS, interval=HOUR) as watching,
    ):
        assert (await anext(watching)).value == 5
        await relay.heard("REQ", 1, within=10)
        fresh = reaction(77, at=int(time.time()))
        relay.events.append(fresh)
        for peer in relay.peers:
            for name in peer.subscriptions:
                await peer.send_event(name, fresh)
        assert (await anext(watching)).value == 6
        assert [event.id for event in await store.query([Filter(kinds=[7])])] == [fresh.id]


def test_keeping_events_needs_a_store_of_events() -> None:
    with pytest.raises(InvalidInput, match="to keep events"):
        NostrClient(keep_events=True)


def last_read(path: Path) -> int:
    with closing(sqlite3.connect(path)) as conn:
        (at,) = conn.execute("SELECT last_read FROM claim_mark").fetchone()
        return int(at)


async def test_nothing_counts_as_read_beyond_the_relay_s_clock(tmp_path: Path) -> None:
    """Our clock runs an hour ahead: what is written in that hour is not behind the mark."""
    now = time.time()
    events = [reaction(i, at=int(now) - 100 * i) for i in range(20)]
    async with (
        FaultyRelay(plain(), events=events, date=formatdate(now - HOUR, usegmt=True)) as relay,
        NostrClient(timeout=5, store=tmp_path / "store.db") as client,
    ):
        await asked(client, relay)
        assert client.pool.relay(relay.url).behind == pytest.approx(HOUR, abs=10)
    assert last_read(tmp_path / "store.db") == pytest.approx(now - HOUR, abs=10)


@pytest.mark.parametrize(
    "date",
    [
        formatdate(0, usegmt=True),
        "Fri, 31 Dec 9999 23:59:59 GMT",
        "Sat, 99 Feb 0000 99:99:99 GMT",
        "Sat, 01 Jan 2022 00:00:00 +0100",
        "",
        "soon",
        "9" * 4000,
        "١" * 20,
    ],
)
async def test_dates_that_cannot_be_are_ignored(tmp_path: Path, date: str) -> None:
    events = [reaction(i) for i in range(20)]
    async with (
        FaultyRelay(plain(), events=events, date=date) as relay,
        NostrClient(timeout=5, store=tmp_path / "store.db") as client,
    ):
        assert (await asked(client, relay)).value == 20
        assert client.pool.relay(relay.url).behind == 0
    assert last_read(tmp_path / "store.db") == pytest.approx(time.time(), abs=20)


async def test_a_relay_that_the_user_names_is_no_stranger_any_more() -> None:
    async with (
        FaultyRelay(Sketches(), events=[reaction(1)]) as relay,
        NostrClient(timeout=5) as client,
    ):
        stranger = client.pool.relay(relay.url, stranger=True)
        assert client.pool.relay(relay.url, stranger=True) is stranger
        result = await client._counter.count(REACTIONS, [(relay.url, stranger)])
        assert result.value is None
        assert "not a public address" in result.relays[0].warnings[0]
        async with asyncio.timeout(5):
            assert (await asked(client, relay)).value == 1
        assert client.pool.relay(relay.url) is stranger


async def test_receipts_that_are_counted_and_not_given_are_not_exact() -> None:
    """A relay's own number of zaps is of receipts that nobody has checked."""
    async with (
        FaultyRelay(AnswersCount({"count": 7})) as relay,
        NostrClient(timeout=5) as client,
    ):
        result = await client.count(count.zaps(NOTE), relays=relay.url)
    assert (result.value, result.low, result.exact) == (7, 0, False)
    assert result.lower_bound


async def all_asked(client: NostrClient, book: WatchRepository) -> dict[str, CountResult]:
    """The number of every watch of a book, by name."""
    results: dict[str, CountResult] = {}

    async def merged(merge: Merge) -> None:
        results[merge.watched.watch.name] = merge.result

    wanted = client.wanted(watch for watch, _ in await book.all())
    async with client.engine(merged, wanted, book=book) as engine, asyncio.TaskGroup() as group:
        await engine.refresh()
        group.create_task(engine.worker.run())
        await engine.worker.settled()
        engine.worker.stop()
    return results


async def test_numbers_that_no_row_takes_are_clamped(tmp_path: Path) -> None:
    """Full registers and the largest counts, from a relay that is believed in any case."""
    body = {"count": 2**63 - 1, "hll": "39" * 256}
    async with (
        FaultyRelay(AnswersCount(body)) as relay,
        await WatchRepository.open(tmp_path / "store.db") as book,
        NostrClient(timeout=5) as client,
    ):
        for name in ("reactions", "replies+comments"):
            fields = {"query": name, "target": NOTE, "relays": [relay.url], "policy": "off"}
            await book.add(msgspec.convert({"name": name.replace("+", "-"), **fields}, Watch))
        results = await all_asked(client, book)
        assert all(result.value for result in results.values())
        assert (await book.history("reactions"))[-1].value == 2**63 - 1
