"""Reposts of anything but a note are of kind 16: an article by its address, a video by its id."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nostr_client.client import NostrClient
from nostr_client.codecs.event import parse_event
from nostr_client.count import reposts
from tests.faulty_relay import FaultyRelay
from tests.field import field_case

if TYPE_CHECKING:
    from pathlib import Path


@field_case("reposts-generic")
async def check(given: Any, tmp_path: Path) -> None:
    for target, name in (("naddr", "events"), ("nevent", "events2")):
        reposted, *others = [parse_event(one) for one in given[name]]
        relay = FaultyRelay(events=[reposted, *others])
        async with relay, NostrClient(relay.url) as client:
            result = await client.count(reposts(given[target]))
        assert result.events is not None
        assert (result.events.value, result.exact) == (len(others), True)
