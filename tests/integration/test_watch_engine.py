"""The engine of watches: merges once a tick, stores whole numbers, keeps live events if asked."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import pytest

from nostr_client.client import NostrClient
from nostr_client.codecs.event import EventTemplate
from nostr_client.codecs.filters import Filter
from nostr_client.count.claims import CLAIMS
from nostr_client.count.procedure import CountEngine
from nostr_client.store.sqlite import SqliteStore
from nostr_client.watch import WATCHES, Watch, WatchRepository, engine
from tests.faulty_relay import FaultyRelay
from tests.worlds import NOTE, START, Sketches, reaction, signer

if TYPE_CHECKING:
    from pathlib import Path

    from nostr_client.count.result import CountResult
    from nostr_client.watch.engine import Engine
    from nostr_client.watch.state import Merge


async def settle(made: Engine) -> None:
    """Do what is due, and what follows from it."""
    async with asyncio.TaskGroup() as group:
        group.create_task(made.worker.run())
        await made.worker.settled()
        made.worker.stop()


async def test_answers_of_one_tick_are_merged_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """However far apart they come: while others are awaited a claim waits, and the last does not.

    The store is read for none of them.
    """
    monkeypatch.setattr(engine, "MERGE_DELAY_S", 3600.0)
    counted: list[CountResult] = []
    result = CountEngine.result

    def merge(counter: CountEngine, *args: Any, **how: Any) -> CountResult:
        counted.append(result(counter, *args, **how))
        return counted[-1]

    monkeypatch.setattr(CountEngine, "result", merge)
    merges: list[Merge] = []

    async def merged(merge: Merge) -> None:
        merges.append(merge)

    relays = [FaultyRelay(Sketches(), events=[reaction(n)]) for n in range(5)]
    async with AsyncExitStack() as stack:
        urls = [(await stack.enter_async_context(one)).url for one in relays]
        book = await stack.enter_async_context(await WatchRepository.open(tmp_path / "store.db"))
        client = await stack.enter_async_context(NostrClient(timeout=20))
        watch = Watch(name="w", query="reactions", target=NOTE, relays=tuple(urls), live=False)
        await book.add(watch)
        made = await stack.enter_async_context(
            client.engine(merged, client.wanted([watch]), book=book)
        )
        await made.refresh()
        await settle(made)
        (news,) = [one for one in merges if one.is_news]
        assert len(counted) == len(merges)
        assert news.is_whole
        assert news.result.value == 5
        assert [claim.relay for claim in news.result.relays] == urls
        assert [point.value for point in await book.history("w")] == [5]


async def test_a_number_without_news_is_no_point_of_the_history(tmp_path: Path) -> None:
    """What an engine shows when it begins is what the one before it stored."""
    merges: list[Merge] = []

    async def merged(merge: Merge) -> None:
        merges.append(merge)

    async with (
        FaultyRelay(Sketches(), events=[reaction(n) for n in range(3)]) as relay,
        await WatchRepository.open(tmp_path / "store.db") as book,
        NostrClient(relay.url, timeout=20) as client,
    ):
        watch = Watch(name="w", query="reactions", target=NOTE, live=False)
        await book.add(watch)
        for _ in range(2):
            async with client.engine(merged, client.wanted([watch]), book=book) as made:
                await made.refresh()
                await settle(made)
        points = await book.history("w")
    assert [(one.is_news, one.result.value) for one in merges][-1] == (False, 3)
    assert [(point.value, point.samples) for point in points] == [(3, 1)]


async def test_a_watch_says_itself_that_live_events_are_kept(tmp_path: Path) -> None:
    watch = Watch(name="w", query="reactions", target=NOTE, keep=True, interval="1h")
    path = tmp_path / "store.db"
    async with (
        FaultyRelay(Sketches(), events=[reaction(n) for n in range(3)]) as relay,
        NostrClient(relay.url, timeout=20, store=path) as client,
        client.watch(watch) as results,
    ):
        assert (await anext(results)).value == 3
        await relay.heard("REQ", 1, within=20)
        fresh = reaction(9, at=int(time.time()))
        await relay.broadcast(fresh)
        assert (await anext(results)).value == 4
    async with await SqliteStore.open(path) as store:
        assert [one.id for one in await store.query([Filter()])] == [fresh.id]


async def test_a_watch_counts_people_within_a_web_beside_its_number(tmp_path: Path) -> None:
    """Once the first round is over; the number comes first, the second figure in a merge of its
    own. The history has it beside that number, in no point of its own."""
    me, path = signer(50), tmp_path / "store.db"
    tags = tuple(("p", signer(n).pubkey) for n in (1, 2, 9))
    template = EventTemplate(kind=3, content="", tags=tags, created_at=START)
    watch = Watch(name="w", query="reactions", target=NOTE, live=False, within=me.pubkey)
    merges: list[Merge] = []

    async def merged(merge: Merge) -> None:
        merges.append(merge)

    async with (
        await SqliteStore.open(path, migrations=[CLAIMS, WATCHES]) as store,
        FaultyRelay(Sketches(), events=[reaction(n) for n in range(5)]) as relay,
        NostrClient(relay.url, timeout=20, store=store) as client,
    ):
        await store.save([me.sign_now(template)])
        book = WatchRepository(store.database)
        await book.add(watch)
        async with client.engine(merged, client.wanted([watch]), book=book) as made:
            await made.refresh()
            await settle(made)
        points = await book.history("w")
    assert len(points) == 1
    found = merges[-1].result.within
    assert merges[-1].is_near
    assert found is not None
    assert found.figure is not None
    assert (found.figure.value, found.figure.exact, found.people) == (2, True, 3)
    assert points[0].within == found


async def test_a_web_without_a_follow_list_is_a_reason_and_the_number_stays(tmp_path: Path) -> None:
    watch = Watch(name="w", query="reactions", target=NOTE, live=False, within="cd" * 32)
    merges: list[Merge] = []

    async def merged(merge: Merge) -> None:
        merges.append(merge)

    async with (
        FaultyRelay(Sketches(), events=[reaction(n) for n in range(5)]) as relay,
        NostrClient(relay.url, timeout=20, store=tmp_path / "store.db") as client,
        client.engine(merged, client.wanted([watch])) as made,
    ):
        await made.refresh()
        await settle(made)
        assert "no follow list" in made.watches["w"].no_web
    assert merges[-1].result.value == 5
    assert merges[-1].result.within is None


async def test_a_watch_within_a_web_needs_a_store() -> None:
    async with NostrClient("wss://relay.example") as client:
        with pytest.raises(ValueError, match="store"):
            client.watch(Watch(name="w", query="reactions", target=NOTE, within="cd" * 32))
        with pytest.raises(ValueError, match="depth"):
            client.watch(Watch(name="w", query="reactions", target=NOTE, within="cd" * 32 + ":9"))


@pytest.mark.parametrize("changes", [{"interval": 1.0}, {"relays": "ftp://x.example"}])
async def test_what_no_watch_can_be_is_refused_at_once(changes: dict[str, Any]) -> None:
    async with NostrClient("wss://relay.example") as client:
        with pytest.raises(ValueError, match=r"10 seconds|ftp"):
            client.watch(Watch(name="w", query="reactions", target=NOTE), **changes)
