"""A table of any number of rows that draws only those on the screen, from the model as it is.

No cell is kept: a row is asked for when its line is drawn, so that 2,000 rows cost what 40 do.
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
from tui.widgets.columns import GAP, aligned, fit, fitted

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from textual import events
    from textual.binding import BindingType

    from tui.widgets.columns import Column, PlacedColumn

HEADER = 1


class Cell(NamedTuple):
    """A text and its tone: "", good, warn, bad, dim, strong, accent."""

    text: str
    tone: str = ""


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
    ) -> None:
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
        self.marked = ""
        """A column and the sign that stands behind its title."""
        self.sign = ""
        self._row = row
        self._index: dict[str, int] = {}
        self._cursor = 0
        self._drawn: dict[tuple[int, int], Strip] = {}
        self._fitted: tuple[int, list[PlacedColumn]] = (-1, [])
        self._inks: dict[tuple[str, Style], Style] = {}

    # What is shown.

    @property
    def key(self) -> str | None:
        """The key under the cursor."""
        return self.keys[self._cursor] if self.keys else None

    def use(self, columns: Sequence[Column]) -> None:
        """Take other columns; `show` draws them."""
        self.columns, self._fitted = columns, (-1, [])

    def hide(self, columns: Collection[str]) -> None:
        """Draw all columns but these."""
        if set(columns) != set(self.hidden):
            self.hidden, self._fitted = columns, (-1, [])
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
        if self.key != held:
            self.post_message(self.Pointed(self, self.key))

    def redraw(self) -> None:
        """Draw all lines again."""
        self._drawn.clear()
        self.refresh()

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._drawn.clear()
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
            self._cursor = index
            self.redraw()
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
        width = self.scrollable_content_region.width
        if self._fitted[0] != width:
            drawn = [one for one in self.columns if one.key not in self.hidden]
            self._fitted = width, fit(drawn, width)
        return self._fitted[1]

    def width_of(self, column: str) -> int:
        """How wide a column is; 0 where it had to go."""
        return next((one.width for one in self.placed() if one.column.key == column), 0)

    def render_line(self, y: int) -> Strip:
        """One line: the titles, or a row."""
        width = self.scrollable_content_region.width
        index = -1 if y < HEADER else round(self.scroll_y) + y - HEADER
        if index >= len(self.keys):
            return Strip.blank(width, self.rich_style)
        strip = self._drawn.get((index, width))
        if strip is None:
            strip = self._titles(width) if index < 0 else self._line(index, width)
            self._drawn[index, width] = strip
        return strip

    def _titles(self, width: int) -> Strip:
        style = self._toned(self.rich_style, "header")
        segments = []
        for column, _, wide in self.placed():
            sign = self.sign if column.key == self.marked else ""
            segments.append(
                Segment(aligned(f"{column.title} {sign}".strip(), wide, right=column.right), style)
            )
            segments.append(Segment(" " * GAP, style))
        return Strip(segments).adjust_cell_length(width, style)

    def _line(self, index: int, width: int) -> Strip:
        cells = self._row(self.keys[index])
        base = self.rich_style
        if index == self._cursor:
            base += self.get_component_rich_style("grid--cursor", partial=True)
        segments = []
        before = f"{self.mark} " if self.keys[index] in self.chosen else ""
        for n, (column, _, wide) in enumerate(self.placed()):
            cell = cells.get(column.key, Cell(""))
            text = ("" if n else before) + format.plain(cell.text)
            text = fitted(text, wide, column, self.cut)
            segments.append(Segment(text, self._toned(base, cell.tone)))
            segments.append(Segment(" " * GAP, base))
        return Strip(segments).adjust_cell_length(width, base)

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
