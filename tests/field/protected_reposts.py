"""The case of reposts that carry a protected event."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agent.relay.server import serve
from nostr_client.client import NostrClient
from nostr_client.codecs.event import parse_event
from nostr_client.codecs.filters import Filter
from nostr_client.codecs.keys import verify
from nostr_client.codecs.private_kinds import reposts_protected
from nostr_client.store.sqlite import SqliteStore
from tests.faulty_relay import FaultyRelay
from tests.field import field_case
from tests.negrelay import SpeaksNeg

if TYPE_CHECKING:
    from pathlib import Path


@field_case("nip70-repost-of-protected")
async def check(given: Any, tmp_path: Path) -> None:
    """The local relay refuses both reposts, and no sync uploads them."""
    reposts = [verify(parse_event(given[name])) for name in ("repost6", "repost16")]
    assert given["expected"].startswith("OK false for both")
    assert all(reposts_protected(one.event) for one in reposts)
    async with await SqliteStore.open(tmp_path / "relay.db") as store, serve(store, port=0) as ours:
        async with NostrClient(ours.url) as client:
            for one in reposts:
                (result,) = (await client.publish(one)).values()
                assert result.message.startswith("blocked: "), result
        assert await store.count([Filter()]) == 0
    async with await SqliteStore.open(tmp_path / "mine.db") as store:
        await store.save(reposts)
        async with FaultyRelay(SpeaksNeg()) as relay, NostrClient(relay.url, store=store) as client:
            asked = Filter(kinds=[6, 16])
            report = await client.sync(asked, direction="both", include_others=True)
        (one,) = report.relays
        assert (one.held_back, one.uploaded, relay.events) == (2, 0, [])
