"""Every text can be read: its contrast in each theme, and its meaning without any colour."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from textual.app import App
from textual.color import Color
from textual.theme import BUILTIN_THEMES, Theme

import tui
from tests.tui.driving import driving
from tui.contrast import GROUNDS, INKS, LEAST, contrast, legible
from tui.themes import OWN
from tui.widgets.grid import Grid

if TYPE_CHECKING:
    from tests.tui.backend import Recorded, Served

THEMES = {one.name: one for one in (*OWN, *BUILTIN_THEMES.values())}
KNOWN = {name: one for name, one in THEMES.items() if "ansi" not in name}
FOLDER = Path(tui.__file__).parent
OURS = {"ink-on-primary"}
"""Drawn on one ground alone, which a test of its own checks."""


def variables(theme: Theme) -> dict[str, str]:
    return legible({**theme.to_color_system().generate(), **theme.variables})


@pytest.mark.parametrize("name", sorted(KNOWN))
def test_every_ink_is_legible_on_every_ground(name: str) -> None:
    found = variables(KNOWN[name])
    for ink in INKS:
        for ground in GROUNDS:
            pair = contrast(Color.parse(found[ink]), Color.parse(found[ground]))
            assert pair >= LEAST, (ink, ground, pair)
    tab = contrast(Color.parse(found["ink-on-primary"]), Color.parse(found["primary"]))
    assert tab >= LEAST, tab


@pytest.mark.parametrize("theme", OWN, ids=lambda one: one.name)
def test_our_own_themes_differ_in_all_tones(theme: Theme) -> None:
    found = variables(theme)
    tones = [found[f"text-{name}"] for name in ("success", "warning", "error")]
    assert len(set(tones)) == 3


def test_black_on_white_is_the_most_there_is() -> None:
    black, white = Color(0, 0, 0), Color(255, 255, 255)
    assert contrast(black, white) == pytest.approx(21)
    assert contrast(white, white) == 1


def test_no_text_of_ours_has_another_colour_or_ground() -> None:
    """What is drawn in a colour that no test checks is found here."""
    files = [*FOLDER.rglob("*.py"), *FOLDER.rglob("*.tcss")]
    assert files
    for path in files:
        text = path.read_text()
        for rule in re.findall(r"(?<![-\w])color: (\$[^;}\n]*)", text):
            assert rule.strip().removeprefix("$") in INKS, (path.name, rule)
        for rule in re.findall(r"background: \$([^;}]*)", text):
            assert rule.strip().split(" ")[0] in GROUNDS, (path.name, rule)
        for ink in re.findall(r"\[b? ?\$([a-z-]+)(?:\]| on )", text):
            assert ink in {*INKS, *OURS}, (path.name, ink)


def test_every_theme_of_textual_is_known_here() -> None:
    class Bare(App[None]):
        pass

    assert set(Bare().available_themes) <= set(THEMES)


PAGES = (
    "overview", "watch", "overlap", "relays", "syncs", "counters", "coverage", "log", "reindex"
)  # fmt: skip


async def test_no_state_is_said_by_its_colour_alone(api: Served, agent: Recorded) -> None:
    """In a column, two cells of one text never differ in what their colours say."""
    async with driving(api.api.url, (200, 60)) as tui:
        await tui.press("enter")
        for page in PAGES:
            await tui.go(page)
            for grid in tui.app.screen.query(Grid):
                tones: dict[tuple[str, str], set[str]] = defaultdict(set)
                for key in grid.keys:
                    for column, cell in grid._row(key).items():
                        if cell.text.strip() and cell.tone in ("good", "warn", "bad"):
                            tones[column, cell.text].add(cell.tone)
                assert all(len(found) == 1 for found in tones.values()), (page, tones)
