"""Links of counters below the counters: shown where there are some, the troubled ones first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.api.schema import CounterLink
from tests.tui.driving import driving
from tui.pages import link_lines

if TYPE_CHECKING:
    from tests.tui.backend import Recorded, Served

ES = CounterLink(
    name="es",
    direction="in",
    via="agent",
    stream="count",
    peer="http://es.example:4870 app",
    state="ok",
    last_subject="count.es.hits",
    last_value="1234567",
    gaps=2,
)
FR = CounterLink(
    name="fr",
    direction="in",
    via="nostr",
    stream="count",
    peer="npub1… app",
    state="stopped",
    why="its store went backwards",
    confirmable=True,
    lag=70.0,
)


def test_lines_show_trouble_first_and_are_bounded() -> None:
    first, second = link_lines.lines([ES, FR])
    assert first.startswith("stopped fr: count from npub1… app   70 s behind")
    assert first.endswith("its store went backwards   nostr-client counter link confirm fr")
    assert second == (
        "ok      es: count from http://es.example:4870 app   count.es.hits=1,234,567   2 gaps"
    )
    assert link_lines.lines([ES, FR], 1)[1:] == ["1 more: nostr-client counter link list"]
    assert link_lines.lines([]) == []


async def test_links_are_shown_as_the_agent_tells_of_them(api: Served, agent: Recorded) -> None:
    async with driving(api.api.url) as tui:
        await tui.press("4")
        assert not tui.app.screen.query_one("#links").display
        api.do(lambda: agent.feed.publish(link=ES))
        await tui.until(lambda: "http://es.example:4870" in tui.text())
        api.do(lambda: agent.feed.publish(link=FR))
        await tui.until(lambda: "confirm fr" in tui.text())
        api.do(lambda: agent.feed.publish(removed_link="es"))
        await tui.until(lambda: "es.example" not in tui.text())
        assert "its store went backwards" in tui.text()
