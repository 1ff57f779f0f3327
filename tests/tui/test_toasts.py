"""Passing words and dialogs: neither covers the other at any size; a click beside closes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from textual.widgets import Static
from textual.widgets._toast import Toast

from tests.tui import world
from tests.tui.driving import driving
from tests.tui.test_ascii import dialogs
from tui.dialogs.simple import ConfirmDialog

if TYPE_CHECKING:
    from tests.tui.backend import Recorded, Served

SIZES = ((60, 16), (80, 24), (140, 40))
LONG = "something went wrong with a relay that has a long name and says much about it " * 2


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_no_toast_lies_on_a_dialog(
    size: tuple[int, int], api: Served, agent: Recorded
) -> None:
    async with driving(api.api.url, size) as tui:
        tui.app.report(LONG)
        for n, dialog in enumerate(dialogs()):
            await tui.app.push_screen(dialog)
            tui.app.trouble(LONG)
            tui.app.trouble(f"the last one, {n}")
            await tui.settled()
            place = dialog.query_one(".dialog").region
            shown = [one.region for one in dialog.query(Toast) if one.region]
            assert len(shown) == 1
            assert not shown[0].overlaps(place), (dialog, shown, place)
            assert f"the last one, {n}" in tui.text()
            await tui.app.pop_screen()


async def test_toasts_keep_no_key_and_no_click_from_a_question(
    api: Served, agent: Recorded
) -> None:
    async with driving(api.api.url, (80, 24)) as tui:
        for n in range(6):
            tui.app.trouble(f"{n} {LONG}")
        name = world.WATCHES[0].spec.name
        await tui.press("D")
        assert isinstance(tui.app.screen, ConfirmDialog)
        assert "Keep (n)" in tui.text()
        assert "Remove (y)" in tui.text()
        await tui.pilot.click("#no")
        await tui.settled()
        assert not tui.app.screen.is_modal
        await tui.press("D", "y")
        await tui.until(lambda: name not in agent.watch_map)


@pytest.mark.parametrize("key", ["question_mark", "d", "w", "a", "D", "colon"])
async def test_a_click_beside_a_dialog_closes_it_and_does_nothing(
    key: str, api: Served, agent: Recorded
) -> None:
    async with driving(api.api.url, (80, 30)) as tui:
        await tui.press(key)
        assert tui.app.screen.is_modal
        await tui.pilot.click(offset=(0, 29))
        await tui.until(lambda: not tui.app.screen.is_modal)
        await tui.settled()
    assert agent.asked == []


async def test_a_toast_that_passed_by_or_was_cut_is_read_again(
    api: Served, agent: Recorded
) -> None:
    async with driving(api.api.url, (80, 24)) as tui:
        await tui.press("m")
        assert "No message has passed by yet." in tui.text()
        tui.app.trouble(LONG)
        await tui.press("escape", "m")
        assert LONG.strip() in str(
            tui.app.screen.query_one("VerticalScroll Static", Static).content
        )
