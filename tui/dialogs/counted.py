"""The answer to a count that was asked once."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Label

from tui import format
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
        Binding("escape,enter,q", "close", "Close", show=False)
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
        unit = found.unit.replace("_", " ")
        with Vertical(id="counted", classes="dialog"):
            yield Label(f"{found.query} {found.target or ''}", markup=False, classes="dialog-title")
            yield Label(f"{value} {unit} ({bounds})" if bounds else f"{value} {unit}", markup=False)
            yield Grid(claims.COLUMNS, self._row)
            yield Label("Esc closes", classes="hint")

    def on_mount(self) -> None:
        self.query_one(Grid).cut = self._glyphs.ellipsis
        self.query_one(Grid).show(list(self._claims))
        self.query_one(Grid).focus()

    def _row(self, relay: str) -> Mapping[str, Cell]:
        return claims.row(self._claims[relay], time.time(), self._glyphs)

    def action_close(self) -> None:
        self.dismiss(None)
