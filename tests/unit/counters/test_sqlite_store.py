"""The embedded store around the engine: groups, cancellation, sharing a file, listeners."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING

import pytest

from nostr_client.counters.base import NoStream, Outgoing
from nostr_client.counters.config import StreamConfig, TransformConfig
from nostr_client.counters.engine.publish import publish
from nostr_client.counters.engine.schema import MIGRATIONS
from nostr_client.counters.sqlite import SqliteCounterStore, feed
from nostr_client.errors import CounterError, InvalidInput, StoreError
from nostr_client.store.file.database import Database
from tests.unit.counters.engine import counter, source

if TYPE_CHECKING:
    from pathlib import Path

    from nostr_client.counters.engine.publish import StoredMessage
    from nostr_client.counters.engine.session import CounterSession


@pytest.fixture
async def store() -> SqliteCounterStore:
    return await SqliteCounterStore.open(":memory:")


async def test_a_bug_in_one_publish_is_its_own(store: SqliteCounterStore) -> None:
    """What nobody foresaw undoes the group's transaction: the others are run again."""

    def broken(session: CounterSession) -> StoredMessage:
        publish(session, "c.a", (("Nats-Incr", "+1000"),), b"")
        raise ZeroDivisionError

    async with store:
        await store.create_stream(counter("C", "c.*"))
        counters = await store.counters("C")
        calls = [counters.add("c.a", 1) for _ in range(30)]
        every = [*calls[:10], store.publish(broken), *calls[10:20], store.publish(broken)]
        found = await asyncio.gather(*every, *calls[20:], return_exceptions=True)
        assert sum(isinstance(item, ZeroDivisionError) for item in found) == 2
        assert sorted(item for item in found if isinstance(item, int)) == list(range(1, 31))
        assert await counters.load("c.a") == 30
        assert (await counters.recount("c.a")).holds


async def test_smaller_limits_are_applied_at_once_and_keep_every_value() -> None:
    now = 10**18
    async with await SqliteCounterStore.open(":memory:", clock=lambda: now) as store:
        await store.create_stream(counter("C", "c.*"))
        counters = await store.counters("C")
        await counters.add_many([("c.a", 1)] * 3_000 + [("c.b", 1)] * 3)
        await store.update_stream(counter("C", "c.*", max_msgs=4))
        assert (await store.stream_info("C")).state.messages == 4
        now += 10**10
        await store.update_stream(counter("C", "c.*", max_age=10**9))
        assert (await store.stream_info("C")).state.messages == 2
        assert {s: v async for s, v in counters.load_many()} == {"c.a": 3_000, "c.b": 3}


async def test_what_waits_together_is_answered_one_by_one(store: SqliteCounterStore) -> None:
    async with store:
        await store.create_stream(counter("C", "c.*"))
        counters = await store.counters("C")
        calls = [counters.add("c.a", n) for n in range(1, 600)]
        bad = [counters.add("nobody", 1), counters.publish("c.a", 1, headers={"Nats-Rollup": "x"})]
        results = await asyncio.gather(*calls, *bad, return_exceptions=True)
        values = [value for value in results[:-2] if isinstance(value, int)]
        assert len(values) == len(set(values)) == 599
        assert max(values) == sum(range(600)) == await counters.load("c.a")
        assert isinstance(results[-2], NoStream)
        assert isinstance(results[-1], CounterError)


async def test_cancelling_one_of_a_group_leaves_the_others(store: SqliteCounterStore) -> None:
    async with store:
        await store.create_stream(counter("C", "c.*"))
        counters = await store.counters("C")
        tasks = [asyncio.create_task(counters.add("c.a", 1)) for _ in range(50)]
        await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        done = await asyncio.gather(*tasks, return_exceptions=True)
        kept = [value for value in done if isinstance(value, int)]
        assert len(kept) == 25
        # The first had begun when it was cancelled: it counts, unheard.
        assert await counters.load("c.a") in (25, 26)


async def test_closing_finishes_what_waits(tmp_path: Path) -> None:
    path = tmp_path / "c.db"
    store = await SqliteCounterStore.open(path)
    await store.create_stream(counter("C", "c.*"))
    counters = await store.counters("C")
    tasks = [asyncio.create_task(counters.add("c.a", 1)) for _ in range(700)]
    await asyncio.sleep(0)
    await store.close()
    values = await asyncio.gather(*tasks)
    assert sorted(values) == list(range(1, 701))
    async with await SqliteCounterStore.open(path) as again:
        assert await (await again.counters("C")).load("c.a") == 700
    with pytest.raises(StoreError):
        await counters.add("c.a", 1)


async def test_more_than_the_queue_holds_waits(
    store: SqliteCounterStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nostr_client.counters.sqlite.group.QUEUE_LIMIT", 10)
    async with store:
        await store.create_stream(counter("C", "c.*"))
        counters = await store.counters("C")
        values = await asyncio.gather(*(counters.add("c.a", 1) for _ in range(100)))
        assert sorted(values) == list(range(1, 101))


async def test_a_failed_write_reaches_everybody_of_the_group(store: SqliteCounterStore) -> None:
    async with store:
        await store.create_stream(counter("C", "c.*"))

        def broken(session: CounterSession) -> StoredMessage:
            session.conn.execute("INSERT INTO counter_store VALUES (1, 'x', 1)")
            raise AssertionError

        calls = [store.publish(broken) for _ in range(3)]
        results = await asyncio.gather(*calls, return_exceptions=True)
        assert all(isinstance(result, StoreError) for result in results)
        assert len({id(result) for result in results}) == 3
        assert await (await store.counters("C")).add("c.a", 1) == 1


async def test_a_store_over_a_database_that_others_use(tmp_path: Path) -> None:
    async with await Database.open(tmp_path / "store.db") as database:
        store = await SqliteCounterStore.over(database)
        await store.create_stream(counter("C", "c.*"))
        assert await (await store.counters("C")).add("c.a", 1) == 1
        identity = await store.identity()
        await store.close()
        again = await SqliteCounterStore.over(database)
        assert await again.identity() == identity
        assert len(identity) == 32
    async with await Database.open(
        tmp_path / "store.db", read_only=True, migrations=[MIGRATIONS]
    ) as database:
        reader = await (await SqliteCounterStore.over(database)).counters("C")
        assert await reader.load("c.a") == 1
        with pytest.raises(StoreError):
            await reader.add("c.a", 1)


async def test_a_source_with_a_long_history_is_read_whole(store: SqliteCounterStore) -> None:
    async with store:
        await store.create_stream(counter("ES", "es.*"))
        counters = await store.counters("ES")
        await counters.add_many([(f"es.{n % 7}", n) for n in range(2_345)])
        info = await store.create_stream(counter("AGG", sources=(source("ES", "es.*", "all"),)))
        assert info.sources[0].seq == 2_345
        assert info.sources[0].lag == 0
        assert await (await store.counters("AGG")).load("all") == sum(range(2_345))


async def test_watching_sees_what_another_object_wrote(tmp_path: Path) -> None:
    async with await Database.open(tmp_path / "store.db") as database:
        one = await SqliteCounterStore.over(database)
        other = await SqliteCounterStore.over(database)
        await one.create_stream(counter("C", "c.*"))
        counters = await one.counters("C")
        async with aclosing(counters.watch()) as feed_, asyncio.timeout(20):
            waiting = asyncio.create_task(anext(feed_))
            await (await other.counters("C")).add("c.a", 3)
            assert (await waiting).value == 3


async def test_a_slow_subscriber_loses_messages_and_they_are_counted(
    store: SqliteCounterStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "BACKLOG", 2)
    async with store:
        republish = TransformConfig("c.>", "live.>")
        await store.create_stream(counter("C", "c.*", republish=republish))
        messages = await store.subscribe("live.*")
        counters = await store.counters("C")
        for _ in range(5):
            await counters.add("c.a", 1)
        assert [(await anext(messages)).seq for _ in range(2)] == [1, 2]
        assert store.feed.dropped == 3


async def test_what_only_a_server_can_do_is_refused(store: SqliteCounterStore) -> None:
    async with store:
        for config in (
            StreamConfig(name="C", subjects=("c",), max_bytes=1_000),
            StreamConfig.from_api(
                {"name": "C", "sources": [{"name": "X", "external": {"api": "$JS.hub.API"}}]}
            ),
        ):
            with pytest.raises(InvalidInput):
                await store.create_stream(config)
        with pytest.raises(InvalidInput):
            await store.publish_message(Outgoing("c", (("bad name", "x"),)))
