"""Names of people by their profiles: from the store, else from relays that are asked anyway."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from nostr_client.client import NostrClient
from nostr_client.codecs.event import Event, EventTemplate
from nostr_client.codecs.filters import Filter
from nostr_client.codecs.keys import stored_event
from nostr_client.codecs.nip19 import PublicKey
from nostr_client.store.sqlite import SqliteStore
from tests.faulty_relay import FaultyRelay
from tests.running import nostr_client
from tests.worlds import START, signer

if TYPE_CHECKING:
    from pathlib import Path

ANN, BO, CY = (signer(n).pubkey for n in (1, 2, 3))


def profile(i: int, name: str, at: int = START) -> Event:
    content = json.dumps({"name": name})
    template = EventTemplate(kind=0, content=content, tags=(), created_at=at)
    return signer(i).sign_now(template).event


async def test_the_newest_profile_of_all_relays_names_a_person() -> None:
    async with (
        FaultyRelay(events=[profile(1, "old"), profile(2, "Bo")]) as one,
        FaultyRelay(events=[profile(1, "An\u202en", START + 1)]) as other,
        NostrClient([one.url, other.url]) as client,
    ):
        assert await client.names([ANN, BO, CY]) == {ANN: "An\\x202en", BO: "Bo"}


async def test_a_relay_that_fails_names_nobody_and_is_no_error() -> None:
    async with NostrClient(["ws://127.0.0.1:1"], timeout=1) as client:
        assert await client.names([ANN], timeout=1) == {}


async def test_whom_the_store_names_no_relay_is_asked_about(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    async with await SqliteStore.open(path) as store:
        await store.save([stored_event(profile(1, "Ann"))])
    async with (
        FaultyRelay(events=[profile(1, "Eve", START + 1), profile(2, "Bo")]) as relay,
        NostrClient([relay.url], store=path, keep_events=True) as client,
    ):
        assert await client.names([ANN]) == {ANN: "Ann"}
        assert not relay.received
        assert await client.names([ANN, BO]) == {ANN: "Ann", BO: "Bo"}
        assert [one[2]["authors"] for one in relay.received if one[0] == "REQ"] == [[BO]]
    async with await SqliteStore.open(path) as store:
        assert await store.count([Filter(kinds=[0])]) == 2


async def test_a_count_of_several_targets_names_them_with_the_key_behind() -> None:
    ann, bo = (PublicKey(one).encode() for one in (ANN, BO))
    async with FaultyRelay(events=[profile(1, "Ann\u200b"), profile(2, ann)]) as relay:
        done = await nostr_client("count", "followers", ann, bo, "-r", relay.url)
        data = await nostr_client("count", "followers", ann, bo, "-r", relay.url, "--json")
    first, second = done.out.splitlines()
    assert first.startswith(f"Ann\\x200b ({ann})  followers: 0")
    assert second.startswith(f"{bo}  followers: 0")
    assert "Ann" not in data.out


async def test_a_single_target_asks_for_no_profile() -> None:
    async with FaultyRelay(events=[profile(1, "Ann")]) as relay:
        await nostr_client("count", "followers", PublicKey(ANN).encode(), "-r", relay.url)
        asked = [one[2] for one in relay.received if one[0] == "REQ"]
    assert all(one["kinds"] != [0] for one in asked)
