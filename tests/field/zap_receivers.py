"""A receipt counts for a note only where it pays the note's author, or one of its splits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nostr_client.client import NostrClient
from nostr_client.codecs import nip19
from nostr_client.codecs.event import parse_event
from nostr_client.count import zaps
from tests.faulty_relay import FaultyRelay
from tests.field import field_case

if TYPE_CHECKING:
    from pathlib import Path


@field_case("zap-p-is-not-the-author")
async def check(given: Any, tmp_path: Path) -> None:
    note, fake = parse_event(given["note"]), parse_event(given["fake"])
    honest = [parse_event(one) for one in given["receipts"]]
    # the identifier names the faker as the author: a hint proves nothing
    hinted = nip19.EventPointer(note.id, author=fake.first_tag("p")).encode()
    for target in (given["nevent"], hinted, note.id):
        relay = FaultyRelay(events=[note, *honest, fake])
        async with relay, NostrClient(relay.url, store=tmp_path / f"{target[:8]}.db") as client:
            result = await client.count(zaps(target))
        assert result.events is not None
        assert result.merged.amount is not None
        assert (result.events.value, result.exact) == (len(honest), True)
        assert result.merged.amount.value == 21_000 + 1_000_000
