"""Relay URLs as people type them, and a relay that compares the AUTH tag with its own spelling."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from nostr_client.codecs.event import EventTemplate
from nostr_client.codecs.filters import Filter
from nostr_client.codecs.keys import KeySigner
from nostr_client.codecs.relay_url import address
from nostr_client.errors import InvalidRelayURL, NetworkError
from nostr_client.network.pool import RelayPool
from nostr_client.network.relay import Relay
from tests.faults import WantsAuth
from tests.faulty_relay import FaultyRelay, Peer
from tests.field import field_case

if TYPE_CHECKING:
    from pathlib import Path


@field_case("relay-urls-typed")
async def check_typed(given: Any, tmp_path: Path) -> None:
    for case in given:
        if case["expected"] == "usage error":
            with pytest.raises(InvalidRelayURL):
                address(case["given"])
            continue
        assert address(case["given"]).startswith("ws://")
        relay = Relay(case["given"])
        try:
            with pytest.raises(NetworkError, match=r"needs a proxy for \.onion"):
                await relay.connect()
        finally:
            await relay.close()


class ComparesTag(WantsAuth):
    """Accepts AUTH only for exactly this relay tag."""

    spelling = ""

    async def on_auth(self, peer: Peer, message: list[Any]) -> None:
        tags = message[1]["tags"]
        if ["relay", self.spelling] in tags:
            await super().on_auth(peer, message)
        else:
            await peer.send("OK", message[1]["id"], False, f"auth-required: not {tags}")


@field_case("auth-relay-tag-slash")
async def check_auth(given: Any, tmp_path: Path) -> None:
    behaviour = ComparesTag()
    event = KeySigner.generate().sign_now(EventTemplate(kind=1, created_at=1)).event
    async with FaultyRelay(behaviour, events=[event]) as server:
        behaviour.spelling = given["user_gives"].replace("PORT", server.url.rpartition(":")[2])
        async with RelayPool(signer=KeySigner.generate()) as pool:
            page = await pool.relay(behaviour.spelling).fetch(Filter(kinds=[1]))
    assert [one.event.id for one in page.events] == [event.id]
