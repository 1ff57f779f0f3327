"""rust-nostr's LocalRelay: a relay that counts, without HLL and without NIP-11."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from nostr_client.codecs.event import EventTemplate
from nostr_client.codecs.filters import Filter
from nostr_client.codecs.keys import KeySigner, VerifiedEvent
from nostr_client.errors import NetworkError, ProtocolError, RelayRefused
from nostr_client.network.pool import PublishStatus, RelayPool
from nostr_client.network.relay import Relay
from tests.interop.sample import most_common_kind, sample
from tests.peers.servers import local_relay

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.interop
SIGNER = KeySigner(bytes(31) + b"\x09")


@pytest.fixture(scope="module")
def events() -> list[VerifiedEvent]:
    return sample()


@pytest.fixture(params=[False, True], ids=["0.44", "0.45"])
async def loaded(
    request: pytest.FixtureRequest, events: list[VerifiedEvent]
) -> AsyncIterator[Relay]:
    """A relay of ours at a LocalRelay that took the sample from us."""
    async with local_relay(newest=request.param) as url, Relay(url) as relay:
        oks = await asyncio.gather(*(relay.publish(event, 20) for event in events))
        assert all(ok.accepted for ok in oks)
        yield relay


async def test_req_count_and_live_events(loaded: Relay, events: list[VerifiedEvent]) -> None:
    kind, number = most_common_kind(events)
    asked = Filter(kinds=[kind])
    page = await loaded.fetch(asked)
    assert page.complete
    assert set(page.events) == {event for event in events if event.event.kind == kind}
    answer = await loaded.count(asked)
    assert (answer.count, answer.hll) == (number, None)
    assert (loaded.capabilities.count, loaded.capabilities.hll) == (True, None)
    async with loaded.subscribe(Filter(authors=[SIGNER.pubkey])) as subscription:
        await subscription.stored()
        new = SIGNER.sign_now(EventTemplate(kind=1, content="new", created_at=1_700_000_000))
        await loaded.publish(new)
        async with asyncio.timeout(10):
            assert await anext(subscription) == new


async def test_ids_are_closed_by_the_relay_and_that_is_no_error(
    loaded: Relay, events: list[VerifiedEvent]
) -> None:
    wanted = [one.event.id for one in events[:20]]
    page = await loaded.fetch(Filter(ids=wanted))
    assert page.complete
    assert {one.event.id for one in page.events} == set(wanted)
    async with loaded.subscribe(Filter(ids=wanted)) as subscription:
        async with asyncio.timeout(10):
            got = {(await anext(subscription)).event.id for _ in wanted}
            await subscription.stored()
    assert got == set(wanted)


async def test_a_broken_event_is_refused_with_a_reason(loaded: Relay) -> None:
    good = SIGNER.sign_now(EventTemplate(kind=1, content="x", created_at=1_700_000_000)).event
    forged = VerifiedEvent(type(good)(*(*_fields(good)[:-1], "0" * 128)))
    async with RelayPool() as pool:
        told = await pool.publish(forged, [loaded.url])
    assert told[loaded.url].status is PublishStatus.REFUSED


def _fields(event: object) -> tuple[str, ...]:
    return tuple(getattr(event, name) for name in type(event).__struct_fields__)


async def test_there_is_no_document(loaded: Relay) -> None:
    with pytest.raises((NetworkError, ProtocolError)):
        await loaded.info()


@pytest.mark.parametrize("newest", [False, True], ids=["0.44", "0.45"])
async def test_auth_is_given_when_asked(newest: bool) -> None:
    new = SIGNER.sign_now(EventTemplate(kind=1, content="x", created_at=1_700_000_000))
    async with local_relay(newest=newest, auth=True) as url:
        async with Relay(url) as stranger:
            with pytest.raises(RelayRefused) as caught:
                await stranger.fetch(Filter(kinds=[1]))
            assert caught.value.prefix == "auth-required"
        async with Relay(url, signer=SIGNER) as relay:
            assert (await relay.publish(new)).accepted
            assert (await relay.fetch(Filter(kinds=[1]))).events == (new,)
            assert (await relay.count(Filter(kinds=[1]))).count == 1
            assert relay.capabilities.auth is True
