"""A table of any number of rows that draws only those on the screen, from the model as it is.

A row is asked for when its line is drawn, so that 2,000 rows cost what 40 do. A line is drawn again
only if its cells, its place or the look of the table changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NamedTuple

from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding
from textual.color import Color
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from tui import format
from tui.widgets.columns import GAP, fit, fitted, titled

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from textual import events
    from textual.binding import BindingType

    from tui.glyphs import Glyphs
    from tui.widgets.columns import Column, PlacedColumn

HEADER = 1


class Cell(NamedTuple):
    """A text and its tone: "", good, warn, bad, dim, strong, accent."""

    text: str
    tone: str = ""


HEAT_WIDTH = 7
"""Cells of a column of a heat map: the bar, a space and "100%", or a sign before it."""


def heat(part: float | None, tone: str, glyphs: Glyphs, text: str = "") -> Cell:
    """Return the cell of a heat map: a bar as high as a part of 1, and the part in per cent.

    The bar is full only at 1. The cell is ? if the part is not known. `text` stands in place of
    the part in per cent.
    """
    if part is None:
        return Cell(format.UNKNOWN, "dim")
    bar = glyphs.bars[int(part * (len(glyphs.bars) - 1))]
    return Cell(f"{bar} {text or format.percent(part):>4}", tone)


class _Line(NamedTuple):
    """A line that was drawn, and what it was drawn of."""

    cells: Mapping[str, Cell]
    is_pointed: bool
    is_chosen: bool
    strip: Strip


NO_CELL = Cell("")

GONE: Mapping[str, Cell] = {}
"""The cells of a row whose thing is not there any more: the next `show` takes it away."""


class Grid(ScrollView, can_focus=True):
    """Rows by key; the cursor stays with its key when rows move."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False),
        Binding("down,j", "move(1)", "Down", show=False),
        Binding("pageup", "page(-1)", "Page up", show=False),
        Binding("pagedown", "page(1)", "Page down", show=False),
        Binding("home,g", "to(0)", "Top", show=False),
        Binding("end,G", "to(-1)", "Bottom", show=False),
    ]
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "grid--header",
        "grid--cursor",
        "grid--good",
        "grid--warn",
        "grid--bad",
        "grid--dim",
        "grid--strong",
        "grid--accent",
    }
    DEFAULT_CSS = """
    Grid { height: 1fr; scrollbar-size-vertical: 1; overflow-x: hidden; overflow-y: auto; }
    Grid > .grid--header { text-style: bold; color: $foreground-muted; background: $background; }
    Grid > .grid--cursor { background: $ground-pointed; }
    Grid:focus > .grid--cursor { background: $ground-cursor; }
    Grid > .grid--good { color: $text-success; }
    Grid > .grid--warn { color: $text-warning; }
    Grid > .grid--bad { color: $text-error; }
    Grid > .grid--dim { color: $foreground-muted; }
    Grid > .grid--strong { text-style: bold; color: $foreground; }
    Grid > .grid--accent { color: $text-accent; }
    """

    class Pointed(Message):
        """The cursor is on another row."""

        def __init__(self, grid: Grid, key: str | None) -> None:
            super().__init__()
            self.grid = grid
            self.key = key

        @property
        def control(self) -> Grid:
            return self.grid

    class Opened(Message):
        """A row was clicked twice."""

        def __init__(self, grid: Grid, key: str) -> None:
            super().__init__()
            self.grid = grid
            self.key = key

        @property
        def control(self) -> Grid:
            return self.grid

    class HeaderClicked(Message):
        """The title of a column was clicked."""

        def __init__(self, grid: Grid, column: str) -> None:
            super().__init__()
            self.grid = grid
            self.column = column

        @property
        def control(self) -> Grid:
            return self.grid

    def __init__(
        self,
        columns: Sequence[Column],
        row: Callable[[str], Mapping[str, Cell]],
        *,
        id: str | None = None,
        marked: str = "",
        falls: bool = False,
    ) -> None:
        """`marked`: the column that rows are sorted by; `falls`: its largest value comes first."""
        super().__init__(id=id)
        self.columns = columns
        self.keys: Sequence[str] = ()
        self.cut = "…"
        """Ends a text that is too long."""
        self.faded = False
        """Everything is out of date, and looks like it."""
        self.hidden: Collection[str] = ()
        """Keys of columns that are not drawn."""
        self.chosen: set[str] = set()
        """Keys of rows that the user marked; the sign `mark` stands before them."""
        self.mark = "●"
        self.marked = marked
        """The column that rows are sorted by: an arrow stands behind its title."""
        self.falls = falls
        self.arrows = ("▲", "▼")
        """The signs of values that rise from row to row, and of values that fall."""
        self._row = row
        self._index: dict[str, int] = {}
        self._cursor = 0
        self._drawn: dict[int, _Line] = {}
        self._look: tuple[object, ...] = ()
        """What all lines depend on, as they were drawn."""
        self._fitted: tuple[tuple[int, str] | None, list[PlacedColumn]] = (None, [])
        self._sized: tuple[object, int] = (None, 0)
        self._bases: dict[bool, Style] = {}
        self._inks: dict[tuple[str, Style], Style] = {}

    # What is shown.

    @property
    def key(self) -> str | None:
        """The key under the cursor."""
        return self.keys[self._cursor] if self.keys else None

    def use(self, columns: Sequence[Column]) -> None:
        """Take other columns; `show` draws them."""
        self.columns, self._fitted, self._look = columns, (None, []), ()

    def hide(self, columns: Collection[str]) -> None:
        """Draw all columns but these."""
        if set(columns) != set(self.hidden):
            self.hidden, self._fitted = columns, (None, [])
            self.redraw()

    def show(self, keys: Sequence[str], *, from_top: bool = False) -> None:
        """Show these rows, drawn again; the cursor stays on its key, else near its place.

        `from_top`: these are other things than before, and the cursor begins at the first.
        """
        held = self.key
        if from_top:
            self._cursor = 0
            self.scroll_to(y=0, animate=False, immediate=True)
        if list(keys) != list(self.keys):
            self.keys = keys
            self._index = {key: n for n, key in enumerate(keys)}
            stays = held is not None and not from_top
            place = self._index.get(held or "", self._cursor) if stays else 0
            self._cursor = max(0, min(place, len(keys) - 1))
            self.virtual_size = Size(0, len(keys) + HEADER)
            self.redraw()
        else:
            self.renew()
        if self.key != held:
            self.post_message(self.Pointed(self, self.key))

    def redraw(self) -> None:
        """Draw all lines again."""
        self._drawn.clear()
        self.refresh()

    def renew(self) -> None:
        """Draw the lines on the screen again whose rows have changed, and forget all others."""
        look = self._looks
        if look != self._look:
            self.redraw()
            return
        top = round(self.scroll_y)
        before, self._drawn = self._drawn, {}
        for index in range(top, min(top + self.size.height - HEADER, len(self.keys))):
            line = before.get(index)
            if line is not None and line[:3] == self._state(index):
                self._drawn[index] = line
            else:
                self._refresh_row(index)

    @property
    def _looks(self) -> tuple[object, ...]:
        """What all lines depend on."""
        width = self._width
        order = self.marked, self.falls, self.arrows
        return width, order, self.mark, self.cut, self.faded

    def _state(self, index: int) -> tuple[Mapping[str, Cell], bool, bool]:
        key = self.keys[index]
        return self._row(key), index == self._cursor, key in self.chosen

    def _refresh_row(self, index: int) -> None:
        """Draw one row again, if it is on the screen."""
        self._drawn.pop(index, None)
        y = index - round(self.scroll_y) + HEADER
        if HEADER <= y < self.size.height:
            self.refresh(Region(0, y, self.size.width, 1))

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._drawn.clear()
        self._sized = None, 0
        self._bases.clear()
        self._inks.clear()

    def point(self, key: str) -> None:
        """Put the cursor on a row, if it is there."""
        if key in self._index:
            self._go(self._index[key])

    def whole(self) -> str:
        """Return all cells of the row under the cursor, those without a place too; "" for none."""
        cells = self._row(self.key) if self.key is not None else GONE
        lines = []
        for column in self.columns:
            cell = cells.get(column.key)
            if cell is not None:
                title = column.title or column.key.title()
                lines.append(f"{title}: {format.plain(cell.text.strip())}")
        return "\n".join(lines)

    # Moving.

    def action_move(self, by: int) -> None:
        self._go(self._cursor + by)

    def action_page(self, by: int) -> None:
        self._go(self._cursor + by * max(1, self.size.height - HEADER - 1))

    def action_to(self, end: int) -> None:
        self._go(0 if end == 0 else len(self.keys) - 1)

    def _go(self, index: int) -> None:
        index = max(0, min(index, len(self.keys) - 1))
        if index != self._cursor:
            before, self._cursor = self._cursor, index
            self._refresh_row(before)
            self._refresh_row(index)
            self.post_message(self.Pointed(self, self.key))
        self._into_view()

    def _into_view(self) -> None:
        rows = max(1, self.size.height - HEADER)
        top = round(self.scroll_y)
        wanted = min(max(top, self._cursor - rows + 1), self._cursor)
        if wanted != top:
            self.scroll_to(y=wanted, animate=False, immediate=True)

    def on_click(self, event: events.Click) -> None:
        """A row is pointed at, twice opens it; a title sorts."""
        if event.y < HEADER:
            for column, at, width in self.placed():
                if at <= event.x < at + width + GAP:
                    self.post_message(self.HeaderClicked(self, column.key))
            return
        index = round(self.scroll_y) + event.y - HEADER
        if index < len(self.keys):
            self._go(index)
            if event.chain > 1:
                self.post_message(self.Opened(self, self.keys[index]))

    # Drawing.

    def placed(self) -> list[PlacedColumn]:
        """The columns that fit, each with its place."""
        size = self._width, self.marked
        if self._fitted[0] != size:
            drawn = [one for one in self.columns if one.key not in self.hidden]
            self._fitted = size, fit(drawn, *size)
        return self._fitted[1]

    @property
    def _width(self) -> int:
        """How wide a line is; asked for at every line, so it is remembered for a size."""
        place = self.size, self.show_vertical_scrollbar
        if self._sized[0] != place:
            self._sized = place, self.scrollable_content_region.width
        return self._sized[1]

    def width_of(self, column: str) -> int:
        """How wide a column is; 0 where it had to go."""
        return next((one.width for one in self.placed() if one.column.key == column), 0)

    def render_line(self, y: int) -> Strip:
        """One line: the titles, or a row."""
        look = self._looks
        if look != self._look:
            self._look = look
            self._drawn.clear()
        width = self._width
        if y < HEADER:
            return self._titles(width)
        index = round(self.scroll_y) + y - HEADER
        if index >= len(self.keys):
            return Strip.blank(width, self._base(is_pointed=False))
        line = self._drawn.get(index)
        if line is None:
            line = self._drawn[index] = self._line(index, width)
        return line.strip

    def _titles(self, width: int) -> Strip:
        style = self._toned(self.rich_style, "header")
        texts = []
        for column, _, wide in self.placed():
            sign = self.arrows[self.falls] if column.key == self.marked else ""
            texts.append(titled(column, sign, wide))
        return Strip([Segment((" " * GAP).join(texts), style)]).adjust_cell_length(width, style)

    def _line(self, index: int, width: int) -> _Line:
        cells, is_pointed, is_chosen = self._state(index)
        base = self._base(is_pointed=is_pointed)
        before = f"{self.mark} " if is_chosen else ""
        runs: list[tuple[str, Style]] = []
        for column, _, wide in self.placed():
            cell = cells.get(column.key, NO_CELL)
            text = fitted(before + format.plain(cell.text), wide, column, self.cut) + " " * GAP
            style, before = self._toned(base, cell.tone), ""
            if runs and runs[-1][1] is style:
                runs[-1] = runs[-1][0] + text, style
            else:
                runs.append((text, style))
        length = sum(one.width + GAP for one in self.placed())
        strip = Strip([Segment(*run) for run in runs], length).adjust_cell_length(width, base)
        return _Line(cells, is_pointed, is_chosen, strip)

    def _base(self, *, is_pointed: bool) -> Style:
        """The style of a row without a tone."""
        base = self._bases.get(is_pointed)
        if base is None:
            base = self.rich_style
            if is_pointed:
                base += self.get_component_rich_style("grid--cursor", partial=True)
            self._bases[is_pointed] = base
        return base

    def _toned(self, base: Style, tone: str) -> Style:
        tone = "dim" if self.faded and tone != "header" else tone
        if not tone:
            return base
        ink = self._inks.get((tone, base))
        if ink is None:
            ink = self._inks[tone, base] = self._mixed(base, tone)
        return ink

    def _mixed(self, base: Style, tone: str) -> Style:
        styles = self.get_component_styles(f"grid--{tone}")
        color = styles.color
        if color.a < 1 and base.bgcolor is not None:
            color = Color.from_rich_color(base.bgcolor) + color
        return base + Style.from_color(color.rich_color) + styles.text_style

    def on_resize(self) -> None:
        """Widths have changed."""
        self.redraw()
        self.call_after_refresh(self._into_view)

    def on_focus(self) -> None:
        """The cursor looks different."""
        self.redraw()

    def on_blur(self) -> None:
        """The cursor looks different."""
        self.redraw()

    def row_region(self, index: int) -> Region:
        """Where a row is drawn."""
        return Region(0, index + HEADER, self.size.width, 1)
