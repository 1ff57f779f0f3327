"""What changed since somebody last looked, as the first page after an absence shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Label, Static

from tui import format
from tui.dialogs.claim import ReasonText

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.binding import BindingType

    from agent.api.schema import Digest

MOST_SHOWN: Final = 200
"""Watches of a digest, as it scrolls."""

HINT: Final = "Esc closes, j and k scroll; Enter on a watch of page 1 opens it"


class DigestView(ModalScreen[None]):
    """Shows a digest: first the watches that changed most, last those without a change."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,enter,q,space", "close", "Close", show=False),
    ]

    def __init__(self, title: str, found: Digest) -> None:
        super().__init__()
        self._title, self._found = title, found

    def compose(self) -> ComposeResult:
        with Vertical(id="digest", classes="dialog"):
            yield Label(self._title, markup=False, classes="dialog-title")
            with ReasonText():
                yield Static(Content("\n").join(lines(self._found)))
            yield Label(HINT, classes="hint")

    def on_mount(self) -> None:
        self.query_one(ReasonText).focus()

    def action_close(self) -> None:
        self.dismiss(None)


def lines(found: Digest) -> list[Content]:
    """Return the digest as lines, each section under its title."""
    shown = [Content("There is no watch yet.")] if not found.watches else []
    for title, texts in found.sections(MOST_SHOWN):
        shown += [Content("")] if shown else []
        shown.append(Content.from_markup("[b]$title[/]", title=format.plain(title)))
        shown += [Content(f"  {format.plain(text)}") for text in texts]
    return shown
