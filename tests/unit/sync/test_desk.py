"""Who downloads what: once, from whoever is first, and from the others when he fails."""

from __future__ import annotations

import asyncio

import pytest

from nostr_client.sync.desk import Desk
from nostr_client.sync.memory import LocalMemory

KEYS = [bytes([n]) * 32 for n in range(60)]


def desk(room: int = 1_000, **modes: bool) -> Desk:
    made = Desk(None, LocalMemory(lambda: 0.0), room=room, ttl=60, **modes)
    made.enter("a")
    made.enter("b")
    return made


async def test_an_id_that_two_named_is_given_to_one() -> None:
    d = desk()
    assert await d.need("a", KEYS) == await d.need("b", KEYS) == KEYS
    taken = await d.take("a", 40) + await d.take("b", 40)
    assert sorted(taken) == KEYS
    assert d.distinct == len(KEYS)


async def test_what_one_cannot_give_passes_to_the_other_and_is_not_asked_again_of_him() -> None:
    d = desk()
    await d.need("a", KEYS[:10])
    await d.need("b", KEYS[:10])
    await d.hidden("a", await d.take("a", 10))
    assert sorted(await d.take("b", 10)) == KEYS[:10]
    assert await d.need("a", KEYS[:10]) == []
    d.came(KEYS[:10])
    await d.served("a")
    await d.served("b")


async def test_a_failed_request_is_taken_up_by_whoever_comes_first() -> None:
    d = desk()
    await d.need("a", KEYS[:4])
    first = await d.take("a", 4)
    d.give_back("a", first)
    assert await d.take("a", 4) == first


async def test_a_relay_that_leaves_owes_what_nobody_brought() -> None:
    d = desk()
    await d.need("a", KEYS[:10])
    await d.need("b", KEYS[5:12])
    taken = await d.take("a", 10)
    d.came(taken[:2])
    assert d.leave("a") == 8
    assert sorted(await d.take("b", 20)) == KEYS[5:12]


async def test_a_full_queue_makes_the_session_wait() -> None:
    d = desk(room=1)
    await d.need("a", KEYS[:5])
    waiting = asyncio.ensure_future(d.need("a", KEYS[5:10]))
    await asyncio.sleep(0)
    assert not waiting.done()
    await d.take("a", 5)
    async with asyncio.timeout(1):
        assert await waiting == KEYS[5:10]


@pytest.mark.parametrize("every", [False, True])
async def test_without_fetching_ids_are_counted_alone(every: bool) -> None:
    d = desk(fetch=False, every=every)
    await d.hidden("a", KEYS[:3])
    assert len(await d.need("a", KEYS[:10])) == (10 if every else 7)
    async with asyncio.timeout(1):
        await d.served("a")
