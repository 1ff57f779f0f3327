"""Choose several of a list: which panels or which columns are shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Label, SelectionList

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from textual.app import ComposeResult
    from textual.binding import BindingType


class ChooseSeveral(ModalScreen[tuple[str, ...] | None]):
    """Gives the names that were chosen, in their order, or None when it is left."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Leave", show=False),
        Binding("enter", "keep", "Keep", show=False, priority=True),
        Binding("j", "move('down')", "Down", show=False),
        Binding("k", "move('up')", "Up", show=False),
    ]

    def __init__(self, title: str, names: Sequence[tuple[str, str]], on: Collection[str]) -> None:
        """`names`: each with what stands beside its box; `on`: those that are chosen now."""
        super().__init__()
        self._title, self._names, self._on = title, names, on

    def compose(self) -> ComposeResult:
        with Vertical(id="choose", classes="dialog"):
            yield Label(self._title, markup=False, classes="dialog-title")
            yield SelectionList[str](
                *((text, name, name in self._on) for name, text in self._names), compact=True
            )
            yield Label("Space switches one, Enter keeps all, Esc changes nothing", classes="hint")

    def on_mount(self) -> None:
        self.query_one(SelectionList).focus()

    def action_move(self, way: str) -> None:
        found = self.query_one(SelectionList)
        (found.action_cursor_down if way == "down" else found.action_cursor_up)()

    def action_keep(self) -> None:
        chosen = set(self.query_one(SelectionList).selected)
        self.dismiss(tuple(name for name, _ in self._names if name in chosen))

    def action_leave(self) -> None:
        self.dismiss(None)
