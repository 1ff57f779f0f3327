"""Texts of a screen that have too little room: where, and what they say in full."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from textual.containers import VerticalScroll
from textual.widgets import Static

from tui import format
from tui.widgets.columns import cells
from tui.widgets.grid import Grid

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from textual.screen import Screen
    from textual.widget import Widget


class CutText(NamedTuple):
    """A text that is not seen whole."""

    where: str
    text: str
    key: str = ""
    """Of a table: the key of the row."""


def cut_statics(screen: Screen[Any]) -> Iterator[CutText]:
    """All texts outside of tables that have fewer lines or cells than they need."""
    for one in screen.query(Static):
        if is_seen(one) and not _scrolls(one) and str(one.content).strip():
            width, height = one.content_size
            region = screen.find_widget(one)
            needed = one._render().get_height(one.styles, width) if width else height + 1
            if needed > height or region.visible_region != region.region:
                yield CutText(f"{type(one).__name__}#{one.id}", str(one.content))


def cut_cells(screen: Screen[Any]) -> Iterator[tuple[Grid, CutText]]:
    """All cells of tables that are wider than their column, each with its table."""
    for grid in screen.query(Grid):
        for key in grid.keys if is_seen(grid) else ():
            row = grid._row(key)
            for column, _, width in grid.placed():
                text = format.plain(row[column.key].text) if column.key in row else ""
                if cells(text if not column.right else format.tight(text)) > width:
                    yield grid, CutText(f"{grid.id}.{column.key}", text, key)


def is_seen(one: Widget) -> bool:
    """Whether a widget has a place on the screen."""
    return all(above.display for above in one.ancestors_with_self if above is not one.app)


def _scrolls(one: Widget) -> bool:
    return any(isinstance(above, VerticalScroll) for above in one.ancestors)
