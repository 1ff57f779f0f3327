"""A watch with providers: what they assert stands beside its number, and is no part of it."""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from click.testing import CliRunner

from agent.api.client import ApiError
from agent.config import InvalidConfig, parse
from nostr_client.assertions.report import AssertedStatus
from nostr_client.cli.app import cli
from nostr_client.codecs.event import EventTemplate
from nostr_client.codecs.keys import KeySigner
from nostr_client.watch import Watch
from tests.agent.service.kit import an_agent
from tests.faulty_relay import FaultyRelay
from tests.worlds import TARGET, follow

if TYPE_CHECKING:
    from pathlib import Path

FIRST, SECOND = (KeySigner(bytes([n]) * 32) for n in (2, 3))
AT = int(time.time()) - 4 * 86_400
CARD = FIRST.sign_now(
    EventTemplate(kind=30382, tags=(("d", TARGET), ("followers", "12000")), created_at=AT)
).event


def watch(url: str, *providers: str) -> Watch:
    return Watch(
        name="me",
        query="followers",
        target=TARGET,
        relays=(url,),
        live=False,
        providers=providers,
    )


async def called(*args: str) -> Any:
    return await asyncio.to_thread(CliRunner().invoke, cli, ["watch", *args])


async def test_an_agent_shows_them_beside_the_number(tmp_path: Path) -> None:
    relay = FaultyRelay(events=[CARD, *(follow(n) for n in range(5))])
    async with relay, an_agent(tmp_path) as agent:
        await agent.client.add_watch(watch(relay.url, FIRST.npub, SECOND.npub))
        state = await agent.until(lambda one: bool(one.figure and one.asserted), "me")
        first, second = state.asserted
        assert (first.value, first.counted_at, first.status) == (12_000, AT, "ok")
        assert (second.provider, second.value, second.status) == (SECOND.pubkey, None, "no_card")
        assert state.figure is not None
        assert state.figure.value == 5
        at = ("--api", agent.client.url, "--token-file", str(tmp_path / "token"))
        text = await called("show", "me", *at)
        assert f"provider {FIRST.npub} asserts 12,000, counted 4d ago; relays show 5" in text.stdout
        shown = json.loads((await called("show", "me", "--json", *at)).stdout)
        assert [one["value"] for one in shown["assertions"]] == [12_000, None]
        assert shown["counted"]["figure"]["value"] == 5
        changed = await agent.client.change_watch("me", watch(relay.url, SECOND.npub))
        assert [one.provider for one in changed.asserted] == [SECOND.pubkey]


async def test_one_that_cannot_be_reached_keeps_what_it_last_asserted(tmp_path: Path) -> None:
    relay = FaultyRelay(events=[CARD, follow(1)])
    async with an_agent(tmp_path) as agent:
        async with relay:
            await agent.client.add_watch(watch(relay.url, FIRST.npub))
            await agent.until(lambda one: bool(one.asserted), "me")
        (known,) = (await agent.client.watch("me")).asserted
        lost = msgspec.structs.replace(known, status=AssertedStatus.UNREACHABLE, value=None)
        agent.service.agent.states.show_asserted("me", [lost])
        assert (await agent.client.watch("me")).asserted == (known,)


async def test_a_question_that_no_card_answers_is_refused(tmp_path: Path) -> None:
    filters = msgspec.structs.replace(
        watch("wss://one.example", FIRST.npub), query=None, target="", filters=({"kinds": [1]},)
    )
    async with an_agent(tmp_path) as agent:
        with pytest.raises(ApiError, match="providers assert"):
            await agent.client.add_watch(filters)
    with pytest.raises(InvalidConfig, match="providers"):
        parse(f'[[watches]]\nname = "me"\nquery = "followers"\ntarget = "{TARGET}"\n'
              'providers = ["nobody"]')  # fmt: skip
    done = await called("add", "me", "--kind", "1", "--provider", FIRST.npub)
    assert "providers assert" in str(done.exception)
