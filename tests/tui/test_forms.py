"""Forms stay, with what was typed, until it is right: what is wrong is said in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from textual.color import Color
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from agent.api.schema import ApiRefusal
from tests.tui import world
from tests.tui.driving import SIZES, Driver, driving
from tui.dialogs.simple import Form

if TYPE_CHECKING:
    from tests.tui.backend import Recorded, Served

BOTH = pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
NO = "this is not to be"
FORMS = {
    "sync, by itself": ("3", "a", 'dms {"kinds":[', "a name and a filter are needed", None),
    "sync, a wrong name": ("3", "a", '-/x {"kinds":[1]}', "a name and a filter are needed", None),
    "sync, by the agent": ("3", "a", 'dms {"kinds":[4]}', NO, "add_sync"),
    "counter, by itself": ("4", "plus", "x many", "a whole number are needed", None),
    "counter, by the agent": ("4", "plus", "5", NO, "add"),
    "subjects, by the agent": ("4", "w", "app..x", NO, "counters"),
    "count, by itself": ("1", "c", "fans npub1x", "the query is one of", None),
    "count, a quote": ("1", "c", "followers 'npub1x", "a query and a target are needed", None),
    "count, by the agent": ("1", "c", f"followers {world.NPUB}", NO, "count"),
    "watch, by the agent": ("1", "a", world.NPUB, NO, "add_watch"),
}


def refuse(agent: Recorded, monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    """From now on the agent does not do this."""

    async def refused(*_: object, **__: object) -> None:
        raise ApiRefusal(400, "bad", NO)

    monkeypatch.setattr(agent, method, refused)


def typed(tui: Driver) -> str:
    return tui.app.screen.query(Input).first(Input).value


async def submit(tui: Driver) -> None:
    """Enter, in a form of several parts as often as it has parts; a page takes none of them."""
    await tui.press("enter")
    if isinstance(tui.app.screen, Form) and not isinstance(tui.app.focused, Input):
        await tui.press("enter")


@BOTH
@pytest.mark.parametrize("form", FORMS)
async def test_a_form_stays_with_what_was_typed_and_says_what_is_wrong(
    form: str, size: tuple[int, int], api: Served, agent: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    page, key, text, told, method = FORMS[form]
    async with driving(api.api.url, size) as tui:
        await tui.press(page, key)
        await tui.type(text)
        held = typed(tui)
        if method:
            refuse(agent, monkeypatch, method)
        await submit(tui)
        assert isinstance(tui.app.screen, ModalScreen), tui.text()
        assert typed(tui) == held
        what = tui.app.screen.query_one("#what", Static)
        assert what.has_class("-bad")
        assert what.styles.color == Color.parse(tui.app.theme_variables["text-error"])
        assert told in str(what.content)
        assert told.split(" ", maxsplit=1)[0] in tui.text()
        if method:
            monkeypatch.undo()
            await submit(tui)
            await tui.until(lambda: not tui.app.screen.is_modal or "(178,598" in tui.text())
        await tui.press("escape")
        assert not tui.app.screen.is_modal


async def test_a_command_that_is_wrong_is_a_form_to_mend_it(api: Served, agent: Recorded) -> None:
    async with driving(api.api.url) as tui:
        tui.app.do("sync add", ["dms", '{"kinds":['])
        await tui.until(lambda: "a name and a filter are needed" in tui.text())
        await tui.settled()
        assert typed(tui) == 'dms {"kinds":['
        await tui.type("4]}")
        assert not tui.static("#what")
        await tui.press("enter")
        await tui.until(lambda: "dms" in tui.grid("#syncs").keys)
    assert agent.asked == [("add_sync", "dms")]


async def test_subjects_that_are_wrong_leave_rows_and_heading_as_they_were(
    api: Served, agent: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows and what the heading calls them change together, or not at all."""
    async with driving(api.api.url) as tui:
        await tui.press("4")
        shown = tui.grid("#subjects").keys
        refuse(agent, monkeypatch, "counters")
        await tui.press("w")
        await tui.type("x")
        await tui.press("enter")
        assert tui.static("#what") == NO
        await tui.press("escape")
        assert "subjects >  " in tui.static("#stream")
        await tui.press("n")
        assert NO in tui.text()
        assert "stream INGEST" in tui.static("#stream")
        assert tui.grid("#subjects").keys == shown
        monkeypatch.undo()
        await tui.press("n")
        assert "stream VOTES" in tui.static("#stream")
        assert tui.grid("#subjects").keys == ["votes.yes"]


async def test_subjects_chosen_while_others_are_asked_for_stay(
    api: Served, agent: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer about what was shown before does not bring it back."""
    async with driving(api.api.url) as tui:
        await tui.press("4")
        page, ask = tui.app.counters_page, tui.app.ask

        async def late(question: Any) -> Any:
            found = await ask(question)
            monkeypatch.undo()
            await page.choose(pattern="events.*")
            return found

        monkeypatch.setattr(tui.app, "ask", late)
        await page._load("INGEST", ">")
        assert page.pattern == "events.*"
        assert len(tui.grid("#subjects").keys) == 3
