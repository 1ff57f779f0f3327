"""PyPI nostr-relay: silent on COUNT, silent on AUTH, and OK with an empty id when it refuses."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from nostr_client.codecs.event import EventTemplate
from nostr_client.codecs.filters import Filter
from nostr_client.codecs.keys import KeySigner, VerifiedEvent
from nostr_client.errors import DeadlineExceeded, RelayRefused
from nostr_client.network.relay import Relay
from nostr_client.options import Options, Timeouts
from tests.interop.sample import most_common_kind, sample
from tests.peers.servers import python_nostr_relay

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

pytestmark = pytest.mark.interop
SIGNER = KeySigner(bytes(31) + b"\x09")


@pytest.fixture(scope="module")
def events() -> list[VerifiedEvent]:
    return sample()


@pytest.fixture
async def loaded(tmp_path: Path, events: list[VerifiedEvent]) -> AsyncIterator[Relay]:
    async with python_nostr_relay(tmp_path) as url, Relay(url) as relay:
        for event in events:
            assert (await relay.publish(event, 20)).accepted
        yield relay


async def test_req_and_the_silence_on_count(loaded: Relay, events: list[VerifiedEvent]) -> None:
    kind, _ = most_common_kind(events)
    page = await loaded.fetch(Filter(kinds=[kind]))
    assert page.complete
    assert set(page.events) == {event for event in events if event.event.kind == kind}
    with pytest.raises(DeadlineExceeded):
        await loaded.count(Filter(kinds=[kind]), 0.5)
    assert (await loaded.fetch(Filter(kinds=[kind], limit=1))).complete, (
        "COUNT broke the connection"
    )
    assert loaded.capabilities.count is None


async def test_live_events_duplicates_and_the_document(
    loaded: Relay, events: list[VerifiedEvent]
) -> None:
    info = await loaded.info()
    assert (info.name, info.supports(1), info.supports(45)) == ("python relay", True, False)
    assert (await loaded.publish(events[0])).holds_event
    async with loaded.subscribe(Filter(authors=[SIGNER.pubkey])) as subscription:
        await subscription.stored()
        new = SIGNER.sign_now(EventTemplate(kind=1, content="new", created_at=1_700_000_000))
        await loaded.publish(new)
        async with asyncio.timeout(10):
            assert await anext(subscription) == new


async def test_auth_is_accepted_in_silence(tmp_path: Path) -> None:
    new = SIGNER.sign_now(EventTemplate(kind=1, content="x", created_at=1_700_000_000))
    options = Options(timeouts=Timeouts(auth=1.0))
    async with python_nostr_relay(tmp_path, writer=SIGNER.pubkey) as url:
        async with Relay(url, options=options) as stranger:
            with pytest.raises(RelayRefused):
                await stranger.publish(new)
        async with Relay(url, options=options, signer=SIGNER) as relay:
            await relay.authenticate()
            assert (await relay.publish(new)).accepted
            assert (await relay.fetch(Filter(kinds=[1]))).events == (new,)
