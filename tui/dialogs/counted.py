"""The answer to a count that was asked once."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Label

from nostr_client.codecs.display import noun_for, unit_noun
from tui import format
from tui.dialogs.simple import Inform
from tui.widgets import claims
from tui.widgets.grid import Grid

if TYPE_CHECKING:
    from collections.abc import Mapping

    from textual.app import ComposeResult
    from textual.binding import BindingType

    from agent.api.schema import CountReport
    from tui.glyphs import Glyphs
    from tui.widgets.grid import Cell


class CountDialog(ModalScreen[None]):
    """The number, and what each relay said."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "close", "Close", show=False),
        Binding("enter", "read", "Read", show=False),
    ]

    def __init__(self, found: CountReport, glyphs: Glyphs) -> None:
        super().__init__()
        self._found, self._glyphs = found, glyphs
        self._claims = {one.relay: one for one in found.relays}

    def compose(self) -> ComposeResult:
        found = self._found
        value, bounds = (
            format.value(found.figure, self._glyphs),
            format.in_words(found.figure, self._glyphs),
        )
        noun = unit_noun(found.unit)
        unit = noun if found.figure is None else noun_for(found.figure.value, noun)
        with Vertical(id="counted", classes="dialog"):
            yield Label(f"{found.query} {found.target or ''}", markup=False, classes="dialog-title")
            yield Label(f"{value} {unit} ({bounds})" if bounds else "not known", markup=False)
            yield Grid(claims.COLUMNS, self._row)
            yield Label("Enter shows all of a row, Esc closes", classes="hint")

    def on_mount(self) -> None:
        self.query_one(Grid).cut = self._glyphs.ellipsis
        self.query_one(Grid).show(list(self._claims))
        self.query_one(Grid).focus()

    def _row(self, relay: str) -> Mapping[str, Cell]:
        return claims.row(self._claims[relay], time.time(), self._glyphs)

    def on_grid_opened(self) -> None:
        self.action_read()

    def action_read(self) -> None:
        """Show the row under the cursor in full."""
        grid = self.query_one(Grid)
        if grid.key is not None:
            self.app.push_screen(Inform(format.plain(grid.key), grid.whole()))

    def action_close(self) -> None:
        self.dismiss(None)
