"""One honest relay over a real socket."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from nostr_client.codecs.event import Event, EventTemplate
from nostr_client.codecs.filters import Filter
from nostr_client.codecs.messages import NegErr, NegMsg
from nostr_client.errors import (
    DeadlineExceeded,
    InvalidFilter,
    NetworkError,
    RelayRefused,
)
from nostr_client.network.relay import Relay
from nostr_client.network.relay_state import RelayStatus
from nostr_client.options import ConnectionOptions, Limits, Options, ReadBudget
from tests.faults import (
    FewSubscriptions,
    RefusesCount,
)
from tests.faulty_relay import Behaviour, FaultyRelay, Peer
from tests.talking import NOTES, QUICK, SIGNER, note, talking


@pytest.fixture(scope="module")
def notes() -> list[Event]:
    return [note(1000 + number) for number in range(40)]


async def test_count_fetch_publish_and_live_events(notes: list[Event]) -> None:
    async with talking(events=notes) as (server, relay):
        assert (await relay.count(NOTES)).count == 40
        page = await relay.fetch(NOTES)
        assert page.complete
        assert [one.event for one in page.events] == notes[::-1]
        verified = SIGNER.sign_now(EventTemplate(kind=1, content="new", created_at=5000))
        assert (await relay.publish(verified)).accepted
        async with relay.subscribe(NOTES.replace(limit=2)) as subscription:
            assert [(await anext(subscription)).event for _ in "ab"] == notes[:-3:-1]
            await subscription.stored()
            await server.broadcast(verified.event)
            assert (await anext(subscription)) == verified
        await server.heard("CLOSE", 2)
        assert relay.status is RelayStatus.CONNECTED
        assert relay.capabilities.count is True
        assert relay.stats.frames == 47
    assert relay.status is RelayStatus.TERMINATED


async def test_pipelined_counts_have_ids_of_their_own(notes: list[Event]) -> None:
    async with talking(events=notes) as (server, relay):
        async with relay.subscribe(NOTES):
            answers = await asyncio.gather(*(relay.count(NOTES) for _ in range(20)))
        assert {answer.count for answer in answers} == {40}
        ids = [message[1] for message in server.received if message[0] in ("REQ", "COUNT")]
        assert len(set(ids)) == 21


async def test_a_budget_cuts_the_page_and_closes(notes: list[Event]) -> None:
    options = Options(limits=Limits(verify_chunk=8))
    async with talking(events=notes, options=options) as (_server, relay):
        page = await relay.fetch(NOTES, budget=ReadBudget(events=10))
        assert page.cut
        assert not page.complete
        assert 10 <= len(page.events) <= 18


async def test_too_many_subscriptions_wait_for_a_slot(notes: list[Event]) -> None:
    behaviour = FewSubscriptions(3)
    async with talking(behaviour, events=notes) as (server, relay):
        pages = await asyncio.gather(*(relay.fetch(NOTES) for _ in range(10)))
        assert {len(page.events) for page in pages} == {40}
        async with relay.subscribe(NOTES), relay.subscribe(NOTES), relay.subscribe(NOTES) as third:
            await third.stored()
            fourth = relay.subscribe(NOTES)
            sent = server.verbs()["REQ"]
            await relay.count(NOTES)
            assert server.verbs()["REQ"] == sent, "a fourth was sent beside three that are open"
            await third.close()
            async with asyncio.timeout(5):
                await fourth.stored()
            await fourth.close()
        assert behaviour.peak == 3


async def test_the_document_is_asked_for_with_the_exact_header(notes: list[Event]) -> None:
    document = {
        "name": "x",
        "supported_nips": [1, "45", None],
        "limitation": {"max_subscriptions": 2},
    }
    behaviour = FewSubscriptions(2, "blocked: you were told")
    async with talking(behaviour, events=notes, info=document) as (server, relay):
        info = await relay.info()
        assert server.accepts == ["application/nostr+json"]
        assert info.supports(45)
        pages = await asyncio.gather(*(relay.fetch(NOTES) for _ in range(7)))
        assert all(page.complete for page in pages)


async def test_compression_is_used_where_the_relay_offers_it(notes: list[Event]) -> None:
    async with FaultyRelay(events=notes, compress=True) as server:
        for compress in (True, False):
            options = Options(connection=ConnectionOptions(compress=compress))
            async with Relay(server.url, options=options) as relay:
                assert len((await relay.fetch(NOTES)).events) == 40


async def test_filters_that_match_nothing_are_not_sent(notes: list[Event]) -> None:
    nothing = Filter(ids=[])
    async with talking(events=notes) as (server, relay):
        assert (await relay.count(nothing)).count == 0
        assert (await relay.fetch(nothing)).complete
        assert [one async for one in relay.subscribe(nothing)] == []
        assert len((await relay.fetch([nothing, NOTES])).events) == 40
        asked = [message[2:] for message in server.received if message[0] != "CLOSE"]
        assert asked == [[{"kinds": [1]}]]
        with pytest.raises(InvalidFilter):
            await relay.count([])


async def test_a_deadline_tells_what_the_relay_said_meanwhile() -> None:
    refusal = RefusesCount([["NOTICE", "restricted: permission denied"]])
    async with talking(refusal, options=QUICK) as (_, relay):
        with pytest.raises(DeadlineExceeded, match="permission denied"):
            await relay.count(NOTES)


class Negotiates(Behaviour):
    """Answers NEG-OPEN and NEG-MSG with what was sent, and the third message with NEG-ERR."""

    def __init__(self) -> None:
        self.turns = 0

    async def on_other(self, peer: Peer, message: list[Any]) -> None:
        self.turns += 1
        if message[0] == "NEG-CLOSE":
            return
        if self.turns == 3:
            await peer.send("NEG-ERR", message[1], "closed: enough")
        else:
            await peer.send("NEG-MSG", message[1], message[-1])


async def test_a_negentropy_session_is_a_channel() -> None:
    async with talking(Negotiates()) as (server, relay):
        with await relay.negotiate(NOTES, b"\x61") as channel:
            assert await channel.receive() == NegMsg(channel.sub_id, b"\x61")
            channel.send(b"\x61\x00")
            assert await channel.receive() == NegMsg(channel.sub_id, b"\x61\x00")
            channel.send(b"\x61\x01")
            error = await channel.receive()
            assert isinstance(error, NegErr)
            assert error.prefix == "closed"
        with await relay.negotiate(NOTES, b"\x61") as channel:
            await channel.receive()
            server.peers[0].abort()
            with pytest.raises(NetworkError):
                await channel.receive()
        assert server.verbs()["NEG-CLOSE"] == 0


async def test_a_message_beyond_what_the_relay_takes_is_not_sent() -> None:
    async with talking() as (server, relay):
        large = SIGNER.sign_now(EventTemplate(kind=1, content="x" * 130_000, created_at=1))
        with pytest.raises(RelayRefused, match="120000"):
            await relay.publish(large)
        assert server.verbs()["EVENT"] == 0
