"""Without an agent: paste, choose, start, and an agent is brought that counts it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.events import Paste

from nostr_client.errors import NetworkError
from tests.tui import world
from tests.tui.backend import TOKEN
from tests.tui.driving import driving
from tui.link import StartedAgent

if TYPE_CHECKING:
    from tests.tui.backend import Recorded, Served


def nowhere() -> tuple[str, str]:
    raise NetworkError("no agent is running; start it with: nostr-agent run")


async def test_two_keys_beside_the_paste_start_an_agent_and_a_watch(
    api: Served, agent: Recorded
) -> None:
    started: list[str] = []

    async def own_agent() -> object:
        started.append("agent")
        return StartedAgent(lambda: (api.api.url, TOKEN), lambda: ["it listens on port 5"])

    async with driving(nowhere, (80, 24), live=False, own_agent=own_agent) as tui:
        await tui.until(lambda: "No agent is running." in tui.text())
        assert "Paste an npub" in tui.text()
        tui.app.post_message(Paste(f"nostr:{world.NPUB}"))
        await tui.until(lambda: "person: what to count?" in tui.text())
        await tui.settled()
        await tui.pilot.press("enter", "enter")
        await tui.until(lambda: ("add_watch", "followers-npub-0uf63m") in agent.asked)
        await tui.until(lambda: len(tui.app.screen_stack) == 1)
        await tui.until(lambda: "followers-npub-0uf63m" in tui.grid("#watches").keys)
        assert [text.split(" ", 1)[1] for text in tui.app.messages if "port 5" in text] == [
            "it listens on port 5"
        ]
    assert started == ["agent"]


async def test_a_name_at_a_domain_is_watched_by_its_key(api: Served, agent: Recorded) -> None:
    async with driving(api.api.url, (80, 24)) as tui:
        tui.app.post_message(Paste("Ada@Example.com"))
        await tui.until(lambda: "name: what to count?" in tui.text())
        await tui.settled()
        await tui.pilot.press("enter", "enter")
        await tui.until(lambda: ("add_watch", "followers-ada-example.com") in agent.asked)
    assert agent.watch_map["followers-ada-example.com"].spec.target == world.PUBKEY


async def test_a_name_that_its_domain_does_not_know_is_reported_in_the_form(
    api: Served, agent: Recorded
) -> None:
    async with driving(api.api.url, (80, 24)) as tui:
        await tui.press("a")
        await tui.type("eve@example.com")
        await tui.pilot.press("enter", "enter")
        await tui.until(lambda: "does not know the name" in tui.text())
        assert len(tui.app.screen_stack) == 2
    assert all(what != "add_watch" for what, _ in agent.asked)


async def test_an_agent_that_does_not_start_is_reported_in_the_form() -> None:
    async def own_agent() -> object:
        raise NetworkError("the agent has ended: the store is locked")

    async with driving(nowhere, (80, 24), live=False, own_agent=own_agent) as tui:
        await tui.press("a")
        await tui.type(world.NPUB)
        await tui.pilot.press("enter", "enter")
        await tui.until(lambda: "the store is locked" in tui.text())
        assert len(tui.app.screen_stack) == 2


async def test_nobody_is_offered_what_cannot_be_done() -> None:
    async with driving(nowhere, (80, 24), live=False) as tui:
        await tui.until(lambda: "Looking for the agent." in tui.text())
        assert "Paste an npub" not in tui.text()
