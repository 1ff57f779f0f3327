"""What bounds a talkative relay, a busy caller and a lazy reader."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from nostr_client.codecs.event import EventTemplate
from nostr_client.errors import RelayRefused
from nostr_client.network import event_queue as module
from nostr_client.options import Limits, Options
from tests.faults import Silent
from tests.talking import NOTES, SIGNER, note, talking

if TYPE_CHECKING:
    from nostr_client.network.event_queue import QueuedEvent


async def test_frames_of_a_relay_are_paced() -> None:
    options = Options(limits=Limits(messages_per_second=50))
    async with talking(events=[note(n) for n in range(80)], options=options) as (_, relay):
        started = asyncio.get_running_loop().time()
        page = await relay.fetch(NOTES)
        assert len(page.events) == 80
        assert asyncio.get_running_loop().time() - started > 0.5


async def test_our_own_frames_are_paced() -> None:
    options = Options(limits=Limits(messages_per_second_out=20))
    async with talking(options=options) as (_, relay):
        started = asyncio.get_running_loop().time()
        await asyncio.gather(*(relay.count(NOTES) for _ in range(30)))
        assert asyncio.get_running_loop().time() - started > 0.4


async def test_more_requests_than_may_wait_are_refused_here() -> None:
    options = Options(limits=Limits(waiting=3))
    async with talking(Silent(), options=options) as (server, relay):
        asking = [asyncio.ensure_future(relay.count(NOTES)) for _ in range(3)]
        await server.heard("COUNT", 3)
        with pytest.raises(RelayRefused, match="3 requests wait"):
            await relay.count(NOTES)
        for one in asking:
            one.cancel()
        await asyncio.gather(*asking, return_exceptions=True)


async def test_an_event_published_twice_at_once_is_sent_once() -> None:
    event = SIGNER.sign_now(EventTemplate(kind=1, created_at=1))
    async with talking() as (server, relay):
        oks = await asyncio.gather(relay.publish(event), relay.publish(event))
        assert [ok.event_id for ok in oks] == [event.event.id] * 2
        assert server.verbs()["EVENT"] == 1


async def test_a_live_query_that_nobody_reads_does_not_stop_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_PATIENCE", 0.1)
    options = Options(limits=Limits(queue=5))
    async with talking(events=[note(n) for n in range(40)], options=options) as (_, relay):
        async with relay.subscribe(NOTES) as unread:
            assert (await relay.count(NOTES)).count == 40
            assert (unread.statistics().queued, unread.statistics().dropped) == (5, 35)
            got = [(await anext(unread)).event for _ in range(5)]
        assert got == [note(n) for n in range(39, 34, -1)]


async def test_whoever_verifies_by_himself_takes_raw_events() -> None:
    async with talking(events=[note(n) for n in range(10)]) as (_, relay):
        taken: list[QueuedEvent] = []
        async with relay.subscribe(NOTES, live=False) as subscription:
            while batch := await subscription.received(4):
                assert len(batch) <= 4
                taken += batch
        assert [one.event for one in taken] == [note(n) for n in range(9, -1, -1)]
        assert {one.relay for one in taken} == {relay.url}
        assert sum(one.size for one in taken) == subscription.statistics().bytes


async def test_an_event_with_too_many_tags_is_malformed() -> None:
    many = SIGNER.sign_now(EventTemplate(kind=1, created_at=1, tags=(("t", "x"),) * 11)).event
    options = Options(limits=Limits(event_tags=10))
    async with talking(events=[many, note(2)], options=options) as (_, relay):
        async with relay.subscribe(NOTES, live=False) as subscription:
            assert [one.event async for one in subscription] == [note(2)]
        assert subscription.statistics().malformed == 1
