"""The agent's choice of relays learns from its store and from the monitors that it is given."""

from __future__ import annotations

import time
from hashlib import sha256

from agent.config.model import RelaysSection
from agent.service.parts import make_finder
from nostr_client import count
from nostr_client.codecs.event import EventTemplate
from nostr_client.codecs.keys import KeySigner
from nostr_client.codecs.nip19 import PublicKey
from nostr_client.count.claims import CLAIMS, ClaimBook
from nostr_client.count.merge import Claim, ClaimStatus
from nostr_client.count.queries import target_of
from nostr_client.count.remembering import asked_of
from nostr_client.network.pool import RelayPool
from nostr_client.store.sqlite import SqliteStore
from nostr_client.watch.clock import SystemClock
from tests.faulty_relay import FaultyRelay

ALICE, MONITOR = (KeySigner(sha256(name).digest()) for name in (b"alice", b"monitor"))
A, B, C = (f"wss://{x}.gone.example" for x in "abc")


async def test_what_failed_comes_last_and_what_a_monitor_reached_first() -> None:
    now = int(time.time())
    tags = tuple(("r", url) for url in (A, B, C))
    listed = ALICE.sign_now(EventTemplate(kind=10002, tags=tags, created_at=now - 60))
    word = EventTemplate(kind=30166, tags=(("d", f"{C}/"),), created_at=now - 60)
    query = count.followers(ALICE.pubkey)
    failed = Claim(relay=A, status=ClaimStatus.UNREACHABLE, asked_at=now - 60.0)
    async with (
        FaultyRelay(events=[listed.event, MONITOR.sign_now(word).event]) as index,
        await SqliteStore.open(":memory:", migrations=[CLAIMS]) as store,
        RelayPool() as pool,
    ):
        await ClaimBook(store.database).remember(asked_of(query), [(A, failed)])
        monitor = PublicKey(MONITOR.pubkey).encode()
        section = RelaysSection(indexers=(index.url,), monitors=(monitor,), most=1)
        finder = make_finder(section, pool, store, SystemClock())
        assert finder is not None
        chosen, ranked = await finder.ranked(target_of(query))
        assert [one.relay for one in ranked] == [C, B, A]
        assert chosen.relays == (C,)
