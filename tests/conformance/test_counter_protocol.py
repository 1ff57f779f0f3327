"""What `Counters` and `CounterStore` promise, on every backend."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING

import pytest

from nostr_client.counters.base import Ack, Counters, CounterStore, Entry, NoStream, Outgoing
from nostr_client.counters.config import SourceConfig, StreamConfig, TransformConfig
from nostr_client.counters.jetstream import JetStreamCounterStore
from nostr_client.errors import CounterError, Duplicate, InvalidInput
from tests.conformance.counter_stores import config
from tests.nats_peer import NatsServer, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

WAIT_S = 20.0


async def test_publish_and_add(counters: Counters) -> None:
    assert await counters.publish("c.a", 5) == Ack("C", "", 1, 5)
    assert await counters.add("c.a", -7) == -2
    assert await counters.add("c.a", 0) == -2
    assert await counters.load("c.a") == -2
    big = 10**5_000
    assert await counters.add("c.big", big) == big
    assert await counters.load("c.big") == big


async def test_headers_are_kept(counters: Counters) -> None:
    await counters.publish("c.a", 5, headers={"X-Why": "test"}, msg_id="m1")
    entry = await counters.get("c.a")
    assert dict(entry.headers) == {"Nats-Incr": "+5", "X-Why": "test", "Nats-Msg-Id": "m1"}


async def test_a_duplicate_has_one_effect(counters: Counters) -> None:
    await counters.publish("c.a", 5, msg_id="m1")
    again = await counters.publish("c.b", 9, msg_id="m1")
    assert (again.duplicate, again.seq, again.val) == (True, 1, None)
    with pytest.raises(Duplicate) as caught:
        await counters.add("c.a", 5, msg_id="m1")
    assert caught.value.seq == 1
    assert await counters.load("c.a") == 5
    with pytest.raises(CounterError):
        await counters.load("c.b")


async def test_what_is_not_there(counters: Counters) -> None:
    calls = (counters.load, counters.get, counters.reset)
    for call in calls:
        with pytest.raises(CounterError) as caught:
            await call("c.none")
        assert caught.value.code == 10037
    with pytest.raises(CounterError):
        await counters.get("c.none", at_seq=3)
    await counters.add("c.some", 1)
    with pytest.raises(CounterError, match=r"c\.some: no message found"):
        await counters.get("c.some", at_seq=0)
    assert [entry async for entry in counters.get_many("c.*", at_seq=0)] == []
    with pytest.raises(CounterError, match=r"c\.none: no message found"):
        await counters.recount("c.none")
    with pytest.raises(CounterError, match=r"c\.none: no message found"):
        await anext(counters.history("c.none"))
    assert await counters.delete("c.none") == 0
    assert [e async for e in counters.get_many("x.>")] == []


async def test_a_subject_of_another_stream_is_not_published(
    store: CounterStore, counters: Counters
) -> None:
    await store.create_stream(config("D", "d.>"))
    for subject in ("d.a", "nobody"):
        with pytest.raises(NoStream):
            await counters.add(subject, 1)
    assert (await store.stream_info("D")).state.messages == 0
    with pytest.raises(InvalidInput):
        await counters.add("c.*", 1)


async def test_add_many_has_a_result_for_each(counters: Counters) -> None:
    found = await counters.add_many([("c.a", 1), ("c.b", 2), ("c.a", 3), ("nobody", 1)])
    values = [item.val if isinstance(item, Ack) else item.code for item in found]
    assert values[1] == 2
    assert sorted(values[0:3:2]) in ([1, 4], [3, 4])
    assert isinstance(found[3], NoStream)
    assert await counters.load("c.a") == 4


async def test_reads_by_wildcard(counters: Counters) -> None:
    for number in range(5):
        await counters.add(f"c.{number}.x", number)
    await counters.add("c.flat", 9)
    every = {subject: value async for subject, value in counters.load_many()}
    assert every == {f"c.{n}.x": n for n in range(5)} | {"c.flat": 9}
    assert {s async for s, _ in counters.load_many("c.*")} == {"c.flat"}
    twice = [e.subject async for e in counters.get_many("c.*.x", "c.>", "c.flat")]
    assert sorted(twice) == sorted(every)
    with pytest.raises(InvalidInput):
        await anext(counters.load_many("c..x"))


async def test_more_subjects_than_one_request_may_name(counters: Counters) -> None:
    count = 2_500
    results = await counters.add_many([(f"c.{n}", n) for n in range(count)])
    assert not [item for item in results if isinstance(item, CounterError)]
    found = {subject: value async for subject, value in counters.load_many("c.*")}
    assert found == {f"c.{n}": n for n in range(count)}
    literal = [f"c.{n}" for n in range(2_000)]
    assert len([e async for e in counters.get_many(*literal)]) == 2_000


async def test_as_of_a_sequence(counters: Counters) -> None:
    for n in (1, 10, 100):
        await counters.add("c.a", n)
    assert [(await counters.get("c.a", at_seq=seq)).value for seq in (1, 2, 3, 99)] == [
        1, 11, 111, 111,
    ]  # fmt: skip
    await counters.add("c.b", 5)
    assert {e.subject: e.value async for e in counters.get_many(at_seq=2)} == {"c.a": 11}


async def test_history_and_recount(store: CounterStore, counters: Counters) -> None:
    for n in (1, 10, 100):
        await counters.add("c.a", n)
    entries = [e async for e in counters.history("c.a")]
    assert [(e.seq, e.incr, e.value) for e in entries] == [(1, 1, 1), (2, 10, 11), (3, 100, 111)]
    assert all(e.ts > 1_600_000_000_000_000_000 for e in entries)
    assert [e.seq async for e in counters.history("c.a", after_seq=2)] == [3]
    found = await counters.recount("c.a")
    assert (found.value, found.base, found.total, found.messages) == (111, 0, 111, 3)
    assert found.holds
    await store.delete_message("C", 2)
    broken = await counters.recount("c.a")
    assert not broken.holds
    assert [(b.seq, b.expected, b.found) for b in broken.breaks] == [(3, 101, 111)]
    await store.purge("C", seq=3)
    trimmed = await counters.recount("c.a")
    assert (trimmed.value, trimmed.base, trimmed.total) == (111, 11, 100)


async def test_reset(counters: Counters) -> None:
    for n in (1, 10, 100):
        await counters.add("c.a", n)
    await counters.add("c.b", 5)
    assert await counters.reset("c.a") == 0
    found = await counters.recount("c.a")
    assert (found.value, found.base, found.total, found.messages) == (0, 111, -111, 1)
    assert await counters.add("c.a", 1) == 1
    assert await counters.load("c.b") == 5


async def test_a_reset_under_concurrent_adds_loses_none(counters: Counters) -> None:
    """All that was added is in what is left and what the resets took away, message by message."""
    await counters.add("c.a", 1)
    adds = [counters.add("c.a", 1) for _ in range(60)]
    resets = [counters.reset("c.a") for _ in range(4)]
    every = await asyncio.gather(*adds[:30], *resets[:2], *adds[30:], *resets[2:])
    # Resets that read before another's was stored each take the same 61 away.
    assert min(every[30:32] + every[-2:]) >= -61 * (len(resets) - 1)
    recounted = await counters.recount("c.a")
    assert recounted.holds
    assert recounted.value == await counters.load("c.a")
    assert await counters.reset("c.a") == 0
    assert await counters.load("c.a") == 0


@pytest.mark.interop
async def test_a_reset_leaves_what_was_added_meanwhile(
    nats_server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a server, reading and publishing are two requests: somebody else comes in between."""
    async with await JetStreamCounterStore.connect(nats_server.url) as store:
        await store.create_stream(config("C", "c.>"))
        counters, other = await store.counters("C"), await store.counters("C")
        await counters.add("c.a", 40)
        load = counters.load

        async def late(subject: str) -> int:
            value = await load(subject)
            await other.add(subject, 5)
            return value

        monkeypatch.setattr(counters, "load", late)
        assert await counters.reset("c.a") == 5
        assert [(e.incr, e.value) async for e in counters.history("c.a")] == [(-40, 5)]
        assert await other.add("c.a", 1) == 6


async def test_delete(counters: Counters) -> None:
    for n in (1, 2):
        await counters.add("c.a", n)
        await counters.add("c.b", n)
    assert await counters.delete("c.a") == 2
    assert await counters.add("c.a", 1) == 1
    assert await counters.delete("c.*") == 3
    assert [s async for s, _ in counters.load_many()] == []


async def take(feed: AsyncIterator[Entry], count: int) -> list[tuple[str, int]]:
    async with asyncio.timeout(WAIT_S):
        found = [await anext(feed) for _ in range(count)]
    return [(entry.subject, entry.value) for entry in found]


async def test_watch(counters: Counters) -> None:
    await counters.add("c.a", 1)
    await counters.add("c.b", 2)
    async with aclosing(counters.watch("c.a", "c.x")) as feed:
        assert await take(feed, 1) == [("c.a", 1)]
        await counters.add("c.b", 1)
        await counters.add("c.a", 5)
        assert await take(feed, 1) == [("c.a", 6)]
        waiting = asyncio.create_task(take(feed, 2))
        await counters.add("c.x", 9)
        await counters.add("c.a", 1)
        assert await waiting == [("c.x", 9), ("c.a", 7)]
    resumed = counters.watch("c.>", after_seq=1)
    assert await take(resumed, 3) == [("c.b", 2), ("c.b", 3), ("c.a", 6)]


async def test_sources_make_up_the_value(store: CounterStore, counters: Counters) -> None:
    transform = TransformConfig("c.*", "all")
    source = SourceConfig("C", subject_transforms=(transform,))
    await store.create_stream(config("AGG", "all", sources=(source,)))
    await counters.add("c.a", 5)
    await counters.add("c.b", 7)
    aggregate = await store.counters("AGG")

    async def arrived() -> bool:
        try:
            return await aggregate.load("all") == 12
        except CounterError:
            return False

    assert await until(arrived, WAIT_S)
    await aggregate.add("all", 100)
    entry = await aggregate.get("all")
    assert entry.value == 112
    assert entry.sources == {"C": {"c.a": 5, "c.b": 7}}
    assert entry.local == 100
    info = await store.stream_info("AGG")
    assert [(s.name, s.filters, s.destinations, s.lag) for s in info.sources] == [
        ("C", "c.*", "all", 0)
    ]
    assert await aggregate.reset("all") == 0
    assert (await aggregate.get("all")).sources == {"C": {"c.a": 5, "c.b": 7}}


async def test_what_is_no_source_any_more_is_not_shown(store: CounterStore) -> None:
    await store.create_stream(config("C", "c.>"))
    one, other = SourceConfig("C", "c.a"), SourceConfig("C", "c.b")
    await store.create_stream(config("AGG", sources=(one, other)))
    assert len((await store.stream_info("AGG")).sources) == 2
    await store.update_stream(config("AGG", sources=(other,)))
    assert [s.filters for s in (await store.stream_info("AGG")).sources] == ["c.b"]
    await store.update_stream(config("AGG"))
    assert (await store.stream_info("AGG")).sources == ()


async def test_a_source_that_is_not_there_says_so(store: CounterStore) -> None:
    await store.create_stream(config("AGG", "agg", sources=(SourceConfig("GONE"),)))

    async def told() -> bool:
        (source,) = (await store.stream_info("AGG")).sources
        return "stream" in source.stalled

    assert await until(told, WAIT_S)


async def test_a_smaller_limit_is_applied_at_once(store: CounterStore) -> None:
    await store.create_stream(config("C", "c.>"))
    counters = await store.counters("C")
    await counters.add_many([("c.a", 1)] * 5 + [("c.b", 1)] * 3)
    await store.update_stream(config("C", "c.>", max_msgs_per_subject=2))
    assert (await store.stream_info("C")).state.messages == 4
    assert [e.value async for e in counters.history("c.a")] == [4, 5]


async def test_streams_are_made_edited_listed_and_removed(store: CounterStore) -> None:
    made = await store.create_stream(config("C", "c.>", description="first"))
    assert made.config.allow_msg_counter
    assert made.required_api_level == 2
    await store.create_stream(config("B", "b"))
    await store.create_stream(StreamConfig(name="P", subjects=("p",)))
    edited = await store.update_stream(config("C", "c.>", "d.>", max_msgs_per_subject=5))
    assert edited.config.subjects == ("c.>", "d.>")
    assert [info.config.name for info in await store.streams()] == ["B", "C", "P"]
    with pytest.raises(CounterError, match="E") as caught:
        await store.create_stream(config("E", "c.x"))
    assert caught.value.code == 10065
    await store.delete_stream("B")
    for call in (store.stream_info, store.counters, store.delete_stream):
        with pytest.raises(NoStream, match="B"):
            await call("B")
    with pytest.raises(CounterError) as caught:
        await store.counters("P")
    assert caught.value.code == 10168


async def test_a_batch_is_all_or_none(store: CounterStore) -> None:
    await store.create_stream(config("C", "c.>", allow_atomic=True))
    good = [Outgoing("c.a", (("Nats-Incr", "+1"),)), Outgoing("c.b", (("Nats-Incr", "+2"),))]
    ack = await store.publish_batch(good, "one")
    assert (ack.seq, ack.count) == (2, 2)
    with pytest.raises(CounterError) as caught:
        await store.publish_batch([*good, Outgoing("c.a", (("Nats-Incr", "x"),))], "two")
    assert caught.value.code == 10171
    assert (await store.stream_info("C")).state.messages == 2


async def test_a_reader_survives_a_restarted_server(nats_server: NatsServer) -> None:
    async with await JetStreamCounterStore.connect(nats_server.url) as store:
        await store.create_stream(config("C", "c.>"))
        counters = await store.counters("C")
        await counters.add("c.a", 1, msg_id="one")
        nats_server.kill()
        nats_server.start()

        async def answered() -> bool:
            try:
                ack = await counters.publish("c.a", 1, msg_id="two")
            except (NoStream, TimeoutError):
                return False
            return ack.seq == 2

        assert await until(answered, WAIT_S)
        assert await counters.load("c.a") == 2
        with pytest.raises(Duplicate):
            await counters.add("c.a", 1, msg_id="one")
