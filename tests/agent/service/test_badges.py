"""Badges of watches: who may see which, what they say, and what they cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import aiohttp
import pytest

from agent.api.badge import shields, svg
from agent.api.schema import WatchState
from agent.api.server import BADGES_PER_SECOND
from nostr_client.count.merge import Figure
from nostr_client.watch.definition import Watch
from tests.agent.service.kit import an_agent
from tests.agent.states import watch_state
from tests.conftest import require_tool
from tests.faulty_relay import FaultyRelay
from tests.tui.chromium import browsing
from tests.worlds import TARGET, follow

if TYPE_CHECKING:
    from pathlib import Path

TWO = f"""
[[watches]]
name = "shown"
query = "followers"
target = "{TARGET}"
[[watches]]
name = "hidden"
query = "followers"
target = "{TARGET}"
"""
SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize(
    ("figure", "words"),
    [
        (None, "not known"),
        (Figure.exactly(1_234), "1,234"),
        (Figure.at_least(1_234), "at least 1,234"),
        (Figure(value=1_200, low=1_100, high=1_300), "about 1,200 (1,100 to 1,300)"),
    ],
)
def test_a_badge_says_how_sure_its_number_is(figure: Figure | None, words: str) -> None:
    shown = ElementTree.fromstring(svg(watch_state(figure)))
    assert [one.text for one in shown.iter(f"{SVG}text")] == ["followers", words]
    endpoint = shields(watch_state(figure))
    assert (endpoint["schemaVersion"], endpoint["label"], endpoint["message"]) == (
        1,
        "followers",
        words,
    )
    assert endpoint["isError"] == (figure is None)


def test_texts_are_escaped() -> None:
    spec = Watch(name="a", filters=({"kinds": [1]},))
    odd = WatchState(spec=spec, origin="api", figure=None)
    assert ElementTree.fromstring(svg(odd)).findtext(f"{SVG}title") == "a: not known"


async def test_anybody_sees_the_badges_that_the_configuration_names_and_no_other(
    tmp_path: Path,
) -> None:
    async with (
        FaultyRelay(events=[follow(i) for i in range(7)]) as relay,
        an_agent(tmp_path, [relay.url], TWO, sections={"api": 'badges = ["shown"]'}) as agent,
        aiohttp.ClientSession(agent.service.api.url) as session,
    ):
        await agent.until(lambda w: w.answered == 1, "shown")

        async def get(path: str, **headers: str) -> tuple[int, str, Any]:
            async with session.get(path, headers=headers) as answer:
                return answer.status, answer.headers["Cache-Control"], await answer.text()

        status, cached, text = await get("/badge/shown.svg")
        assert (status, "max-age" in cached, ">7</text>" in text) == (200, True, True)
        assert (await get("/badge/shown.json"))[0] == 200
        assert (await get("/badge/hidden.svg"))[0] == 401
        assert (await get("/badge/none.svg"))[0] == 401
        assert (await get("/v1/watches/shown"))[0] == 401
        token = f"Bearer {agent.service.token}"
        status, cached, _ = await get("/badge/hidden.svg", Authorization=token)
        assert (status, cached) == (200, "no-store")
        many = [(await get("/badge/shown.svg"))[0] for _ in range(3 * int(BADGES_PER_SECOND))]
        assert set(many) <= {200, 429}


async def test_a_browser_shows_the_badge_on_a_page_of_another_origin(tmp_path: Path) -> None:
    require_tool("chromium")
    async with (
        FaultyRelay(events=[follow(i) for i in range(7)]) as relay,
        an_agent(tmp_path, [relay.url], TWO, sections={"api": 'badges = ["shown"]'}) as agent,
    ):
        await agent.until(lambda w: w.answered == 1, "shown")
        place = f"{agent.service.api.url}/badge"
        page = tmp_path / "page.html"
        tags = (f'<img id="{name}" src="{place}/{name}.svg">' for name in ("shown", "hidden"))
        page.write_text(f"<!doctype html><title>badge</title>{''.join(tags)}")
        async with browsing(tmp_path, page.as_uri()) as seen:
            await seen.until("document.readyState == 'complete' && document.images.length == 2")
            width = "document.getElementById('{}').naturalWidth"
            assert await seen.evaluate(width.format("shown")) > 50
            assert await seen.evaluate(width.format("hidden")) == 0
