"""A repair over five relays (ours, two of others, two with faults) ends in equal sets.

The sets are compared by frames over a plain WebSocket, without the client.
"""

from __future__ import annotations

import json
import time
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import aiohttp
import pytest

from agent.relay.server import serve
from nostr_client.client import NostrClient
from nostr_client.codecs.event import Event, EventTemplate
from nostr_client.codecs.keys import KeySigner
from nostr_client.store.sqlite import SqliteStore
from nostr_client.sync.coverage import Look
from tests.defects import OldestPage
from tests.faulty_relay import FaultyRelay
from tests.peers.servers import local_relay, python_nostr_relay
from tests.right_relay import Right

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from nostr_client.codecs.filters import Filter
    from tests.faulty_relay import Peer

pytestmark = pytest.mark.interop
OWN = KeySigner(bytes(31) + b"\x71")
NOW = int(time.time())
KINDS = (0, 1, 4, 5)


def made(kind: int, ago: int, *tags: tuple[str, ...]) -> Event:
    template = EventTemplate(kind=kind, content=f"{ago}", tags=tags, created_at=NOW - ago)
    return OWN.sign_now(template).event


NOTES = [made(1, 5_000 + 7 * n) for n in range(60)]
DELETION = made(5, 900, ("e", NOTES[0].id), ("e", NOTES[31].id))
MESSAGE = made(4, 800, ("p", OWN.pubkey))
PROFILES = [made(0, 3_000), made(0, 2_000)]
LIVE = {one.id for one in NOTES[1:] if one is not NOTES[31]} | {DELETION.id, PROFILES[1].id}


class Snapshot(Right):
    """Compares its newest ten events alone, and does not say so."""

    async def neg_items(self, peer: Peer, filters: list[Filter]) -> list[Event]:
        return (await super().neg_items(peer, filters))[:10]


async def hand(url: str, events: Sequence[Event]) -> None:
    """Hand events to a relay, one after the other."""
    async with aiohttp.ClientSession() as session, session.ws_connect(url) as socket:
        for one in events:
            await socket.send_str(f'["EVENT",{one.to_json()}]')
            while '"OK"' not in (await socket.receive(timeout=30)).data:
                continue


async def held(url: str) -> set[str]:
    """The ids of what a relay serves of the author, kind by kind."""
    found: set[str] = set()
    async with aiohttp.ClientSession() as session, session.ws_connect(url) as socket:
        for kind in (*KINDS, 3):
            asked = {"authors": [OWN.pubkey], "kinds": [kind], "limit": 500}
            await socket.send_str(json.dumps(["REQ", f"k{kind}", asked]))
            while True:
                message = json.loads((await socket.receive(timeout=30)).data)
                if message[0] == "EVENT":
                    found.add(message[2]["id"])
                if message[0] in ("EOSE", "CLOSED"):
                    break
    return found


async def test_five_relays_end_with_equal_sets(tmp_path: Path) -> None:
    parts = [
        [*NOTES[:30], PROFILES[0]],
        [*NOTES[20:50]],
        [*NOTES[40:], PROFILES[1], DELETION],
        [*NOTES[::2]],
        [MESSAGE, *NOTES[5:9]],
    ]
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(await SqliteStore.open(tmp_path / "ours.db"))
        ours = await stack.enter_async_context(serve(store, port=0))
        faulty = [FaultyRelay(Snapshot()), FaultyRelay(OldestPage())]
        for one in faulty:
            await stack.enter_async_context(one)
        urls = [
            ours.url,
            await stack.enter_async_context(local_relay()),
            await stack.enter_async_context(python_nostr_relay(tmp_path)),
            *(one.url for one in faulty),
        ]
        for url, events in zip(urls, parts, strict=True):
            await hand(url, events)
        question = Look(author=OWN.pubkey, kinds=KINDS)
        async with NostrClient(urls, store=tmp_path / "client.db") as client:
            plan = await client.plan_repair(await client.coverage(question))
            assert (await client.repair(plan)).complete
        sets = [await held(url) for url in urls]
        assert [len(one - {MESSAGE.id} ^ LIVE) for one in sets] == [0] * 5
        assert [MESSAGE.id in one for one in sets] == [False] * 4 + [True]
        async with NostrClient(urls, store=tmp_path / "client.db") as client:
            again = await client.plan_repair(await client.coverage(question))
            assert again.steps == ()
