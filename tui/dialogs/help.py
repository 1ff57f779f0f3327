"""All that can be done here and elsewhere, with its keys: searched by typing, run by Enter."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Label

from tui.widgets.columns import Column, matches
from tui.widgets.grid import Cell, Grid

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from textual.app import ComposeResult
    from textual.binding import BindingType

    from tui.host import Action

COLUMNS = (
    Column("key", "Key", 5),
    Column("name", "Command", 16),
    Column("help", "What it does", 24, flex=3),
    Column("where", "Where", 9, drop=1),
)
HINT = "type to search; arrows and Enter run it; Esc leaves"


class Help(ModalScreen[str]):
    """Gives the name of the action that was chosen, or ""."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Leave", show=False),
        Binding("up", "move(-1)", "Up", show=False, priority=True),
        Binding("down", "move(1)", "Down", show=False, priority=True),
    ]

    def __init__(self, actions: Sequence[Action], page: str) -> None:
        """`actions`: those that are offered; the ones of `page` come first."""
        super().__init__()
        self._page = page
        self._all = sorted(actions, key=lambda one: not one.on(page))
        self._by_name = {one.name: one for one in actions}

    def compose(self) -> ComposeResult:
        with Vertical(id="help", classes="dialog"):
            yield Label(f"Help: {self._page}", classes="dialog-title")
            yield Input(placeholder="search", id="help-search")
            yield Grid(COLUMNS, self._row, id="help-actions")
            yield Label(HINT, classes="hint")

    def on_mount(self) -> None:
        self._search("")
        self.query_one(Input).focus()

    def _search(self, wanted: str) -> None:
        found = [a for a in self._all if matches(wanted, a.name, a.title, a.help, a.key, *a.pages)]
        self.query_one(Grid).show([one.name for one in found])

    def _row(self, name: str) -> Mapping[str, Cell]:
        one = self._by_name[name]
        tone = "" if one.on(self._page) else "dim"
        return {
            "key": Cell(one.key, "accent"),
            "name": Cell(name, tone if tone else "strong"),
            "help": Cell(one.help, tone),
            "where": Cell(_where(one), "dim"),
        }

    def on_input_changed(self, event: Input.Changed) -> None:
        self._search(event.value.strip().lower())

    def on_input_submitted(self) -> None:
        self.dismiss(self.query_one(Grid).key or "")

    def on_grid_opened(self, event: Grid.Opened) -> None:
        self.dismiss(event.key)

    def action_move(self, by: int) -> None:
        self.query_one(Grid).action_move(by)

    def action_leave(self) -> None:
        self.dismiss("")


def _where(one: Action) -> str:
    if not one.pages:
        return "all"
    return one.pages[0] if len(one.pages) == 1 else f"{len(one.pages)} pages"
