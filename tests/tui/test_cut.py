"""No text of a page or a dialog is cut without a way to read it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from textual.widgets import Static

from nostr_client.count.figures import Within
from tests.tui import world
from tests.tui.cut import cut_cells, cut_statics, is_seen
from tests.tui.driving import driving
from tests.tui.test_pages import PAGES
from tui.actions import ACTIONS
from tui.dialogs.add import AddWatch
from tui.dialogs.choose import ChooseSeveral
from tui.dialogs.counted import CountDialog
from tui.dialogs.help import Help
from tui.dialogs.simple import Ask, ConfirmDialog, Inform
from tui.glyphs import UNICODE
from tui.widgets.grid import Grid

if TYPE_CHECKING:
    from collections.abc import Iterator

    from textual.screen import Screen

    from tests.tui.backend import Recorded, Served
    from tests.tui.driving import Driver

SIZES = ((80, 24), (100, 30))
EVERY = pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
LONG = "a relay with a long name says much about what went wrong " * 5
NAME = "followers-of-a-person-with-a-long-name-at-a-domain-example-com"

SUMMARIES = {"panel-people", "panel-alerts", "panel-relays", "panel-syncs", "panel-counters"}
"""Panels of the first page end in "and N more"; the pages of what they are about show all."""


async def nothing(_: object) -> None:
    """Nothing is to be done here."""


def renamed(agent: Recorded) -> None:
    """The first watch has a long name, and each fact that a watch may have."""
    one = agent.watch_map.pop("fiatjaf-followers")
    spec = msgspec.structs.replace(one.spec, name=NAME)
    near = Within(
        key=world.PUBKEY,
        depth=2,
        people=5_000_000,
        followed=800,
        lists=790,
        figure=world.estimate(1_234_567, 0.03),
        at=int(world.NOW),
    )
    agent.watch_map = {
        NAME: msgspec.structs.replace(
            one, spec=spec, within=near, since=world.NOW - 7200, warnings=(LONG, LONG)
        ),
        **agent.watch_map,
    }


@EVERY
@pytest.mark.parametrize("page", PAGES)
async def test_every_text_of_a_page_has_room_or_is_read_by_enter(
    page: str, size: tuple[int, int], api: Served, agent: Recorded
) -> None:
    renamed(agent)
    async with driving(api.api.url, size, toasts=False) as tui:
        await tui.press(*PAGES[page][0])
        found = [one for one in cut_statics(tui.app.screen) if one.where[7:] not in SUMMARIES]
        assert not found, tui.text()
        await read_by_enter(tui)


async def read_by_enter(tui: Driver) -> None:
    """Of every column a row with a cut cell says all of it, once Enter is pressed on the row."""
    found = {one.where: (grid, one) for grid, one in cut_cells(tui.app.screen)}
    for grid, one in found.values():
        before = tui.app.screen
        tui.app.screen.set_focus(grid)
        grid.point(one.key)
        await tui.settled()
        if said(tui, one.text):  # the page says it elsewhere, as for the group under the cursor
            continue
        await tui.press("enter")
        assert said(tui, one.text), (one, tui.text())
        await tui.press("escape")
        await tui.until(lambda before=before: tui.app.screen is before)


def said(tui: Driver, text: str) -> bool:
    """Whether the screen in front says all words of a cell, if need be after scrolling."""
    shown = "\n".join(str(one.content) for one in tui.app.screen.query(Static) if is_seen(one))
    return all(word in shown for word in re.findall(r"[\w./:-]{2,}", text))


def dialogs() -> Iterator[Screen[Any]]:
    told = world.counted("followers", world.estimate(184_312, 0.031))
    yield AddWatch(nothing, world.NPUB)
    yield AddWatch(nothing, LONG)
    yield Ask(LONG, LONG, nothing, said=LONG)
    yield CountDialog(msgspec.structs.replace(told, target=world.NPUB * 2), UNICODE)
    yield Help(ACTIONS, "overview")
    yield Inform(LONG, LONG * 9)
    yield ConfirmDialog(LONG, "Remove")
    yield ChooseSeveral(LONG, [("one", "first"), ("two", "second")], ["one"])


@EVERY
async def test_every_text_of_a_dialog_has_room_or_is_read_by_enter(
    size: tuple[int, int], api: Served, agent: Recorded
) -> None:
    async with driving(api.api.url, size, toasts=False) as tui:
        for dialog in dialogs():
            await tui.app.push_screen(dialog)
            await tui.settled()
            assert not list(cut_statics(dialog)), (dialog, tui.text())
            await read_by_enter(tui)
            await tui.app.pop_screen()


@EVERY
async def test_every_title_of_a_column_has_room_and_its_sign(
    size: tuple[int, int], api: Served, agent: Recorded
) -> None:
    async with driving(api.api.url, size, toasts=False) as tui:
        for key in ("1", "2", "3", "4", "5", "v"):
            await tui.press(key)
            for grid in filter(is_seen, tui.app.screen.query(Grid)):
                for column, _, width in grid.placed():
                    assert len(column.title) <= width, (grid.id, column)
                    grid.marked, grid.falls = column.key, True
                    assert UNICODE.down in grid.render_line(0).text, (grid.id, column)
