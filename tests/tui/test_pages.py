"""Every page as it looks, small and large, and what has to stand there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pytest_textual_snapshot import SVGImageExtension

from tests.tui import world
from tests.tui.driving import ALL_SIZES, SIZES, driving

if TYPE_CHECKING:
    from syrupy import SnapshotAssertion

    from tests.tui.backend import Recorded, Served

BOTH = pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")


@pytest.fixture
def svg(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    return snapshot.use_extension(SVGImageExtension)


PAGES = {
    "overview": (
        (),
        (
            "launch-reactions",
            "1,287",
            "≈ 184,312",
            "≥ 58",
            "5/6",
            "in 22h",
            "Alerts",
            "People: fiatjaf",
        ),
    ),
    "watch": (("enter",), ("fiatjaf-followers", "±3%", "178,598–190,025", "excluded", "✓ events")),
    "why": (
        ("enter", "enter"),
        ("Without it: ", "[x: exclude it]", "The number of this watch", "Used: registers, count"),
    ),
    "why not": (
        ("enter", "G", "k", "k", "enter"),
        ("the registers are of a shape that no people make", "Excluded from the number"),
    ),
    "overlap": (
        ("enter", "o"),
        ("▇ ≈87%", "▂  20%", "▁ 0–9%", "?", "liar.example.net", "≈ 5,375", "83–93%"),
    ),
    "overlap, read": (
        ("enter", "o", "down", "down", "enter"),
        ("wss://nos.lol: ≈ 754 on both", "(95 %:", "20% of all on either (exact)"),
    ),
    "overlap, why not": (("enter", "o", "G", "k"), ("not compared: it returns only a number",)),
    "people": (("enter", "p"), ("Ada (npub1", "no longer seen", "about 171,912")),
    "person": (
        ("enter", "p", "j", "enter"),
        ("names 3 keys, 800 before", world.NPUB[:30]),
    ),
    "digest": (("d",), ("What changed within a day", "about 612 new (301 to 1,104)")),
    "digest, its end": (
        ("d", *["j"] * 16),
        (
            "1 watch: launch-reactions (up to 41 may be new unseen)",
            "mine: wss://relay.primal.net has 60.0 %, below 95.0 %",
        ),
    ),
    "warnings": (("w",), ("left out of the number", "gone.example.org fails: connection refused")),
    "panels": (("P",), ("Alerts and warnings", "Space switches one")),
    "groups": (("o", "f", "home"), (f"the group {world.NPUB}",)),
    "relay": (("2", "enter"), ("gone.example.org", "Status: disconnected")),
    "relays": (("2", "down", "down"), ("nos.lol (trusted)", "2310 ms", "COUNT", "strfry")),
    "syncs": (("3",), ("mine", "running", "2,480", "unsupported", "62m ago", "never")),
    "counters": (("4",), ("events.1", "52,113", "1.000e40", "1 other stream (n)")),
    "coverage": (
        ("v",),
        ("mine", "1,162", "60%", "4/6", "partial", "█ 100%", "▅  60%", "≥12%", "?", "k30023"),
    ),
    "log": (("5",), ("no_answer", "alert_given_up", "following", "\\x1b[31mred\\x07")),
    "reindex": (("b",), ("running", "by spark", "registers", "12,000,000", "generation 3")),
    "help": (
        ("question_mark",),
        ("watch show", "See one watch: history,", "type to search", "yellow"),
    ),
    "palette": (("colon",), (":watch add [TARGET]  (a)", "as: count followers npub1…")),
    "add": (("a",), ("Watch something", "npub, name@domain, nprofile")),
    "sure": (("D",), ("Remove the watch fiatjaf-followers and its history?", "Keep (n)")),
    "ask": (("c",), ("Count once", "query and target")),
}


@pytest.mark.parametrize("page", PAGES)
async def test_pages(page: str, api: Served, agent: Recorded, svg: SnapshotAssertion) -> None:
    """In each size, as a terminal that is made larger shows it."""
    keys, told = PAGES[page]
    async with driving(api.api.url, ALL_SIZES[0], toasts=False) as tui:
        await tui.press(*keys)
        for width, height in ALL_SIZES:
            await tui.pilot.resize_terminal(width, height)
            await tui.until(lambda size=(width, height): tui.app.size == size)
            await tui.settled()
            picture, text = await tui.picture(), tui.text()
            for words in told:
                assert words in text, text
            assert picture == svg(name=f"{width}x{height}")


@BOTH
async def test_a_result(
    size: tuple[int, int], api: Served, agent: Recorded, svg: SnapshotAssertion
) -> None:
    async with driving(api.api.url, size, toasts=False) as tui:
        await tui.press("colon")
        await tui.type(f"count followers {world.NPUB}")
        await tui.until(lambda: ":count followers" in tui.text())
        await tui.press("enter")
        await tui.until(lambda: "distinct authors" in tui.text())
        picture, text = await tui.picture(), tui.text()
    assert agent.asked == [("count", "followers")]
    assert "≈ 184,312 distinct authors (178,598–190,025)" in text
    assert "liar.example.net" in text
    assert picture == svg


@BOTH
async def test_no_agent_no_watches_and_no_match(
    size: tuple[int, int], api: Served, agent: Recorded, svg: SnapshotAssertion
) -> None:
    api.do(agent.watch_map.clear)
    async with driving(api.api.url, size, toasts=False) as tui:
        assert "No watches yet." in tui.text()
        assert "Press a to add one" in tui.text()
        assert await tui.picture() == svg(name="no watches")
        await tui.press("2", "slash")
        await tui.type("nothing like it")
        assert "Nothing matches “nothing like it”" in tui.text()
        assert await tui.picture() == svg(name="no match")
