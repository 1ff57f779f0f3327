"""NIP-42 over a real socket: on demand, once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from nostr_client.codecs.event import Event, EventTemplate
from nostr_client.errors import (
    InvalidEvent,
    RelayRefused,
)
from nostr_client.options import Options, Timeouts
from tests.faults import (
    OnlyChallenges,
    RefusesCount,
    WantsAuth,
)
from tests.faulty_relay import Behaviour, Peer
from tests.talking import NOTES, SIGNER, note, talking

if TYPE_CHECKING:
    from nostr_client.codecs.keys import VerifiedEvent


@pytest.fixture(scope="module")
def notes() -> list[Event]:
    return [note(1000 + number) for number in range(40)]


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("prefix", ["", "ERROR: "])
async def test_auth_on_demand_in_both_orders(notes: list[Event], first: bool, prefix: str) -> None:
    behaviour = WantsAuth(first=first, prefix=prefix)
    async with talking(behaviour, events=notes, signer=SIGNER) as (server, relay):
        answer, page, ok = await asyncio.gather(
            relay.count(NOTES),
            relay.fetch(NOTES),
            relay.publish(SIGNER.sign_now(EventTemplate(kind=1, created_at=1))),
        )
        assert (answer.count, len(page.events), ok.accepted) == (40, 40, True)
        verbs = server.verbs()
        assert [verbs[verb] for verb in ("AUTH", "REQ", "COUNT", "EVENT")] == [1, 2, 2, 2]
        assert relay.capabilities.auth is True
        auth = (await server.heard("AUTH"))[0][1]
        assert (auth["kind"], auth["pubkey"]) == (22242, SIGNER.pubkey)
        assert ["relay", relay.url] in auth["tags"]


async def test_a_challenge_with_each_of_many_refusals_is_no_flood() -> None:
    class Strict(Behaviour):
        async def on_event(self, peer: Peer, message: list[Any]) -> None:
            if peer.authenticated is None:
                await peer.send("AUTH", f"challenge {len(peer.relay.received)}")
                await peer.send("OK", message[1]["id"], False, "auth-required: who are you?")
            else:
                await super().on_event(peer, message)

    events = [SIGNER.sign_now(EventTemplate(kind=1, created_at=at)) for at in range(150)]
    async with talking(Strict(), signer=SIGNER) as (server, relay):
        oks = await asyncio.gather(*(relay.publish(one) for one in events))
        assert all(ok.accepted for ok in oks)
        assert (server.connections, server.verbs()["AUTH"]) == (1, 1)


async def test_the_newest_challenge_is_answered_where_an_older_one_is_refused() -> None:
    class Newest(Behaviour):
        number = 0

        async def on_event(self, peer: Peer, message: list[Any]) -> None:
            if peer.authenticated is None:
                self.number += 1
                await peer.send("AUTH", f"challenge {self.number}")
                await peer.send("OK", message[1]["id"], False, "auth-required: who are you?")
            else:
                await super().on_event(peer, message)

        async def on_auth(self, peer: Peer, message: list[Any]) -> None:
            answered = dict(message[1]["tags"])["challenge"]
            if answered == f"challenge {self.number}":
                await super().on_auth(peer, message)
            else:
                await peer.send("OK", message[1]["id"], False, "auth-required: invalid challenge")

    events = [SIGNER.sign_now(EventTemplate(kind=1, created_at=at)) for at in range(150)]
    async with talking(Newest(), signer=SIGNER) as (server, relay):
        oks = await asyncio.gather(*(relay.publish(one) for one in events))
        assert all(ok.accepted for ok in oks)
        assert server.verbs()["AUTH"] <= 3


async def test_no_auth_unless_a_request_needs_it(notes: list[Event]) -> None:
    async with talking(OnlyChallenges(), events=notes, signer=SIGNER) as (server, relay):
        await relay.fetch(NOTES)
        await relay.count(NOTES)
        assert server.verbs()["AUTH"] == 0


class SlowSigner:
    """A signer somewhere else: `sign` waits, then fails with `error` or not at all."""

    pubkey = SIGNER.pubkey

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error

    async def sign(self, template: EventTemplate) -> VerifiedEvent:
        if self.error is None:
            await asyncio.Event().wait()
        raise self.error or AssertionError


@pytest.mark.parametrize("signer", [SlowSigner(), SlowSigner(InvalidEvent("the owner said no"))])
async def test_a_signer_that_cannot_is_a_refusal_and_the_connection_lives(
    notes: list[Event], signer: SlowSigner
) -> None:
    options = Options(timeouts=Timeouts(auth=0.2))
    async with talking(WantsAuth(), signer=signer, options=options) as (server, relay):
        with pytest.raises(RelayRefused, match=r"signer|owner"):
            await relay.count(NOTES)
        with pytest.raises(RelayRefused):
            await relay.authenticate()
        assert server.connections == 1


async def test_no_challenge_is_a_refusal() -> None:
    options = Options(timeouts=Timeouts(auth=0.2))
    refusal = RefusesCount([["CLOSED", "{id}", "auth-required: who?"]])
    async with talking(refusal, signer=SIGNER, options=options) as (_, relay):
        with pytest.raises(RelayRefused, match="no challenge"):
            await relay.count(NOTES)


async def test_auth_on_the_callers_own_initiative() -> None:
    async with talking(WantsAuth(), signer=SIGNER) as (server, relay):
        await relay.authenticate()
        await relay.authenticate()
        assert server.verbs()["AUTH"] == 1
        assert (await relay.count(NOTES)).count == 0
        assert server.verbs()["COUNT"] == 1


async def test_auth_without_a_signer_is_a_refusal() -> None:
    async with talking(WantsAuth()) as (server, relay):
        for request in (relay.count(NOTES), relay.fetch(NOTES)):
            with pytest.raises(RelayRefused) as caught:
                await request
            assert caught.value.prefix == "auth-required"
        assert server.verbs()["AUTH"] == 0


@pytest.mark.parametrize("behaviour", [WantsAuth(loop=True), WantsAuth(accepts=False)])
async def test_auth_loops_end_after_one_try(behaviour: WantsAuth) -> None:
    async with talking(behaviour, signer=SIGNER) as (server, relay):
        for request in (relay.count(NOTES), relay.fetch(NOTES)):
            with pytest.raises(RelayRefused):
                await request
        assert server.verbs()["AUTH"] == 1
        assert server.verbs()["COUNT"] <= 2


async def test_auth_that_is_accepted_in_silence_gets_one_resend(notes: list[Event]) -> None:
    options = Options(timeouts=Timeouts(auth=0.2))
    behaviour = WantsAuth(answers=False)
    async with talking(behaviour, events=notes, signer=SIGNER, options=options) as (server, relay):
        assert (await relay.count(NOTES)).count == 40
        assert server.verbs()["COUNT"] == 2
