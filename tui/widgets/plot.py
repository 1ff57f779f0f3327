"""A number over time, with its interval as a band."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.strip import Strip
from textual.widget import Widget

from tui.widgets import plotting

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from textual.geometry import Size

    from agent.api.schema import Point
    from tui.glyphs import Glyphs


class HistoryPlot(Widget):
    """Draws what `show` was given, in the size that it has; lines are kept until one changes."""

    def __init__(self, glyphs: Glyphs, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._glyphs = glyphs
        self._points: Sequence[Point] = ()
        self._now = 0.0
        self._span = "1d"
        self._lines: tuple[Size, list[Strip]] | None = None

    def show(self, points: Sequence[Point], now: float, span: str) -> None:
        """Draw these points, oldest first, up to now."""
        self._points, self._now, self._span = points, now, span
        self._lines = None
        self.refresh()

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._lines = None

    def render_line(self, y: int) -> Strip:
        """One line of the plot."""
        if self._lines is None or self._lines[0] != self.size:
            self._lines = self.size, self._drawn()
        lines = self._lines[1]
        if y < len(lines):
            return lines[y]
        return Strip.blank(self.size.width, self.rich_style)

    def _drawn(self) -> list[Strip]:
        width, height = self.size
        found = plotting.draw(self._points, self._now, self._span, width, height, self._glyphs)
        base = self.rich_style
        tones = self._tones(base)
        return [
            Strip(
                [Segment(part.text, tones.get(part.tone, base)) for part in line],
                sum(len(part.text) for part in line),  # each sign takes one cell
            ).adjust_cell_length(width, base)
            for line in found
        ]

    def _tones(self, base: Style) -> Mapping[str, Style]:
        """The styles of the parts: colours of the theme, mixed with the surface behind them."""
        variables = self.app.theme_variables
        behind = Color.parse(variables["surface"])

        def mixed(name: str, part: float = 1.0) -> Style:
            color = behind.blend(Color.parse(variables[name]), part)
            return base + Style.from_color(color.rich_color)

        return {"band": mixed("primary", 0.55), "curve": mixed("accent")}
