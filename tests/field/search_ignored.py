"""A relay that does not list NIP-50 is not asked to search: it would answer another question."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nostr_client.client import NostrClient
from nostr_client.codecs.event import parse_event
from nostr_client.codecs.filters import Filter
from tests.faulty_relay import FaultyRelay
from tests.field import field_case

if TYPE_CHECKING:
    from pathlib import Path


@field_case("search-ignored-by-relay")
async def check(given: Any, tmp_path: Path) -> None:
    events = [parse_event(one) for one in given["events"]]
    asked = Filter.from_json(given["filter"])
    async with (
        FaultyRelay(events=events, info={"supported_nips": [1, 45]}) as deaf,
        FaultyRelay(events=events, info={"supported_nips": [1, 45, 50]}) as able,
        FaultyRelay(events=events) as silent,
        NostrClient() as client,
    ):
        for relay in (deaf, able, silent):
            for reads in (True, False):
                result = await client.count(asked, relays=relay.url, read=reads)
                assert not result.exact
                assert (result.relays[0].status == "unsupported") == (relay is deaf)
        assert not deaf.verbs()
