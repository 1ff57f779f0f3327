"""The command palette: every action by its title, and whole command lines with their words."""

from __future__ import annotations

import shlex
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, cast

from textual.command import CommandPalette, DiscoveryHit, Hit, Provider, SearchIcon
from textual.content import Content

from tui.actions import ACTIONS

if TYPE_CHECKING:
    from textual.command import Hits

    from tui.action import Action
    from tui.app import TallyApp


class Line(NamedTuple):
    """A command with its words."""

    action: Action
    words: list[str]


def parse(line: str) -> Line | None:
    """A whole command, with or without the colon; the longest name that fits is meant."""
    bare = line.strip().removeprefix(":").strip()
    fitting = [a for a in ACTIONS if bare == a.name or bare.startswith(f"{a.name} ")]
    if not fitting:
        return None
    action = max(fitting, key=lambda one: len(one.name))
    return Line(action, _words(bare[len(action.name) :]))


def _words(text: str) -> list[str]:
    """Words as a shell has them; a filter begins with its brace and is one word."""
    at = min((n for n in (text.find("{"), text.find("[")) if n >= 0), default=len(text))
    try:
        words = shlex.split(text[:at])
    except ValueError:  # a quote that is not closed yet
        words = text[:at].split()
    return words + ([text[at:].strip()] if text[at:] else [])


class Palette(CommandPalette):
    """The palette with our sign before what is typed: not every terminal has the glass."""

    def on_mount(self) -> None:
        self.query_one(SearchIcon).icon = ":"


class Commands(Provider):
    """What the palette finds."""

    @property
    def _tally(self) -> TallyApp:
        return cast("TallyApp", self.app)

    def _actions(self) -> list[Action]:
        return [one for one in ACTIONS if not (one.writes and self._tally.read_only)]

    async def discover(self) -> Hits:
        """All, while nothing is typed."""
        for one in self._actions():
            yield DiscoveryHit(
                _label(one), partial(self._tally.action_do, one.name), text=one.name, help=one.help
            )

    async def search(self, query: str) -> Hits:
        """A whole command first, then what looks like what was typed."""
        line = parse(query)
        known = self._actions()
        if line is not None and line.action in known and line.words:
            text = " ".join([line.action.name, *line.words])
            run = partial(self._tally.action_do, line.action.name, line.words)
            yield Hit(1.0, Content(f":{text}"), run, text=text, help=line.action.help)
        match = self.matcher(query.removeprefix(":").strip()).match
        for one in known:
            score = max(match(one.name), match(one.title), match(one.help) / 2)
            if score > 0:
                run = partial(self._tally.action_do, one.name)
                yield Hit(score * 0.99, _label(one), run, text=one.name, help=one.help)


def _label(one: Action) -> Content:
    return Content(f":{one.name} {one.usage}".strip() + f"  ({one.key})")
