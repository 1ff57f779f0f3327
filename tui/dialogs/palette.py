"""The command palette: every action by its title, and whole command lines with their words."""

from __future__ import annotations

import shlex
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, cast

from textual.command import CommandPalette, DiscoveryHit, Hit, Provider, SearchIcon
from textual.content import Content

if TYPE_CHECKING:
    from collections.abc import Iterable

    from textual.command import Hits

    from tui.host import Action, Host


class PaletteLine(NamedTuple):
    """A command with its words."""

    action: Action
    words: list[str]


def parse(line: str, actions: Iterable[Action]) -> PaletteLine | None:
    """A whole command, with or without the colon; the longest name that fits is meant."""
    bare = line.strip().removeprefix(":").strip()
    fitting = [a for a in actions if bare == a.name or bare.startswith(f"{a.name} ")]
    if not fitting:
        return None
    action = max(fitting, key=lambda one: len(one.name))
    return PaletteLine(action, _words(bare[len(action.name) :]))


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
    def _host(self) -> Host:
        return cast("Host", self.app)

    async def discover(self) -> Hits:
        """All, while nothing is typed."""
        for one in self._host.offered:
            yield DiscoveryHit(
                _label(one), partial(self._host.action_do, one.name), text=one.name, help=one.help
            )

    async def search(self, query: str) -> Hits:
        """Yield a whole command first, then similar ones; else a line that nothing was found."""
        line, typed = parse(query, self._host.actions), query.removeprefix(":").strip()
        known, found = self._host.offered, False
        if line is not None and line.action in known and line.words:
            found = True
            yield self._whole(line)
        for one in known:
            if score := self._likeness(typed, one):
                found = True
                run = partial(self._host.action_do, one.name)
                yield Hit(score * 0.99, _label(one), run, text=one.name, help=one.help)
        if not found:
            yield self._none(line, typed)

    def _whole(self, line: PaletteLine) -> Hit:
        text = " ".join([line.action.name, *line.words])
        run = partial(self._host.action_do, line.action.name, line.words)
        return Hit(1.0, Content(f":{text}"), run, text=text, help=line.action.help)

    def _likeness(self, typed: str, one: Action) -> float:
        """How much it looks like an action, 0 to 1: letters of its name, or words of its title.

        Enter runs the likest, so letters that stand anywhere, or in the help, are too little.
        """
        begins = any(word[0] == typed[:1].lower() for word in one.name.split())
        score = self.matcher(typed).match(one.name) if begins else 0.0
        titled = set(typed.lower().split()) <= set(one.title.lower().split())
        return max(score, 0.5 if titled else 0.0)

    def _none(self, line: PaletteLine | None, typed: str) -> Hit:
        """Stands where a command would: Enter opens what was typed, to be corrected."""
        said = f"There is no command {typed}"
        if line is not None:
            said = f":{line.action.name} is not there in a session that only reads"
        run = partial(self._host.action_do, "commands", [typed])
        return Hit(0.01, Content(said), run, text=typed)


def _label(one: Action) -> Content:
    return Content(f":{one.name} {one.usage}".strip() + f"  ({one.key})")
