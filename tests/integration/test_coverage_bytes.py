"""Relays with large sets that differ little are compared with few bytes, by the client as it is."""

from __future__ import annotations

import shutil
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import pytest

from agent.relay.server import serve
from nostr_client.client import NostrClient
from nostr_client.codecs.event import EventTemplate
from nostr_client.codecs.keys import KeySigner
from nostr_client.store.sqlite import SqliteStore
from nostr_client.sync.coverage import Look

if TYPE_CHECKING:
    from pathlib import Path

    from nostr_client.codecs.keys import VerifiedEvent

OWN = KeySigner(bytes(31) + b"\x61", rand=bytes)
RELAYS = 5


def note(n: int) -> VerifiedEvent:
    return OWN.sign_now(EventTemplate(kind=1, content="", created_at=1_600_000_000 + 731 * n))


async def compared(ids: int, folder: Path) -> int:
    """Compare five relays; each hundredth event is on one or on four of them. Return the bytes
    sent and received."""
    rare = range(50, ids, 100)
    seed = folder / "common.db"
    async with await SqliteStore.open(seed) as store:
        await store.save([note(n) for n in range(ids) if n % 100 != 50])
    held: list[set[str]] = []
    async with AsyncExitStack() as stack:
        urls = []
        for at in range(RELAYS):
            path = folder / f"r{at}.db"
            shutil.copy(seed, path)
            store = await stack.enter_async_context(await SqliteStore.open(path))
            own = [note(n) for i, n in enumerate(rare) if (i % RELAYS == at) == bool(i % 2)]
            await store.save(own)
            held.append({one.event.id for one in own})
            urls.append((await stack.enter_async_context(serve(store, port=0))).url)
        client = await stack.enter_async_context(NostrClient(urls))
        found = await client.coverage(Look(author=OWN.pubkey, kinds=(1,)))
        stats = [client.pool.relay(url).stats for url in urls]
        moved = sum(one.bytes_sent + one.bytes_received for one in stats)
    assert len(found.union(1)) == ids
    some = set[str]().union(*held)
    for url, own_ids in zip(urls, held, strict=True):
        cell = found.cell(url, 1)
        assert (cell.whole, cell.by) == (True, "ids")
        assert found.lacking(url, 1) == frozenset(some - own_ids)
    return moved


async def test_ten_thousand_ids_over_five_relays(tmp_path: Path) -> None:
    assert await compared(10_000, tmp_path) <= 1_500_000


@pytest.mark.long
async def test_a_hundred_thousand_ids_over_five_relays(tmp_path: Path) -> None:
    assert await compared(100_000, tmp_path) <= 15_000_000
