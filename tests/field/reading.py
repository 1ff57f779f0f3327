"""Cases about where the reading of a relay ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nostr_client import count
from nostr_client.client import NostrClient
from nostr_client.codecs.event import parse_event
from tests.faults import Pages
from tests.faulty_relay import FaultyRelay
from tests.field import field_case

if TYPE_CHECKING:
    from pathlib import Path


@field_case("zap-junk-page")
async def junk_page(given: Any, tmp_path: Path) -> None:
    """Receipts that do not hold fill the newest page; those below them count."""
    zaps, sats = (int(word.split()[0]) for word in given["expected"].split(", "))
    cap = int(given["relay"].split()[2].rstrip(","))
    events = [parse_event(one) for one in given["events"]]
    query = count.zaps(given["target"])
    async with (
        FaultyRelay(Pages(cap), events=events) as relay,
        NostrClient([relay.url]) as client,
    ):
        result = await client.count(query)
    assert result.value == zaps
    assert result.exact
    assert result.merged.amount is not None
    assert result.merged.amount.value == 1_000 * sats
    assert any("invalid receipt" in text for text in result.relays[0].warnings)
