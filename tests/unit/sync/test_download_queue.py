"""The download queue: each id once, from the first relay with room, then from the others."""

from __future__ import annotations

import asyncio

import pytest

from nostr_client.sync.download_queue import DownloadQueue
from nostr_client.sync.memory import CUT, LocalMemory, RefusalNote, RelayAndKey, Verdict
from nostr_client.sync.options import SyncOptions

KEYS = [bytes([n]) * 32 for n in range(60)]


WITHHELD = RefusalNote(Verdict.WITHHELD, "named and not sent")


def queue(room: int = 1_000, **modes: bool) -> DownloadQueue:
    options = SyncOptions(pending_ids=room)
    made = DownloadQueue(None, LocalMemory(lambda: 0.0), options, **modes)
    made.enter(RelayAndKey("a"))
    made.enter(RelayAndKey("b"))
    return made


def withheld(ids: list[bytes]) -> dict[bytes, RefusalNote]:
    return dict.fromkeys(ids, WITHHELD)


async def test_an_id_that_two_named_is_given_to_one() -> None:
    d = queue()
    assert await d.need("a", KEYS) == await d.need("b", KEYS) == KEYS
    taken = await d.take("a", 40) + await d.take("b", 40)
    assert sorted(taken) == KEYS
    assert d.distinct == len(KEYS)


async def test_what_one_cannot_give_passes_to_the_other_and_is_not_asked_again_of_him() -> None:
    d = queue()
    await d.need("a", KEYS[:10])
    await d.need("b", KEYS[:10])
    await d.withheld("a", withheld(await d.take("a", 10)))
    assert d.missing("a").withheld == {"named and not sent": 10}
    assert sorted(await d.take("b", 10)) == KEYS[:10]
    assert await d.need("a", KEYS[:10]) == []
    d.came(KEYS[:10])
    assert d.missing("a").withheld == {}
    await d.served("a")
    await d.served("b")


async def test_a_failed_request_is_taken_up_by_whoever_comes_first() -> None:
    d = queue()
    await d.need("a", KEYS[:4])
    first = await d.take("a", 4)
    d.give_back("a", first)
    assert await d.take("a", 4) == first


async def test_a_relay_that_leaves_owes_what_nobody_brought() -> None:
    d = queue()
    await d.need("a", KEYS[:10])
    await d.need("b", KEYS[5:12])
    taken = await d.take("a", 10)
    d.came(taken[:2])
    d.leave("a")
    assert d.missing("a").owed == 8
    assert sorted(await d.take("b", 20)) == KEYS[5:12]
    d.came(KEYS[5:12])
    assert d.missing("a").owed == 3


async def test_a_full_queue_makes_the_session_wait() -> None:
    d = queue(room=1)
    await d.need("a", KEYS[:5])
    waiting = asyncio.ensure_future(d.need("a", KEYS[5:10]))
    await asyncio.sleep(0)
    assert not waiting.done()
    await d.take("a", 5)
    async with asyncio.timeout(1):
        assert await waiting == KEYS[5:10]


@pytest.mark.parametrize("every", [False, True])
async def test_without_fetching_ids_are_counted_alone(every: bool) -> None:
    d = queue(fetch=False, every=every)
    await d.withheld("a", withheld(KEYS[:3]))
    assert len(await d.need("a", KEYS[:10])) == (10 if every else 7)
    async with asyncio.timeout(1):
        await d.served("a")


async def test_uploads_wait_until_no_relay_brings_anything_more() -> None:
    d = queue()
    waiting = asyncio.ensure_future(d.all_brought())
    d.brought("a")
    await asyncio.sleep(0)
    assert not waiting.done()
    d.leave("b")
    async with asyncio.timeout(1):
        await waiting


async def test_what_a_cut_request_did_not_bring_waits_in_the_next_run() -> None:
    memory = LocalMemory(lambda: 0.0)
    first, second = (DownloadQueue(None, memory, SyncOptions()) for _ in range(2))
    first.enter(RelayAndKey("a"))
    await first.need("a", KEYS[:4])
    first.was_cut("a", await first.take("a", 4))
    first.came(KEYS[:1])
    first.leave("a")
    await first.note_cut("a")
    second.enter(RelayAndKey("a"))
    assert await second.need("a", KEYS[:5]) == [KEYS[0], KEYS[4]]
    assert second.missing("a").withheld == {CUT.reason: 3}
