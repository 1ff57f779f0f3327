"""The choice of relays learns from the claims of a store, and `relay rank` says why."""

from __future__ import annotations

import json
import time
from contextlib import AsyncExitStack
from hashlib import sha256
from typing import TYPE_CHECKING

from nostr_client import count
from nostr_client.client import NostrClient
from nostr_client.codecs.event import EventTemplate
from nostr_client.codecs.keys import KeySigner
from nostr_client.codecs.nip19 import PublicKey
from nostr_client.network.outbox import RelayChoice
from tests.faulty_relay import FaultyRelay
from tests.running import nostr_client
from tests.worlds.people import TARGET, Sketches, follow

if TYPE_CHECKING:
    from pathlib import Path

    from nostr_client.codecs.event import Event

ALICE = KeySigner(sha256(b"alice").digest())
MONITOR = KeySigner(sha256(b"monitor").digest())
NPUB = PublicKey(ALICE.pubkey).encode()
GONE = [f"wss://{x}.gone.example" for x in "abc"]


def listed(*urls: str) -> Event:
    tags = tuple(("r", url) for url in urls)
    return ALICE.sign_now(
        EventTemplate(kind=10002, tags=tags, created_at=int(time.time()) - 60)
    ).event


def seen(url: str) -> Event:
    at = int(time.time()) - 60
    return MONITOR.sign_now(EventTemplate(kind=30166, tags=(("d", url),), created_at=at)).event


async def test_a_relay_that_failed_gives_its_place_to_one_that_was_never_asked(
    tmp_path: Path,
) -> None:
    async with FaultyRelay(events=[listed(*GONE)]) as index:
        choice = RelayChoice(indexers=(index.url,), most=2)
        query = count.followers(NPUB)
        async with NostrClient(choice=choice, store=tmp_path / "s.db", timeout=1.5) as client:
            first = await client.count(query)
            assert [one.relay for one in first.relays] == GONE[:2]
            assert first.answered == 0
            second = await client.count(query)
            assert [one.relay for one in second.relays] == [GONE[0], GONE[2]]


async def test_the_command_ranks_what_was_asked_and_says_why(tmp_path: Path) -> None:
    path = str(tmp_path / "s.db")
    parts = [range(60), range(200), range(60, 200)]
    async with AsyncExitStack() as stack:
        relays = [
            await stack.enter_async_context(
                FaultyRelay(Sketches(), events=[follow(i) for i in part])
            )
            for part in parts
        ]
        urls = [one.url for one in relays]
        async with NostrClient([*urls, GONE[0]], store=path, timeout=2) as client:
            await client.count(count.followers(TARGET))
    done = await nostr_client("relay", "rank", "--store", path, "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert [one["place"] for one in found] == [1, 2, 3, 4]
    assert {one["relay"] for one in found} == {*urls, GONE[0]}
    assert found[-1]["relay"] == GONE[0]
    assert (found[-1]["answered"], found[-1]["failed"]) == (0, 1)
    done = await nostr_client("relay", "rank", "--store", path)
    assert "answered 1 of 1 question this week (each counts once a day)" in done.out
    assert "answered 0 of 1 question this week (each counts once a day)" in done.out


async def test_the_command_shows_which_relays_a_count_would_ask(tmp_path: Path) -> None:
    path = str(tmp_path / "s.db")
    async with NostrClient(GONE[:1], store=path, timeout=1) as client:
        await client.count(count.followers(NPUB))
    async with FaultyRelay(events=[listed(*GONE), seen(f"{GONE[2]}/")]) as index:
        monitor = PublicKey(MONITOR.pubkey).encode()
        args = ("relay", "rank", "followers", NPUB, "--indexer", index.url, "--most", "2")
        done = await nostr_client(*args, "--monitor", monitor, "--store", path, "--json")
        assert done.code == 0, done.err
        found = [(one["relay"], one["chosen"], one["live"]) for one in json.loads(done.out)]
        assert found == [
            (GONE[2], True, True),
            (GONE[1], True, False),
            (GONE[0], False, False),
        ]
        done = await nostr_client(*args, "--monitor", monitor, "--store", path)
        assert "1*" in done.out
        assert "no answer and no failure is known, a monitor reached it" in done.out
        assert "* is asked" in done.err
        done = await nostr_client("relay", "rank", "followers", NPUB, "--store", path)
        assert done.code == 2
        done = await nostr_client("relay", "rank", "followers", "--store", path)
        assert done.code == 2


async def test_a_relay_that_may_not_be_asked_is_named_and_is_no_failure(tmp_path: Path) -> None:
    path, private = str(tmp_path / "s.db"), "ws://10.0.0.1"
    async with NostrClient(GONE[:1], store=path, timeout=1) as client:
        await client.count(count.followers(NPUB))
    for urls, chosen in (([private], [False]), ([private, GONE[1]], [True, False])):
        async with FaultyRelay(events=[listed(*urls)]) as index:
            args = ("relay", "rank", "followers", NPUB, "--indexer", index.url, "--store", path)
            done = await nostr_client(*args, "--json")
            assert done.code == 0, done.err
            found = json.loads(done.out)
            assert [one["chosen"] for one in found] == chosen
            assert (found[-1]["relay"], found[-1]["not_asked"]) == (
                private,
                "10.0.0.1 is not a public address",
            )
            done = await nostr_client(*args)
            assert done.code == 0, done.err
            assert "a count does not ask it: 10.0.0.1 is not a public address" in " ".join(
                done.out.split()
            )
    async with FaultyRelay() as index:
        args = ("relay", "rank", "followers", NPUB, "--indexer", index.url, "--store", path)
        done = await nostr_client(*args)
        assert done.code == 3
        assert "no relay to ask" in done.err


async def test_an_answer_counts_once_a_day_and_the_command_says_so(tmp_path: Path) -> None:
    path = str(tmp_path / "s.db")
    async with (
        FaultyRelay(Sketches(), events=[follow(1)]) as relay,
        NostrClient([relay.url], store=path) as client,
    ):
        for _ in range(5):
            await client.count(count.followers(TARGET))
    done = await nostr_client("relay", "rank", "--store", path)
    assert "answered 1 of 1 question this week (each counts once a day)" in done.out
