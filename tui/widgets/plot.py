"""A number over time, with its interval as a band."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.color import Color
from textual_plotext import PlotextPlot

from tui.glyphs import ASCII
from tui.widgets import plotting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import RenderResult

    from agent.api.schema import Point
    from tui.glyphs import Glyphs

Rgb = tuple[int, int, int]


class HistoryPlot(PlotextPlot):
    """Draws what `show` was given, in the size that it has."""

    def __init__(self, glyphs: Glyphs, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._glyphs = glyphs
        self._points: Sequence[Point] = ()
        self._now = 0.0
        self._span = "1d"

    def show(self, points: Sequence[Point], now: float, span: str) -> None:
        """Draw these points, oldest first, up to now."""
        self._points, self._now, self._span = points, now, span
        self.refresh()

    def render(self) -> RenderResult:
        """The plot, drawn again for the size and the theme of this moment."""
        plt = self.plt
        plt.clear_data()
        plt.clear_figure()
        if self._points and self.size.width > 12 and self.size.height > 4:
            self._draw()
        return super().render()

    def _draw(self) -> None:
        plt, points = self.plt, self._points
        time = plotting.times(points, self._now, self._span)
        value = plotting.values(points)
        ticks = plotting.value_ticks(value, max(2, self.size.height // 3))
        margin = max(map(len, ticks.text)) + 2
        columns, rows = self.size.width - margin, self.size.height - 4
        around = plotting.band(points, time, value, columns, rows)
        if around.x:
            color = self._color("primary", 0.55)
            plt.scatter(around.x, around.y, marker=self._glyphs.band, color=color)
        line = plotting.curve(points, time.high)
        plt.plot(line.x, line.y, marker=self._glyphs.curve, color=self._color("accent"))
        plt.frame(self._glyphs is not ASCII)
        plt.title(plotting.caption(points, self._now, self._span))
        plt.xlim(time.low, time.high)
        plt.ylim(value.low, value.high)
        plt.xticks(*plotting.time_ticks(time, max(2, columns // 12)))
        plt.yticks(*ticks)

    def _color(self, name: str, part: float = 1.0) -> Rgb:
        """A colour of the theme, mixed with the surface behind it."""
        variables = self.app.theme_variables
        behind = Color.parse(variables["surface"])
        return behind.blend(Color.parse(variables[name]), part).rgb
