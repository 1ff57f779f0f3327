"""Counters over Nostr through real relays that lag, lose and disagree: exact at rest."""

from __future__ import annotations

import random
import shutil
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, NamedTuple

import pytest

from agent.counters.publisher import OFFER_AGAIN
from agent.relay.server import serve
from nostr_client.codecs.filters import Filter
from nostr_client.codecs.keys import KeySigner, verify
from nostr_client.store.sqlite import SqliteStore
from tests.faulty_relay import FaultyRelay
from tests.fleet_member import Member, member
from tests.peers.servers import local_relay

if TYPE_CHECKING:
    from pathlib import Path

    from nostr_client.codecs.event import Event

pytestmark = pytest.mark.interop
LEAF, TOP, OTHER = (KeySigner(bytes(31) + bytes([n])) for n in (71, 72, 73))
VALUES = Filter(kinds=[30078])


class Relays(NamedTuple):
    """A LocalRelay, one that forgets and lags as a test does to its store, and one that keeps
    every version that a test puts there."""

    sound: str
    forgets: SqliteStore
    forgets_url: str
    keeps: FaultyRelay

    @property
    def every(self) -> tuple[str, ...]:
        return self.sound, self.forgets_url, self.keeps.url


async def opened(stack: AsyncExitStack) -> Relays:
    sound = await stack.enter_async_context(local_relay())
    store = await stack.enter_async_context(await SqliteStore.open(":memory:"))
    server = await stack.enter_async_context(serve(store, port=0))
    keeps = await stack.enter_async_context(FaultyRelay())
    return Relays(sound, store, server.url, keeps)


async def newest(one: Member) -> Event:
    (event,) = await one.store.query([VALUES.replace(authors=[one.signer.pubkey])])
    return event


def put_back(backup: Path, path: Path) -> None:
    for beside in path.parent.glob(f"{path.name}*"):
        beside.unlink()
    shutil.copy(backup, path)


@pytest.mark.parametrize("seed", range(3))
async def test_exact_at_rest_whatever_relays_keep(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    truth = 1
    async with AsyncExitStack() as stack:
        relays = await opened(stack)
        leaf = await stack.enter_async_context(member(tmp_path / "leaf.db", LEAF))
        top = await stack.enter_async_context(member(tmp_path / "top.db", TOP))
        await leaf.add("app.hits", 1)
        for _ in range(12):
            for _ in range(rng.randrange(3)):
                n = rng.choice((1, 5, -2))
                await leaf.add("app.hits", n)
                truth += n
            await leaf.publish(*rng.sample(relays.every, rng.randint(1, 3)))
            relays.keeps.events.append(await newest(leaf))
            if rng.random() < 0.4:
                await relays.forgets.delete([VALUES])
            if rng.random() < 0.3:  # it lags: an old version is all that it has
                await relays.forgets.delete([VALUES])
                await relays.forgets.save([verify(rng.choice(relays.keeps.events))])
            rng.shuffle(relays.keeps.events)
            before = await top.value("app.hits")
            await top.source(leaf, *rng.sample(relays.every, rng.randint(1, 2)))
            assert await top.value("app.hits") in range(min(before, truth) - 60, truth + 60)
        await leaf.publish(*relays.every)
        link = await top.source(leaf, relays.sound)
        assert await top.value("app.hits") == truth, link
        # Two that disagree, one of them with the newest: again and again, in any order.
        for urls in ((relays.forgets_url, relays.keeps.url), (relays.keeps.url,), relays.every):
            link = await top.source(leaf, *urls)
            assert (link.state, await top.value("app.hits")) == ("ok", truth)


async def test_an_event_that_relays_lose_is_offered_again(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        relays = await opened(stack)
        leaf = await stack.enter_async_context(member(tmp_path / "leaf.db", LEAF))
        top = await stack.enter_async_context(member(tmp_path / "top.db", TOP))
        await leaf.add("app.hits", 3)
        await leaf.publish(relays.forgets_url)
        event = await newest(leaf)
        await relays.forgets.delete([VALUES])
        assert (await top.source(leaf, relays.forgets_url)).state == "waiting"
        for _ in range(OFFER_AGAIN):
            await leaf.publish(relays.forgets_url)
        assert await newest(leaf) == event
        await top.source(leaf, relays.forgets_url)
        assert await top.value("app.hits") == 3


async def test_restarts_and_a_restore_of_the_writer(tmp_path: Path) -> None:
    path = tmp_path / "leaf.db"
    async with AsyncExitStack() as stack:
        relays = await opened(stack)
        top = await stack.enter_async_context(member(tmp_path / "top.db", TOP))
        async with member(path, LEAF, "one") as leaf:
            await leaf.add("app.hits", 10)
            await leaf.publish(*relays.every)
            await top.source(leaf, *relays.every)
        shutil.copy(path, tmp_path / "backup.db")
        async with member(path, LEAF, "two") as leaf:
            await leaf.add("app.hits", 10)
            await leaf.publish(*relays.every)
            await top.source(leaf, *relays.every)
            assert await top.value("app.hits") == 20
            last = await newest(leaf)
        put_back(tmp_path / "backup.db", path)
        async with member(path, LEAF, "three") as leaf:
            await leaf.add("app.hits", 1)
            await leaf.publish(*relays.every)
            assert (await newest(leaf)).created_at > last.created_at
            link = await top.source(leaf, *relays.every)
            assert (link.state, link.confirmable) == ("stopped", True)
            assert "from 20 to 11" in link.why
            assert await top.value("app.hits") == 20
            assert await top.sourcing.confirm(link.name)
            assert (await top.source(leaf, *relays.every)).state == "ok"
            assert await top.value("app.hits") == 11


async def test_a_second_writer_with_the_same_key_is_noticed_by_both_sides(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        relays = await opened(stack)
        leaf = await stack.enter_async_context(member(tmp_path / "leaf.db", LEAF))
        twin = await stack.enter_async_context(member(tmp_path / "twin.db", LEAF))
        top = await stack.enter_async_context(member(tmp_path / "top.db", TOP))
        await leaf.add("app.hits", 10)
        await twin.add("app.hits", 4)
        await leaf.publish(relays.sound)
        await top.source(leaf, relays.sound)
        link = await twin.publish(relays.sound)
        assert (link.state, link.confirmable) == ("stopped", True)
        twin.publishing.confirm(link.name)
        assert (await twin.publish(relays.sound)).state == "ok"
        link = await top.source(leaf, relays.sound)
        assert (link.state, link.confirmable) == ("stopped", True)
        assert await top.value("app.hits") == 10


async def test_only_listed_keys_count_whatever_a_relay_says(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        relays = await opened(stack)
        leaf = await stack.enter_async_context(member(tmp_path / "leaf.db", LEAF))
        liar = await stack.enter_async_context(member(tmp_path / "liar.db", OTHER))
        top = await stack.enter_async_context(member(tmp_path / "top.db", TOP))
        await leaf.add("app.hits", 10)
        await liar.add("app.hits", 1_000)
        await leaf.publish(*relays.every)
        await liar.publish(*relays.every)
        foreign, mine = await newest(liar), await newest(leaf)
        forged = type(mine)(
            foreign.id,
            mine.pubkey,
            foreign.created_at,
            mine.kind,
            mine.tags,
            foreign.content,
            mine.sig,
        )
        relays.keeps.events[:] = [forged, foreign]
        link = await top.source(leaf, relays.keeps.url)
        assert link.state == "waiting"
        assert await top.value("app.hits") == 0
        await top.source(leaf, *relays.every)
        assert await top.value("app.hits") == 10
        link = await top.source(leaf, relays.sound, "ws://127.0.0.1:9")  # nobody is there
        assert link.state == "ok"
        assert "ws://127.0.0.1:9" in link.problems[0]


async def test_a_hostile_key_is_held_within_its_limits(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        relays = await opened(stack)
        liar = await stack.enter_async_context(member(tmp_path / "liar.db", OTHER))
        top = await stack.enter_async_context(member(tmp_path / "top.db", TOP))
        await top.add("app.mine", 7)
        for n in range(300):
            await liar.add(f"app.n{n}", 1)
        await liar.add("app.mine", 10**6)
        await liar.publish(relays.sound)
        link = await top.source(liar, relays.sound, src="app.*", most_subjects=50)
        assert (link.state, link.subjects) == ("ok", 50)
        assert link.left_out == 251
        entry = await (await top.counters.counters("app")).get("app.mine")
        assert entry.local == 7


async def test_values_that_do_not_fit_one_event_are_refused_and_told(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        relays = await opened(stack)
        leaf = await stack.enter_async_context(member(tmp_path / "leaf.db", LEAF))
        await (await leaf.counters.counters("app")).add_many(
            [(f"app.a-rather-long-subject-of-a-counter-{n}", 1) for n in range(2_000)]
        )
        link = await leaf.publish(relays.sound)
        assert link.state == "failing"
        assert "fewer subjects" in link.why
