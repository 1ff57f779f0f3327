"""With --ascii nothing but ASCII is drawn, whichever widget draws it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from rich.cells import cell_len
from textual.screen import ModalScreen
from textual.widgets import (
    Checkbox,
    DataTable,
    Input,
    ProgressBar,
    RadioButton,
    Rule,
    Select,
    Sparkline,
    Tree,
)

from tests.tui import world
from tests.tui.driving import SIZES, Driver, driving
from tui.actions import ACTIONS
from tui.dialogs.add import AddWatch
from tui.dialogs.choose import ChooseSeveral
from tui.dialogs.counted import CountDialog
from tui.dialogs.help import Help
from tui.dialogs.simple import Ask, ConfirmDialog, Inform
from tui.glyphs import ASCII
from tui.themes import TABLE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from textual.app import ComposeResult
    from textual.screen import Screen

    from tests.tui.backend import Recorded, Served

BOTH = pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
PAGES = (
    "overview", "watch", "overlap", "relays", "syncs", "counters", "coverage", "log", "reindex"
)  # fmt: skip
LONG = "a long text that needs lines of its own " * 30


async def nothing(_: object) -> None:
    """Nothing is to be done here."""


def dialogs() -> Iterator[Screen[Any]]:
    yield AddWatch(nothing, world.NPUB)
    yield Ask("Title", "hint…", nothing, said="wrong")
    yield CountDialog(world.counted("followers", world.estimate(184_312, 0.031)), ASCII)
    yield Help(ACTIONS, "overview")
    yield Inform("Title", LONG)
    yield ConfirmDialog("Really?", "Yes")
    yield ChooseSeveral("Title", [("one", "first"), ("two", "second")], ["one"])


class Everything(ModalScreen[None]):
    """Widgets that Textual brings, whether we have them today or not."""

    def compose(self) -> ComposeResult:
        yield Input("typed", placeholder="…")
        yield Select([(f"choice {n}", n) for n in range(40)], id="select")
        yield Checkbox("box", value=True)
        yield RadioButton("button", value=True)
        yield ProgressBar(total=10)
        yield Sparkline([1, 2, 3, 9])
        yield Rule(line_style="double")
        table: DataTable[str] = DataTable(zebra_stripes=True)
        yield table
        tree: Tree[None] = Tree("root")
        tree.root.add("branch", expand=True).add_leaf("leaf")
        tree.root.expand()
        yield tree

    def on_mount(self) -> None:
        self.query_one(DataTable).add_columns("one", "two")
        for n in range(60):
            self.query_one(DataTable).add_row(str(n), LONG)


def check(tui: Driver, where: str) -> None:
    strange = {one for one in tui.text() if ord(one) > 126}
    assert not strange, (where, strange, tui.text())


@BOTH
async def test_every_page_with_a_toast(size: tuple[int, int], api: Served, agent: Recorded) -> None:
    async with driving(api.api.url, size, ascii_only=True) as tui:
        tui.app.report("a toast")
        tui.app.trouble("a wrong one")
        for page in PAGES:
            await tui.go(page)
            check(tui, page)
            tui.app.page.find("nothing like it")
            await tui.settled()
            check(tui, f"{page}, no match")


@BOTH
async def test_every_dialog_the_palette_and_the_themes(
    size: tuple[int, int], api: Served, agent: Recorded
) -> None:
    async with driving(api.api.url, size, ascii_only=True) as tui:
        for dialog in dialogs():
            await tui.app.push_screen(dialog)
            tui.app.trouble("a wrong one")
            await tui.settled()
            check(tui, type(dialog).__name__)
            await tui.app.pop_screen()
        for key in ("colon", "T"):
            await tui.press(key)
            await tui.until(lambda: tui.app.screen.is_modal and "tally" in tui.text())
            await tui.settled()
            check(tui, key)
            await tui.press("escape")


@BOTH
async def test_every_widget_of_textual(size: tuple[int, int], api: Served, agent: Recorded) -> None:
    async with driving(api.api.url, size, ascii_only=True) as tui:
        await tui.app.push_screen(Everything())
        await tui.settled()
        check(tui, "all")
        tui.app.screen.query_one(Select).action_show_overlay()
        await tui.until(lambda: "choice 3" in tui.text())
        check(tui, "select")


async def test_what_people_wrote_keeps_its_letters(api: Served, agent: Recorded) -> None:
    said = "Grüße-日本"
    agent.relay_list = (msgspec.structs.replace(world.RELAYS[0], last_error=said),)
    async with driving(api.api.url, ascii_only=True) as tui:
        await tui.press("2")
        assert said in tui.text()
        assert {one for one in tui.text() if ord(one) > 126} == set("üß日本")


def test_every_stand_in_is_as_wide_as_its_sign() -> None:
    for sign, plain in TABLE.items():
        assert plain.isascii()
        assert cell_len(chr(sign)) == cell_len(plain) == 1, chr(sign)
