"""The first page: all watches, and beside them how relays, syncs and counters do."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from textual.containers import Horizontal
from textual.widgets import Static

from tui import format
from tui.model import MOVED_S
from tui.pages import panels
from tui.pages.page import NO_MATCH, Page
from tui.widgets.columns import Column, matches
from tui.widgets.grid import GONE, Cell, Grid
from tui.workers import start

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from textual.widget import Widget

    from agent.api.schema import WatchState

COLUMNS = (
    Column("name", "Watch", 14, flex=3, most=40, middle=True),
    Column("value", "Value", 11, right=True, flex=1, most=14),
    Column("bar", "Interval", 9, drop=4, flex=1, most=21),
    Column("sure", "Sure", 8, drop=7, flex=1, most=9),
    Column("bounds", "95 %", 17, drop=9),
    Column("1h", "1h", 6, right=True, drop=2),
    Column("1d", "1d", 6, right=True, drop=3),
    Column("1w", "1w", 6, right=True, drop=8),
    Column("spark", "Trend", 8, drop=6, flex=2, most=24),
    Column("age", "Age", 4, right=True),
    Column("relays", "Relays", 6, right=True),
    Column("warnings", "!", 3, right=True, drop=1),
)
SORTS = ("name", "value", "1h", "1d", "1w", "age", "relays", "warnings")
COUNTERS_EVERY_S = 5.0


class Overview(Page):
    """Watches as a table; panels below it."""

    title_ = "overview"

    def __init__(self) -> None:
        super().__init__()
        self.sort, self.reverse = "name", False
        self._counted_at = 0.0

    def body(self) -> Iterable[Widget]:
        yield Grid(COLUMNS, self._row, id="watches")
        yield Static(id="no-watches", classes="empty")
        with Horizontal(id="panels"):
            for name in panels.NAMES:
                yield Static(id=f"panel-{name}", classes="panel")

    def on_mount(self) -> None:
        self.query_one("#watches").focus()
        self.set_interval(COUNTERS_EVERY_S, self._count_soon)

    async def entered(self) -> None:
        await self._count()

    def _count_soon(self) -> None:
        """Counters have moved: look at them, not more than once a second.

        Without an agent this is no look: the one when it is there must not have to wait for it.
        """
        if not self.model.stale and time.monotonic() - self._counted_at > 1.0:
            self._counted_at = time.monotonic()
            start(self, self._count, "count")

    async def _count(self) -> None:
        if self.is_current:
            await self.host.look_at_counters()
            self.draw({"counters shown"})

    def show(self, changed: set[str]) -> None:
        if changed & {"watches", "link", "frame"}:
            grid = self.query_one("#watches", Grid)
            grid.marked, grid.sign = self.sort, self.host.glyphs.down
            if not self.reverse:
                grid.sign = self.host.glyphs.up
            grid.show(self._names())
            self.say(grid, "#no-watches", self._missing())
        for name in panels.NAMES:
            if name in changed or f"{name} shown" in changed:
                self._panel(name)
        if changed & {"counters", "link"}:
            self._count_soon()

    def _panel(self, name: str) -> None:
        panel = self.query_one(f"#panel-{name}", Static)
        panel.border_title = name.title()
        width, height = panel.content_size
        if width and height:
            panel.update(panels.draw(name, self.host, width, height))

    def sort_by(self, column: str | None) -> None:
        if column is None:
            column = SORTS[(SORTS.index(self.sort) + 1) % len(SORTS)]
        if column in SORTS:
            self.reverse = column == self.sort and not self.reverse
            self.sort = column
            self.show({"watches"})

    def _names(self) -> list[str]:
        found = [
            (self._rank(one), name)
            for name, one in self.model.watches.items()
            if matches(self.wanted, name, one.spec.query or "filter", one.spec.target)
        ]
        found.sort(reverse=self.reverse)
        return [name for _, name in found]

    def _rank(self, one: WatchState) -> Any:
        """Numbers begin with the largest: that is what one looks for."""
        match self.sort:
            case "value":
                return -(one.figure.value if one.figure else -1)
            case "1h" | "1d" | "1w":
                return -one.changes.get(self.sort, -(2**63))
            case "age":
                return -(one.updated_at or 0.0)
            case "relays":
                return one.answered / max(1, one.asked)
            case "warnings":
                return -len(one.warnings) - 100 * len(one.failing)
        return one.spec.name

    def _row(self, name: str) -> Mapping[str, Cell]:
        one, glyphs = self.model.watches.get(name), self.host.glyphs
        if one is None:
            return GONE
        now = self.host.now()
        moved = now - self.model.moved.get(name, -MOVED_S) < MOVED_S
        grid = self.query_one("#watches", Grid)
        troubles = len(one.warnings) + len(one.failing)
        return {
            "name": Cell(name, "strong"),
            "value": Cell(format.value(one.figure, glyphs), "accent" if moved else "strong"),
            "bar": Cell(format.interval_bar(one.figure, grid.width_of("bar"), glyphs), "dim"),
            "sure": Cell(format.certainty(one.figure, glyphs), _sureness(one)),
            "bounds": Cell(format.bounds(one.figure, glyphs), "dim"),
            **{span: self._change(one, span) for span in ("1h", "1d", "1w")},
            "spark": Cell(format.spark(one.spark, grid.width_of("spark"), glyphs), "accent"),
            "age": Cell(*self._age(one, now)),
            "relays": Cell(format.of(one.answered, one.asked, 6), _answered(one)),
            "warnings": Cell(str(troubles) if troubles else "", "warn"),
        }

    def _change(self, one: WatchState, span: str) -> Cell:
        n = one.changes.get(span)
        tone = "dim" if not n else "good" if n > 0 else "bad"
        return Cell(format.change(n, self.host.glyphs), tone)

    def _age(self, one: WatchState, now: float) -> tuple[str, str]:
        if one.updated_at is None:
            return "new", "dim"
        old = now - one.updated_at
        return format.age(old), "dim" if old < 7200 else "warn"

    def _missing(self) -> str:
        if self.model.watches:
            return NO_MATCH
        if self.model.received_at is None:
            return STARTING[self.host.brings] if self.host.brings else NO_AGENT
        if self.host.read_only:
            return "The agent has no watches."
        return NO_WATCHES


NO_AGENT = """\
Looking for the agent.

Start it with [b]nostr-agent run[/], and this page fills by itself.
Without one: [b]nostr-tui --embedded[/] brings its own,
[b]nostr-tui --demo[/] shows everything on local relays.

[$text-warning]$why[/]"""

_SOON = """

This page fills by itself, in some seconds.

[$text-warning]$why[/]"""

STARTING = {
    "agent": f"Starting an agent.{_SOON}",
    "demo": f"Starting the demo: local relays, people and an agent.{_SOON}",
}

NO_WATCHES = """\
No watches yet.

Press [b $text-accent]a[/] to add one, or paste an npub, nevent, naddr or filter here."""


def _sureness(one: WatchState) -> str:
    if one.figure is None or one.figure.lower_bound:
        return "warn"
    return "good" if one.figure.exact else "dim"


def _answered(one: WatchState) -> str:
    if one.answered == one.asked:
        return "good"
    return "warn" if one.answered else "bad"
