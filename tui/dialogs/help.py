"""All that can be done here and elsewhere, with its keys: searched by typing, run by Enter."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Label, Static

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
LEGENDS: Final = {
    "overview": (
        ("success", "an exact number, a rise, all relays answered"),
        ("warning", "a lower bound, a relay missing, older than 2 hours, warnings: w shows why"),
        ("error", "a fall, or no relay answered: w shows why"),
    ),
    "watch": (
        ("success", "the relay answered, and its claim is used"),
        ("warning", "a warning, or a relay that cannot count: Enter shows why"),
        ("error", "excluded, or the relay fails: Enter shows why"),
    ),
    "relays": (
        ("success", "connected"),
        ("warning", "connected, but some of its work fails: Enter shows why"),
        ("error", "not connected, or a feature that it lacks: Enter shows why"),
    ),
    "syncs": (
        ("success", "complete"),
        ("warning", "ended early, or the relay cannot sync: Enter shows why"),
        ("error", "the relay fails: Enter shows why"),
    ),
    "coverage": (
        ("success", "the relay has all of these events"),
        ("warning", "95 % or more: Enter shows why"),
        ("error", "less, or the run failed: Enter shows why"),
    ),
    "log": (("warning", "a warning"), ("error", "an error: Enter shows all of it")),
    "counters": (("success", "the counter rose"), ("error", "the counter fell")),
    "reindex": (("success", "done"), ("warning", "a table that differs: Tab, Enter show how")),
}
"""What the colours of each page mean; the texts beside them say the same without colours."""

COLOURS: Final = {"success": "green", "warning": "yellow", "error": "red"}

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
            yield Static(legend(self._page), id="legend")
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


def legend(page: str) -> Content:
    """Return what the colours of a page mean, a colour on each line."""
    return Content("\n").join(
        Content.from_markup(f"[$text-{tone}]$colour[/]  $meaning", colour=name, meaning=meaning)
        for tone, meaning in LEGENDS.get(page, ())
        for name in (f"{COLOURS[tone]:6}",)
    )


def _where(one: Action) -> str:
    if not one.pages:
        return "all"
    return one.pages[0] if len(one.pages) == 1 else f"{len(one.pages)} pages"
