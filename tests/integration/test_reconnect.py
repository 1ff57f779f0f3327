"""Connections that break: what comes back, what ends, and how long the pauses are."""

from __future__ import annotations

import asyncio
import random
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from nostr_client.codecs.event import EventTemplate
from nostr_client.codecs.keys import VerifiedEvent
from nostr_client.errors import DeadlineExceeded, NetworkError
from nostr_client.network.event_queue import Overflow
from nostr_client.network.relay import Relay
from nostr_client.network.relay_state import RelayStatus
from nostr_client.options import Limits, Options, ReconnectPolicy, Timeouts
from tests.faults import SaysThenCloses, Silent
from tests.faulty_relay import Behaviour, FaultyRelay
from tests.talking import NOTES, SIGNER, Naps, note, talking

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from nostr_client.codecs.filters import Filter

AT_ONCE = Options(reconnect=ReconnectPolicy(first=0.02, longest=0.04))


@asynccontextmanager
async def leaving_nothing_behind() -> AsyncIterator[None]:
    """Fails when tasks that were not there before are there after."""
    before = asyncio.all_tasks()
    yield
    assert asyncio.all_tasks() <= before


async def test_a_restarted_relay_gets_the_live_subscriptions_again() -> None:
    first, second = note(1), note(2)
    async with talking(events=[first], options=AT_ONCE) as (server, relay):
        async with relay.subscribe(NOTES) as subscription:
            assert (await anext(subscription)).event == first
            await subscription.stored()
            await server.stop()
            server.events.append(second)
            await server.start()
            async with asyncio.timeout(20):
                assert (await anext(subscription)).event == second
            assert subscription.statistics().duplicates == 1, "what was delivered came again"
            await server.broadcast(note(3))
            assert (await anext(subscription)).event == note(3)
        assert relay.stats.successes == 2
        assert relay.stats.attempts >= 2
        assert (await relay.count(NOTES)).count == 3


async def test_the_caller_says_what_to_ask_for_after_a_reconnect() -> None:
    asked: list[tuple[str, Sequence[Filter]]] = []

    def since_then(relay: str, filters: Sequence[Filter]) -> Sequence[Filter]:
        asked.append((relay, filters))
        return [one.replace(since=(one.since or 0) + 10) for one in filters]

    async with talking(options=AT_ONCE) as (server, relay):
        async with relay.subscribe(NOTES, resubscribe=since_then):
            for time in (1, 2):
                await server.heard("REQ", time)
                server.peers[0].abort()
            reqs = await server.heard("REQ", 3)
        assert [message[2].get("since") for message in reqs] == [None, 10, 20]
        assert len({message[1] for message in reqs}) == 3, "ids are never used twice"
        assert [relay_url for relay_url, _ in asked] == [relay.url] * 2


async def test_what_waits_for_an_answer_fails_when_the_connection_breaks() -> None:
    async with talking(Silent(), options=AT_ONCE) as (server, relay):
        event = SIGNER.sign_now(EventTemplate(kind=1, created_at=1))
        asking = [
            asyncio.ensure_future(one)
            for one in (relay.count(NOTES), relay.publish(event), relay.fetch(NOTES))
        ]
        for verb in ("COUNT", "EVENT", "REQ"):
            await server.heard(verb)
        server.peers[0].abort()
        errors = await asyncio.gather(*asking, return_exceptions=True)
        assert [type(error) for error in errors] == [NetworkError] * 3


@pytest.mark.parametrize("code", [None, 1000, 1001, 1006, 1011, 1012, 3000])
async def test_every_close_is_followed_by_another_attempt(code: int | None) -> None:
    naps = Naps(3)
    async with talking(SaysThenCloses(code=None if code == 1006 else code), sleep=naps) as (
        _,
        relay,
    ):
        pauses = await naps.taken()
        assert relay.status is RelayStatus.DISCONNECTED
        assert relay.stats.attempts == 3
    assert all(1 <= pause <= 8 for pause in pauses)


async def test_the_old_close_code_for_never_again_is_obeyed() -> None:
    async with talking(SaysThenCloses(code=4000)) as (server, relay):
        subscription = relay.subscribe(NOTES)
        with pytest.raises(NetworkError):
            async with asyncio.timeout(10):
                await anext(subscription)
        assert relay.status is RelayStatus.TERMINATED
        assert server.connections == 1


async def test_pauses_grow_with_jitter_between_a_second_and_five_minutes() -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")  # noqa: T201
    naps = Naps(60)
    async with FaultyRelay() as server:
        url = server.url
    async with Relay(url, sleep=naps, rand=random.Random(seed).random):
        pauses = await naps.taken()
    assert all(1 <= pause <= min(300, 2 ** (n + 1)) for n, pause in enumerate(pauses))
    assert max(pauses) > 150
    assert len(set(pauses)) == len(pauses), "no jitter"


async def test_a_connection_that_lasted_starts_the_pauses_anew() -> None:
    options = Options(reconnect=ReconnectPolicy(stable_after=1e-9))
    naps = Naps(5)
    close_at_once = SaysThenCloses(code=1001)
    async with talking(close_at_once, options=options, sleep=naps, rand=lambda: 0.99):
        assert set(await naps.taken()) == {1.99}


async def test_a_relay_that_blames_us_is_left_alone_for_long() -> None:
    naps = Naps(2)
    async with talking(server_args={"refuse": 403}, sleep=naps) as (_, relay):
        assert all(150 <= pause <= 300 for pause in await naps.taken())
        assert "403" in relay.stats.last_error
        with pytest.raises(NetworkError, match="403"):
            await relay.count(NOTES)


async def test_giving_up_is_an_option_and_an_end_for_all() -> None:
    options = Options(reconnect=ReconnectPolicy(attempts=2, first=0.001, longest=0.002))
    async with FaultyRelay() as server:
        url = server.url
    async with Relay(url, options=options) as relay:
        subscription = relay.subscribe(NOTES)
        with pytest.raises(NetworkError):
            async with asyncio.timeout(10):
                await anext(subscription)
        assert (relay.status, relay.stats.attempts) == (RelayStatus.TERMINATED, 2)
        with pytest.raises(NetworkError):
            await relay.connect()
        assert relay.stats.attempts >= 3, "a request after giving up begins anew"


async def test_requests_wait_for_the_next_attempt_if_it_is_due_in_time() -> None:
    async with talking(Silent(), events=[note(1)], options=AT_ONCE) as (server, relay):
        asking = asyncio.ensure_future(relay.count(NOTES))
        await server.heard("COUNT")
        await server.stop()
        with pytest.raises(NetworkError):
            await asking
        server.behaviour = Behaviour()
        await server.start()
        assert (await relay.count(NOTES)).count == 1


async def test_requests_fail_at_once_when_the_next_attempt_is_late() -> None:
    async with FaultyRelay() as server:
        url = server.url
    naps = Naps(1)
    async with Relay(url, sleep=naps, rand=lambda: 0.99) as relay:
        await naps.taken()
        with pytest.raises(NetworkError):
            await relay.count(NOTES, 0.5)


async def test_closing_at_any_moment_leaves_nothing_behind() -> None:
    async with FaultyRelay(events=[note(1)]) as server, leaving_nothing_behind():
        never_started = Relay(server.url)
        await never_started.close()
        connecting = Relay(server.url)
        asking = asyncio.ensure_future(connecting.count(NOTES))
        await asyncio.sleep(0)
        await connecting.close()
        with pytest.raises(NetworkError):
            await asking
        serving = Relay(server.url)
        subscription = serving.subscribe(NOTES)
        await anext(subscription)
        await serving.close()
        with pytest.raises(NetworkError, match="closed by us"):
            await anext(subscription)
        with pytest.raises(NetworkError, match="closed by us"):
            await serving.count(NOTES)
        await serving.close()


async def test_cancelling_a_request_leaves_the_connection_whole() -> None:
    async with talking(Silent(), events=[note(1)]) as (server, relay):
        for number, ask in enumerate((relay.count, relay.fetch), 1):
            asking = asyncio.ensure_future(ask(NOTES))
            await server.heard(("COUNT", "REQ")[number - 1])
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
        await server.heard("CLOSE")
        server.behaviour = Behaviour()
        assert (await relay.count(NOTES)).count == 1
        assert server.connections == 1


async def test_cancelling_the_reader_loses_no_event() -> None:
    options = Options(limits=Limits(verify_chunk=1))
    async with talking(events=[note(n) for n in range(30)], options=options) as (_, relay):
        got, cancelled = [], 0
        async with relay.subscribe(NOTES) as subscription:
            await subscription.stored()
            while len(got) < 30:
                reading = asyncio.ensure_future(anext(subscription))
                await asyncio.sleep(0)  # events are with the verifier now, or ready
                cancelled += reading.cancel()
                done = (await asyncio.gather(reading, return_exceptions=True))[0]
                got.append(
                    (done if isinstance(done, VerifiedEvent) else await anext(subscription)).event
                )
        assert got == [note(n) for n in reversed(range(30))]
        assert cancelled >= 10


async def test_a_relay_that_answers_no_ping_is_dropped() -> None:
    options = Options(timeouts=Timeouts(heartbeat=0.1))
    naps = Naps(1)
    async with talking(server_args={"pongs": False}, options=options, sleep=naps) as (_, relay):
        await naps.taken()
        assert "pong" in relay.stats.last_error


async def test_pings_measure_the_round_trip() -> None:
    options = Options(timeouts=Timeouts(heartbeat=0.05))
    async with talking(options=options) as (server, relay):
        await server.pinged(3)
        assert 0 < (relay.stats.latency_ms or 0) < 1000
        assert server.connections == 1


async def test_a_slow_reader_of_a_stored_query_loses_nothing_and_keeps_the_connection() -> None:
    options = Options(limits=Limits(queue=5, verify_chunk=2), timeouts=Timeouts(heartbeat=0.05))
    async with talking(events=[note(n) for n in range(40)], options=options) as (server, relay):
        async with relay.subscribe(NOTES, live=False) as subscription:
            await server.pinged(1)  # nobody reads, so that no pong is seen
            with pytest.raises(DeadlineExceeded):
                await relay.count(NOTES, 0.3)
            got = [one async for one in subscription]
        assert len(got) == 40
        assert server.connections == 1


async def test_a_slow_reader_of_live_events_loses_the_newest_and_knows_how_many() -> None:
    options = Options(limits=Limits(queue=5))
    async with (
        talking(options=options) as (server, relay),
        relay.subscribe(NOTES, overflow=Overflow.DROP) as subscription,
    ):
        await subscription.stored()
        for number in range(12):
            await server.broadcast(note(number))
        await relay.count(NOTES)
        stats = subscription.statistics()
        assert (stats.queued, stats.dropped, stats.frames) == (5, 7, 12)
        assert (await anext(subscription)).event == note(0)
