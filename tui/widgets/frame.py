"""What stands around every page: the heading with the state of things, and the footer of keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.content import Content
from textual.widgets import Static

from nostr_client.codecs.display import plural
from tui import format

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual import events

    from tui.glyphs import Glyphs
    from tui.host import Action
    from tui.model import Model

MOST_KEYS = 7
LAST_KEY = "help"
"""An action that always has its place, as the last one: it shows all others."""

SMALLEST = (60, 16)


def renew(line: Static, content: Content | str) -> None:
    """Give a text of a fixed size another content, if that differs from the one it has."""
    if content != line.content:
        line.update(content, layout=False)


class Heading(Static):
    """One line: the program, whether the agent is there, and how it stands."""

    DEFAULT_CSS = "Heading { height: 1; background: $panel; color: $foreground; padding: 0 1; }"

    def show(self, model: Model, now: float, glyphs: Glyphs) -> None:
        """Draw it for this moment."""
        width = self.app.size.width - 2
        left = Content.from_markup("[b $text-primary]nostr-tally[/]  ") + _link(model, now, glyphs)
        right = Content(_numbers(model, wide=width > 100) + "  " + format.clock(now))
        room = width - left.cell_length - right.cell_length
        if room < 1:
            right = Content("")
            room = max(0, width - left.cell_length)
        renew(self, Content.assemble(left, " " * room, right))


def _link(model: Model, now: float, glyphs: Glyphs) -> Content:
    if model.link == "live":
        return Content.from_markup("[$text-success]$sign live[/]", sign=glyphs.on)
    if model.link == "connecting" or model.received_at is None:
        text = "looking for the agent" if model.link == "away" else "connecting"
        return Content.from_markup("[$text-warning]$sign $text[/]", sign=glyphs.part, text=text)
    away = format.age(now - (model.since or now))
    said = f"agent away {away}, numbers of {format.clock(model.received_at)}, reconnecting"
    return Content.from_markup("[b $text-error]$sign $said[/]", sign=glyphs.warn, said=said)


def _numbers(model: Model, *, wide: bool) -> str:
    status = model.status
    if status is None:
        return ""
    connected = sum(one.status == "connected" for one in model.relays.values())
    parts = [f"{connected}/{plural(len(model.relays), 'relay')}"]
    if wide:
        n = len(model.watches)
        parts = [f"agent {status.version}", f"{n} watch{'es' * (n != 1)}", *parts]
    return "  ".join(parts)


class Bar(Static):
    """A line of names that each do something when they are clicked."""

    DEFAULT_CSS = "Bar { height: 1; background: $panel; padding: 0 1; }"

    def __init__(self) -> None:
        super().__init__()
        self._ends: list[tuple[int, str]] = []

    @property
    def names(self) -> list[str]:
        """The actions that are shown."""
        return [name for _, name in self._ends]

    def fill(self, parts: Sequence[tuple[str, Content]], gap: str) -> None:
        """Show these parts, each with the action that it stands for."""
        self._ends, at = [], 0
        for name, part in parts:
            at += part.cell_length + len(gap)
            self._ends.append((at, name))
        self.update(Content(gap).join(part for _, part in parts))

    def on_click(self, event: events.Click) -> None:
        """Do what stands there."""
        place = event.get_content_offset(self)
        if place is not None:
            name = next((name for end, name in self._ends if place.x < end), "")
            if name:
                self.app.call_next(self.app.run_action, f"app.do({name!r})")


class Tabs(Bar):
    """The pages, and which one this is."""

    def show(self, tabs: Sequence[Action], page: str) -> None:
        """Draw them."""
        parts: list[tuple[str, Content]] = []
        for one in tabs:
            here = one.title.lower() == page
            style = "[b $ink-on-primary on $primary]" if here else "[$foreground-muted]"
            text = Content.from_markup(f"{style} $key $title [/]", key=one.key, title=one.title)
            parts.append((one.name, text))
        self.fill(parts, " ")


class Keys(Bar):
    """The most useful keys of a page."""

    def show(self, actions: Sequence[Action], page: str) -> None:
        """Draw those that fit, the most useful first kept."""
        chosen = sorted((a for a in actions if a.footer and a.on(page)), key=lambda a: -a.footer)
        last = [one for one in chosen if one.name == LAST_KEY]
        chosen = [one for one in chosen if one.name != LAST_KEY]
        width, kept = self.app.size.width - 2, chosen[: MOST_KEYS - len(last)]
        while kept and sum(len(a.key) + len(a.title) + 4 for a in (*kept, *last)) > width + 3:
            kept.pop()
        kept += last
        text = "[b $text-accent]$key[/] $title"
        parts = [
            (one.name, Content.from_markup(text, key=one.key, title=one.title)) for one in kept
        ]
        self.fill(parts, "   ")


class TooSmall(Static):
    """In front of everything where there is no room for anything."""

    DEFAULT_CSS = """
    TooSmall {
        layer: front; display: none; width: 100%; height: 100%;
        content-align: center middle; text-align: center; background: $background;
    }
    """

    def show(self) -> None:
        """Say how much is missing."""
        wide, high = self.app.size
        least = f"{SMALLEST[0]}x{SMALLEST[1]}"
        self.update(f"{wide}x{high} is too small:\nthis needs {least}")
