"""Relays that the user of a watch leaves out or trusts, and what a relay says of itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from agent.api.client import ApiError
from agent.relay.server import serve
from nostr_client.store.sqlite import SqliteStore
from nostr_client.watch import WatchRepository
from nostr_client.watch.definition import Watch
from tests.agent.service.kit import an_agent
from tests.faulty_relay import FaultyRelay
from tests.worlds import TARGET, Sketches, follow

if TYPE_CHECKING:
    from pathlib import Path

    from agent.api.schema import CountReport

SPEC = Watch(name="f", query="followers", target=TARGET)


async def test_a_relay_is_left_out_and_taken_back(tmp_path: Path) -> None:
    async with (
        FaultyRelay(events=[follow(i) for i in range(3)]) as one,
        FaultyRelay(events=[follow(i) for i in range(5)]) as two,
        an_agent(tmp_path, [one.url, two.url]) as agent,
    ):
        await agent.client.add_watch(SPEC)
        await agent.until(lambda w: w.figure is not None and w.figure.value == 5, "f")
        left_out = msgspec.structs.replace(SPEC, excluded=(two.url,))
        await agent.client.change_watch(left_out.name, left_out)
        await agent.until(lambda w: w.figure is not None and w.figure.value == 3, "f")
        claims = {claim.relay: claim for claim in (await agent.client.explain("f")).relays}
        assert claims[two.url].excluded
        assert claims[two.url].reasons == ("left out by the watch",)
        assert claims[two.url].used == ()
        assert claims[one.url].used == ("events",)
        async with await WatchRepository.open(tmp_path / "store.db", read_only=True) as book:
            assert await book.relays("f") == (one.url, two.url)
            ((watch, _),) = await book.all()
            assert watch.left_out == {two.url}
        await agent.client.change_watch(
            SPEC.name, msgspec.structs.replace(SPEC, trusted=(two.url,))
        )
        await agent.until(lambda w: w.figure is not None and w.figure.value == 5, "f")


async def test_what_a_relay_says_of_itself(tmp_path: Path) -> None:
    async with (
        await SqliteStore.open(":memory:") as store,
        serve(store, port=0) as relay,
        an_agent(tmp_path, [relay.url]) as agent,
    ):
        await agent.client.add_watch(SPEC)
        await agent.until(lambda w: w.answered == 1, "f")
        told = await agent.client.relay_info(relay.url)
        assert 45 in told.supported_nips
        assert told.limitation.max_subscriptions
        with pytest.raises(ApiError, match="no relay"):
            await agent.client.relay_info("wss://never.example")


async def test_the_effect_of_trust_is_shown_before_it_is_kept_and_is_of_one_watch(
    tmp_path: Path,
) -> None:
    other = msgspec.structs.replace(SPEC, name="g")
    async with (
        FaultyRelay(events=[follow(i) for i in range(3)]) as one,
        FaultyRelay(Sketches(hll="0c" * 256), events=[follow(1)]) as liar,
        an_agent(tmp_path, [one.url, liar.url]) as agent,
    ):
        for spec in (SPEC, other):
            await agent.client.add_watch(spec)
            await agent.until(lambda w: w.answered == 2 and w.figure is not None, spec.name)
        before = await agent.client.explain("f")
        shown = await agent.client.explain("f", trusted=liar.url)
        assert excluded_in(before) == {liar.url}
        assert excluded_in(shown) == set()
        assert shown.figure != before.figure
        await agent.client.change_watch("f", msgspec.structs.replace(SPEC, trusted=(liar.url,)))
        kept, others = await agent.client.explain("f"), await agent.client.explain("g")
        assert (kept.figure, excluded_in(kept)) == (shown.figure, set())
        assert (others.figure, excluded_in(others)) == (before.figure, {liar.url})


async def test_trust_of_the_configuration_is_for_every_watch_and_no_watch_takes_it_back(
    tmp_path: Path,
) -> None:
    async with (
        FaultyRelay(events=[follow(i) for i in range(3)]) as one,
        FaultyRelay(Sketches(hll="0c" * 256), events=[follow(1)]) as liar,
    ):
        sections = {"relays": f'trusted = ["{liar.url}"]'}
        async with an_agent(tmp_path, [one.url, liar.url], sections=sections) as agent:
            await agent.client.add_watch(SPEC)
            await agent.until(lambda w: w.answered == 2 and w.figure is not None, "f")
            now = await agent.client.explain("f")
            switched = await agent.client.explain("f", trusted=liar.url)
            assert excluded_in(now) == excluded_in(switched) == set()
            assert now.figure == switched.figure


def excluded_in(counted: CountReport) -> set[str]:
    return {one.relay for one in counted.relays if one.excluded}
