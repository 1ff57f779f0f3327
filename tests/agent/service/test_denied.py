"""A watch that names a relay of `relays.denied` says so, wherever its relays are shown."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from nostr_client.cli.app import run
from nostr_client.watch.definition import Watch
from nostr_client.watch.state import DENIED, NO_RELAY
from tests.agent.service.kit import an_agent
from tests.faulty_relay import FaultyRelay
from tests.worlds import NOTE, reaction

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

HIDDEN = "wss://denied.example"
SECTIONS = {"relays": f'denied = ["{HIDDEN}"]'}


def watch(*relays: str) -> Watch:
    return Watch(name="w", query="reactions", target=NOTE, relays=relays)


async def test_a_denied_relay_of_a_watch_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with (
        FaultyRelay(events=[reaction(i) for i in range(3)]) as relay,
        an_agent(tmp_path, sections=SECTIONS) as agent,
    ):
        added = await agent.client.add_watch(watch(relay.url, HIDDEN))
        assert added.warnings == (f"{HIDDEN}: {DENIED}",)
        seen = await agent.until(lambda one: one.figure is not None, "w")
        assert (seen.asked, seen.answered, seen.failing) == (2, 1, ())
        assert [text for text in seen.warnings if DENIED in text] == [f"{HIDDEN}: {DENIED}"]
        told = {one.relay: one for one in (await agent.client.explain("w")).relays}
        assert (told[HIDDEN].status, told[HIDDEN].reasons) == ("held_back", (DENIED,))
        assert seen.figure == (await agent.client.explain("w")).figure
        show = ["watch", "show", "w", "--store", str(tmp_path / "store.db")]
        assert await asyncio.to_thread(run, show) == 0
        assert DENIED in " ".join(capsys.readouterr().out.split())


async def test_a_watch_of_denied_relays_alone_says_why_it_asks_nobody(tmp_path: Path) -> None:
    async with an_agent(tmp_path, sections=SECTIONS) as agent:
        await agent.client.add_watch(watch(HIDDEN))
        seen = await agent.client.watch("w")
        assert seen.warnings[:2] == (NO_RELAY, f"{HIDDEN}: {DENIED}")
        assert (seen.asked, seen.answered) == (1, 0)
        (told,) = (await agent.client.explain("w")).relays
        assert (told.relay, told.reasons) == (HIDDEN, (DENIED,))
