"""The page of a watch keeps its people current, and says for which watches a relay is trusted."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import msgspec
import pytest

from agent.api import schema
from tests.tui import world
from tests.tui.driving import SIZES, Driver, driving
from tui.pages import watch, watched

if TYPE_CHECKING:
    from tests.tui.backend import Recorded, Served

NAME = "fiatjaf-followers"
NOBODY = schema.People(since=0, people=())
FOUND = world.PEOPLE


class Asked:
    """Counts how often the people of a watch are asked for."""

    def __init__(self, agent: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
        self.times, self._agent, self._moved = 0, agent, 0
        self._people = agent.people
        monkeypatch.setattr(agent, "people", self.people)

    async def people(self, name: str, since: float = 0.0, limit: int = 200) -> schema.People:
        self.times += name == NAME
        return await self._people(name, since, limit)

    def merge(self) -> None:
        """The agent has counted the watch again, after a round or a live event."""
        self._moved += 1
        one = self._agent.watch_map[NAME]
        self._agent.feed_later(msgspec.structs.replace(one, updated_at=world.NOW + self._moved))


async def people_page(tui: Driver) -> None:
    await tui.press("enter", "p")
    await tui.until(lambda: tui.app.page_name == "watch")
    await tui.settled()


async def test_people_are_read_again_when_the_watch_is_counted_again(
    api: Served, agent: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "LOOK_AGAIN_S", math.inf)
    monkeypatch.setattr(world, "PEOPLE", NOBODY)
    asked = Asked(agent, monkeypatch)
    async with driving(api.api.url) as tui:
        await people_page(tui)
        assert "Ada" not in tui.text()
        monkeypatch.setattr(world, "PEOPLE", FOUND)
        asked.merge()
        await tui.until(lambda: "Ada" in tui.text())


async def test_people_and_names_that_come_after_the_number_are_shown(
    api: Served, agent: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "LOOK_AGAIN_S", 0.0)
    monkeypatch.setattr(world, "PEOPLE", NOBODY)
    async with driving(api.api.url) as tui:
        await people_page(tui)
        monkeypatch.setattr(world, "PEOPLE", FOUND)
        await tui.until(lambda: "Ada" in tui.text())


async def test_a_flood_of_events_asks_for_people_once_a_tick(
    api: Served, agent: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "LOOK_AGAIN_S", math.inf)
    monkeypatch.setattr(watched, "LOOK_EVERY_S", math.inf)
    asked = Asked(agent, monkeypatch)
    async with driving(api.api.url) as tui:
        await people_page(tui)
        before = asked.times
        for _ in range(30):
            asked.merge()
        newest = world.NOW + 30
        await tui.until(lambda: tui.app.model.watches[NAME].updated_at == newest)
        await tui.settled()
        assert asked.times == before
        monkeypatch.setattr(watched, "LOOK_EVERY_S", 0.0)
        tui.app.page.tick()
        await tui.until(lambda: asked.times > before)
        await tui.settled()
        assert asked.times == before + 1


async def relay_of(tui: Driver, url: str) -> None:
    await tui.press("enter")
    await tui.until(lambda: tui.app.page_name == "watch" and url in tui.grid("#claims").keys)
    tui.grid("#claims").point(url)
    await tui.press("enter")
    await tui.until(lambda: "What the merge did with it" in tui.text())


@pytest.mark.parametrize("size", SIZES)
async def test_a_relay_is_trusted_for_this_watch_and_the_dialogue_says_so(
    size: tuple[int, int], api: Served, agent: Recorded
) -> None:
    others = {name: one.spec for name, one in agent.watch_map.items() if name != NAME}
    async with driving(api.api.url, size) as tui:
        await relay_of(tui, world.DAMUS)
        await tui.until(lambda: "[t: trust it for this watch]" in _plain(tui))
        assert "The number of this watch" in _plain(tui)
        await tui.press("t")
        await tui.until(lambda: agent.watch_map[NAME].spec.trusted == (world.DAMUS,))
        await tui.until(lambda: f"believing {world.DAMUS} for {NAME}" in _said(tui))
        await relay_of_open(tui, world.DAMUS)
        assert "you trust this relay for this watch." in _plain(tui)
        assert "[t: test it for this watch]" in _plain(tui)
    assert {name: one.spec for name, one in agent.watch_map.items() if name != NAME} == others


async def test_of_a_relay_that_is_trusted_for_every_watch_no_effect_is_shown(
    api: Served, agent: Recorded
) -> None:
    assert next(one for one in world.RELAYS if one.url == world.NOS).trusted
    async with driving(api.api.url) as tui:
        await relay_of(tui, world.NOS)
        assert "Trusted for every watch, by relays.trusted" in _plain(tui)
        assert "you trust this relay for every watch." in _plain(tui)
        assert "[t:" not in tui.text()
        await tui.press("t")
        assert "What the merge did with it" in tui.text()
        assert agent.asked == []
        await tui.press("escape", "t")  # the key of the page keeps it for this watch too
        told = f"believing {world.NOS} for {NAME}: it is trusted for every watch"
        await tui.until(lambda: told in _said(tui))


async def relay_of_open(tui: Driver, url: str) -> None:
    tui.grid("#claims").point(url)
    await tui.press("enter")
    await tui.until(lambda: "What the merge did with it" in tui.text())


def _plain(tui: Driver) -> str:
    """The dialogue's text: lines that a small screen wraps are one."""
    return " ".join(str(one.content) for one in tui.app.screen.query("ReasonText Static"))


def _said(tui: Driver) -> str:
    return "\n".join(one.message for one in tui.app._notifications)
