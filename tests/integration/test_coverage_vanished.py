"""Coverage after an author asked relays to delete: nothing goes back, and doubt is shown."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest

from nostr_client.client import NostrClient
from nostr_client.codecs.event import EventTemplate
from nostr_client.codecs.keys import KeySigner
from nostr_client.codecs.kinds import DELETION, VANISH
from nostr_client.codecs.nip19 import PublicKey
from nostr_client.network.outbox import RelayChoice
from nostr_client.sync.coverage import Look
from nostr_client.sync.coverage.matrix import share
from tests.faulty_relay import FaultyRelay
from tests.negrelay import SpeaksNeg
from tests.running import nostr_client

if TYPE_CHECKING:
    from nostr_client.codecs.event import Event

OWN = KeySigner(bytes(31) + b"\x41")
FRIEND = KeySigner(bytes(31) + b"\x52")
NPUB = PublicKey(OWN.pubkey).encode()
THEN = 1_700_000_000
DAY = 86_400
LOOKED = ("coverage", NPUB, "-k", "1", "-k", str(VANISH), "--json")


def made(kind: int, at: int, *tags: tuple[str, ...], by: KeySigner = OWN) -> Event:
    template = EventTemplate(kind=kind, tags=tags, content=str(at), created_at=at)
    return by.sign_now(template).event


NOTES = [made(1, THEN + n) for n in range(20)]


class RefusesOldNotes(SpeaksNeg):
    """Compares ids, and serves no events from before a time."""

    async def on_req(self, peer: Any, message: list[Any]) -> None:
        asked = message[2]
        if "until" in asked and asked.get("kinds") == [1] and "ids" not in asked:
            await peer.send("CLOSED", message[1], "restricted: not now")
            return
        await super().on_req(peer, message)


async def looked(*relays: FaultyRelay) -> list[dict[str, Any]]:
    named = [word for one in relays for word in ("-r", one.url)]
    done = await nostr_client(*LOOKED, *named)
    return list(json.loads(done.out)["relays"])


async def test_a_relay_that_obeyed_is_not_the_bad_one() -> None:
    """Which of the union it should have is not known, so its share is not."""
    one, other = FaultyRelay(SpeaksNeg()), FaultyRelay(SpeaksNeg(), events=list(NOTES))
    async with one, other:
        request = made(VANISH, THEN + 50, ("relay", one.url))
        one.events.append(request)
        other.events.append(request)
        async with NostrClient([one.url, other.url]) as client:
            found = await client.coverage(
                Look(author=OWN.pubkey, kinds=(1, VANISH)), [one.url, other.url]
            )
        assert found.undeleted(one.url) == frozenset()
        assert share(found, one.url) is None
        assert share(found, other.url) == 1.0
        done = await nostr_client("coverage", NPUB, "-k", "1", "-r", one.url, "-r", other.url)
        assert f"{one.url} was asked to forget events (NIP-62)" in done.err


async def test_what_could_not_be_read_is_a_doubt_and_no_zero() -> None:
    one, other = FaultyRelay(RefusesOldNotes(), events=list(NOTES)), FaultyRelay()
    async with one, other:
        other.events.append(made(VANISH, THEN + 7, ("relay", one.url)))
        first, second = await looked(one, other)
    assert first["deleted_but_served"] == []
    assert "not now" in first["deleted_but_served_doubt"]
    assert second["deleted_but_served_doubt"] == ""


async def test_a_request_to_another_relay_is_not_lacking() -> None:
    one, other = FaultyRelay(SpeaksNeg(), events=list(NOTES)), FaultyRelay()
    async with one, other:
        here = made(VANISH, THEN + 7, ("relay", one.url))
        elsewhere = made(VANISH, THEN + 9, ("relay", "wss://elsewhere.example"))
        one.events.append(here)
        other.events += [here, elsewhere]
        first, _ = await looked(one, other)
    assert first["deleted_but_served"]
    assert first["requests_lacking"] == []


@pytest.mark.parametrize("kind", [VANISH, DELETION])
@pytest.mark.parametrize("days", [None, 1])
async def test_a_repair_of_the_newest_days_brings_back_nothing(kind: int, days: int | None) -> None:
    """Requests are read from `since` on, so older mentions are not sent again either."""
    now = int(time.time())
    old = made(1, now - 20 * DAY, ("p", FRIEND.pubkey))
    tags = ("relay", "ALL_RELAYS") if kind == VANISH else ("e", old.id)
    mine = FaultyRelay(
        SpeaksNeg(), events=[made(kind, now - 5 * DAY, tags), old, made(1, now - 60)]
    )
    inbox = FaultyRelay(SpeaksNeg())
    async with mine, inbox:
        listed = made(10002, now - 5, ("r", inbox.url, "read"), by=FRIEND)
        async with FaultyRelay(events=[listed]) as indexer:
            choice = RelayChoice(indexers=(indexer.url,), own=(inbox.url,))
            async with NostrClient([mine.url], signer=OWN, choice=choice) as client:
                client.pool.relay(inbox.url)
                since = None if days is None else now - days * DAY
                look = Look(author=OWN.pubkey, kinds=(1,), since=since)
                plan = await client.plan_repair(await client.coverage(look, [mine.url]))
    assert old.id not in [event.id for event in plan.of(inbox.url)]
