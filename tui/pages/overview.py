"""The first page: all watches, the one under the cursor in full, and how relays and syncs do."""

from __future__ import annotations

import asyncio
import time
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final

import msgspec
from textual.containers import Container, Horizontal
from textual.markup import escape
from textual.widgets import Static

from nostr_client.codecs.display import plural
from nostr_client.errors import InvalidInput, NostrTallyError
from tui import format
from tui.host import start
from tui.model import MOVED_S
from tui.pages import panels
from tui.pages.layout import PANELS, Placing, placing
from tui.pages.page import CONNECTING, LOOK_AGAIN_S, LOOK_EVERY_S, NO_MATCH, Page
from tui.pages.troubles import number_of
from tui.pages.watch_rows import FALLING, GROUPS, HEAD, SORTS, STATES, groups_of, listed, rows_of
from tui.widgets import people
from tui.widgets.columns import Column, next_column
from tui.widgets.frame import renew
from tui.widgets.grid import GONE, HEADER, Cell, Grid
from tui.widgets.plotting import SPANS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from textual.widget import Widget

    from agent.api.schema import People, Point, WatchState

COLUMNS = (
    Column("name", "Watch", 14, flex=3, most=40, middle=True),
    Column("value", "Value", 11, right=True, flex=1, most=14),
    Column("bar", "Interval", 9, drop=4, flex=1, most=21),
    Column("sure", "Precision", 9, drop=7, flex=1, most=9),
    Column("bounds", "95 %", 17, drop=9),
    Column("1h", "1h", 6, right=True, drop=2),
    Column("1d", "1d", 6, right=True, drop=3),
    Column("1w", "1w", 6, right=True, drop=8),
    Column("spark", "Trend", 8, drop=6, flex=2, most=24),
    Column("age", "Age", 4, right=True),
    Column("relays", "Relays", 6, right=True),
    Column("warnings", "!", 3, right=True, drop=1),
)
COUNTERS_EVERY_S = 5.0
LOOK_AFTER_S: Final = 0.4
"""A cursor that moves on within this time asks nothing of the agent."""

SPAN: Final = "1d"
MOST_POINTS: Final = 3000
MOST_PEOPLE: Final = 60


class Panel(Static):
    """A panel whose text fits its size: it is drawn again once it has a new size."""

    def __init__(self, draw_text: Callable[[], None], **options: Any) -> None:
        super().__init__(**options)
        self._draw_text = draw_text

    def on_resize(self) -> None:
        self._draw_text()


class Overview(Page):
    """Watches as a table; panels below it, in one row or two."""

    title_ = "overview"

    def __init__(self) -> None:
        super().__init__()
        self.sort, self.reverse = "name", False
        self.state = "all"
        self._folded: set[str] = set()
        self._groups: dict[str, list[str]] = {}
        """The names of each group's watches, by the key of its row."""
        self._placed = Placing()
        self._counted_at = 0.0
        self._people: People | None = None
        self._looked_at = 0.0
        """When the agent was asked for people last, by the monotonic clock."""
        self._seen: tuple[str, float | None] | None = None
        self._people_drawn: tuple[object, ...] = ()
        """What the panel of people was drawn of."""
        self._of = ""
        """The watch that the panels of one watch are about."""
        self._shown = 0
        """How many watches are listed, those of folded groups too."""
        self._looking = False
        self._log_asked = -1
        """The snapshot whose log was asked for: a request that fails waits for the next one."""

    def body(self) -> Iterable[Widget]:
        yield Static(id="watches-state", markup=False)
        yield Grid(COLUMNS, self._row, id="watches")
        yield Static(id="no-watches", classes="empty")
        with Container(id="below"):
            with Horizontal(id="upper"):
                yield Container(id="panel-plot", classes="panel")
                yield Panel(self._draw_people, id="panel-people", classes="panel")
            with Horizontal(id="panels"):
                for name in panels.NAMES:
                    yield Panel(partial(self._panel, name), id=f"panel-{name}", classes="panel")

    def on_mount(self) -> None:
        self._grid.focus()
        self.set_interval(COUNTERS_EVERY_S, self._count_soon)

    async def entered(self) -> None:
        await self._count()
        await self._look()

    # What is shown.

    def show(self, changed: set[str]) -> None:
        if changed & {"frame"}:
            self._place()
        if changed & {"watches", "link", "frame"}:
            self._list()
            self._look_soon()
        watched = {"alerts"} if changed & {"watches", "log"} else set()
        for name in panels.NAMES:
            if name in changed | watched or f"{name} shown" in changed:
                self._panel(name)
        if changed & {"link"}:
            self._draw_people()
        if changed & {"counters", "link"}:
            self._count_soon()

    def tick(self) -> None:
        super().tick()
        self._draw_people()
        if time.monotonic() - self._looked_at > LOOK_AGAIN_S:
            self._seen = None
            self._look_soon()

    @cached_property
    def _grid(self) -> Grid:
        return self.query_one("#watches", Grid)

    def _list(self) -> None:
        grid = self._grid
        grid.marked, grid.falls = self.sort, (self.sort in FALLING) != self.reverse
        found = self._found()
        self._groups = groups_of(found, self._group)
        keys = rows_of(self._groups, self._folded) or [one.spec.name for one in found]
        grid.chosen &= self.model.watches.keys()
        grid.mark = self.host.glyphs.on
        grid.styles.max_height = len(keys) + HEADER + 1 if self._placed.all else None
        grid.show(keys)
        self.say(grid, "#no-watches", self._missing())
        self._shown = len(found)
        self._head()

    def _found(self) -> list[WatchState]:
        return listed(
            self.model.watches.values(),
            wanted=self.wanted,
            state=self.state,
            sort=self.sort,
            reverse=self.reverse,
        )

    @property
    def _group(self) -> str:
        """What the watches are grouped by; an earlier version may have left another word."""
        group = self.host.settings.group
        return group if group in GROUPS else ""

    def _head(self) -> None:
        """One line above the table, where it does not show all watches in one list."""
        found = self._shown
        chosen = len(self._grid.chosen)
        group = self._group
        parts = [
            f"{self.state}: {found:,} of {plural(len(self.model.watches), 'watch', 'watches')}"
        ]
        parts += [f"by {group}"] if group else []
        parts += [f"{chosen:,} marked"] if chosen else []
        key = self._grid.key or ""
        if key in self._groups:
            parts.insert(0, f"the group {key.removeprefix(HEAD)}")
        line = self.query_one("#watches-state", Static)
        line.display = self.state != STATES[0] or bool(group) or bool(chosen)
        said = ", ".join(parts)
        if said != line.content:
            line.update(said)

    def _place(self) -> None:
        """Show the panels that fit."""
        wanted = self.host.settings.panels
        width, height = self.app.size
        self._placed = one = placing(width, height, PANELS if wanted is None else wanted)
        for name in PANELS:
            self.query_one(f"#panel-{name}").display = name in one.all
        below = self.query_one("#below")
        below.display = bool(one.all)
        below.set_class(one.is_one_row, "-one-row")
        for row, names in (("#upper", one.of_watch), ("#panels", one.of_agent)):
            self.query_one(row).display = bool(names)
            shares = sum(2 if name == "plot" else 1 for name in names)
            self.query_one(row).styles.width = f"{shares}fr" if one.is_one_row else "100%"

    def _panel(self, name: str) -> None:
        panel = self.query_one(f"#panel-{name}", Static)
        panel.border_title = name.title()
        panel.border_subtitle = f"{panels.key_of(name, self.host)}: all"
        width, height = panel.content_size
        if width and height:
            renew(panel, panels.draw(name, self.host, width, height))

    def _draw_people(self) -> None:
        panel = self.query_one("#panel-people", Static)
        panel.border_title = escape(f"People: {self._of}" if self._of else "People")
        panel.border_subtitle = f"{panels.PEOPLE_KEYS}: all"
        width, height = panel.content_size
        found = self._people.people if self._people is not None else ()
        ages = tuple(people.age_of(one, self.host.now()) for one in found)
        one = self.model.watches.get(self._of)
        is_known = one is not None and one.answered_at is not None
        drawn = (width, height, self._people, ages, is_known)
        if width and height and drawn != self._people_drawn:
            self._people_drawn = drawn
            text = panels.draw_people(self.host, self._people, width, height, is_known=is_known)
            panel.update(text, layout=False)

    # What the agent is asked.

    def _count_soon(self) -> None:
        """Look at counters that moved, at most once a second.

        Without an agent this is no look: the next agent must not have to wait for it.
        """
        if not self.model.stale and time.monotonic() - self._counted_at > 1.0:
            self._counted_at = time.monotonic()
            start(self, self._count, "count")

    async def _count(self) -> None:
        if self.is_current:
            await self.host.look_at_counters()
            self.draw({"counters shown"})

    def on_grid_pointed(self, event: Grid.Pointed) -> None:
        if self._groups:
            self._head()
        self._look_soon()

    def _look_soon(self) -> None:
        is_due = self._lacks_log or self._wanted_of() not in (None, self._seen)
        if self.is_current and not self._looking and is_due:
            start(self, self._look, "look", alone=False)

    @property
    def _lacks_log(self) -> bool:
        model = self.model
        return not (model.has_log or model.stale or self._log_asked == model.snapshots)

    def _wanted_of(self) -> tuple[str, float | None] | None:
        """The watch under the cursor, or the first of the group, and the time of its number.

        None where no panel shows it.
        """
        key = self._grid.key or ""
        one = self.model.watches.get(next(iter(self._groups.get(key, [key])), ""))
        if one is None or self.model.stale or not (self.is_current and self._placed.of_watch):
            return None
        return one.spec.name, one.updated_at

    async def _look(self) -> None:
        """Ask for history and people of the watch under the cursor, until both are shown."""
        if self._looking:
            return
        self._looking = True
        try:
            await self._look_at_log()
            while (wanted := self._wanted_of()) not in (None, self._seen):
                again = self._seen is not None and wanted is not None and wanted[0] == self._seen[0]
                await asyncio.sleep(LOOK_EVERY_S if again else LOOK_AFTER_S)
                if wanted is not None and (again or wanted == self._wanted_of()):
                    await self._fetch(wanted)
        except NostrTallyError as error:
            self.host.trouble(str(error), "overview")
        finally:
            self._looking = False

    async def _look_at_log(self) -> None:
        """Ask once in each snapshot for the log, which holds the alerts that were sent."""
        if not self._lacks_log:
            return
        self._log_asked = self.model.snapshots
        self.model.take_log((await self.host.ask(lambda client: client.log(limit=1000))).lines)
        self.draw({"alerts"})

    async def _fetch(self, wanted: tuple[str, float | None]) -> None:
        self._looked_at = time.monotonic()
        name, now = wanted[0], self.host.now()
        since = max(0.0, now - 1.2 * SPANS[SPAN])
        found = await self.host.ask(
            lambda client: client.people(
                name, since=max(0.0, now - people.SINCE_S), limit=MOST_PEOPLE
            )
        )
        history = await self.host.ask(
            lambda client: client.history(name, since=since, limit=MOST_POINTS)
        )
        self._seen, self._of, self._people = wanted, name, found
        self._draw_people()
        await self._draw_plot(history.points, now)

    async def _draw_plot(self, points: Sequence[Point], now: float) -> None:
        from tui.widgets.plot import HistoryPlot

        panel = self.query_one("#panel-plot")
        panel.border_title = escape(self._of)
        if not panel.query(HistoryPlot):
            await panel.mount(HistoryPlot(self.host.glyphs, id="overview-plot"))
        panel.query_one(HistoryPlot).show(points, now, SPAN)

    # What is done.

    def sort_by(self, column: str | None) -> None:
        if column is None:
            column = next_column(SORTS, self.sort, self._grid.hidden)
        if column in SORTS:
            self.reverse = column == self.sort and not self.reverse
            self.sort = column
            self.show({"watches"})

    @property
    def pointed(self) -> str:
        key = self._grid.key or ""
        return "" if key.startswith(HEAD) else key

    def fold(self) -> bool:
        """Close the group under the cursor, or open it; False where a watch is there."""
        key = self._grid.key or ""
        if not key.startswith(HEAD):
            return False
        self._folded ^= {key}
        self.show({"watches"})
        return True

    def choose_state(self, state: str | None) -> None:
        """Show the watches of a state, with None of the next one. Raises InvalidInput."""
        self.state = _chosen(state, self.state, STATES)
        self.show({"watches"})

    def choose_group(self, group: str | None) -> None:
        """Group the watches, with None by the next thing; "none" ends it. Raises InvalidInput."""
        chosen = _chosen("" if group == "none" else group, self._group, GROUPS)
        self.host.remember(msgspec.structs.replace(self.host.settings, group=chosen))
        self._folded.clear()
        self.show({"watches"})

    def mark(self) -> None:
        """Mark the watch under the cursor or the whole group, or unmark it; go to the next row."""
        grid = self._grid
        key = grid.key or ""
        names = set(self._groups.get(key, [key] if key else ()))
        grid.chosen = grid.chosen - names if names <= grid.chosen else grid.chosen | names
        grid.action_move(1)
        self._list()

    def mark_all(self) -> None:
        """Mark all watches that are listed, or unmark them where all are."""
        grid = self._grid
        names = {one.spec.name for one in self._found()}
        grid.chosen = grid.chosen - names if names <= grid.chosen else grid.chosen | names
        self._list()

    @property
    def chosen(self) -> list[str]:
        """The marked watches by name."""
        return sorted(self._grid.chosen)

    # Rows.

    def _row(self, key: str) -> Mapping[str, Cell]:
        if key.startswith(HEAD):
            return self._group_row(key)
        one, glyphs = self.model.watches.get(key), self.host.glyphs
        if one is None:
            return GONE
        now = self.host.now()
        moved = now - self.model.moved.get(key, -MOVED_S) < MOVED_S
        grid, at = self._grid, one.figure
        wrong = number_of(one)
        return {
            "name": Cell(key, "strong"),
            "value": Cell(format.value(at, glyphs), "accent" if moved else "strong"),
            "bar": Cell(format.interval_bar(at, grid.width_of("bar"), glyphs), "dim"),
            "sure": Cell(format.certainty(at, glyphs) or format.UNKNOWN, _sureness(one)),
            "bounds": Cell(format.bounds(at, glyphs) or format.UNKNOWN, "dim"),
            **{span: self._change(one, span) for span in ("1h", "1d", "1w")},
            "spark": self._trend(one, grid.width_of("spark")),
            "age": Cell(*self._age(one, now)),
            "relays": Cell(format.of(one.answered, one.asked, 6), _answered(one)),
            "warnings": Cell(str(wrong), "warn" if wrong else "dim"),
        }

    def _group_row(self, key: str) -> Mapping[str, Cell]:
        sign = self.host.glyphs.beyond if key in self._folded else self.host.glyphs.down
        n = len(self._groups.get(key, ()))
        return {"name": Cell(f"{sign} {key[1:]}", "accent"), "value": Cell(f"{n:,}", "dim")}

    def _change(self, one: WatchState, span: str) -> Cell:
        if span not in one.changes:
            return Cell(format.ahead(SPANS[span], one.since, self.host.now()), "dim")
        n = one.changes[span]
        tone = "dim" if not n else "good" if n > 0 else "bad"
        return Cell(format.seen_change(one, span, self.host.glyphs), tone)

    def _trend(self, one: WatchState, width: int) -> Cell:
        """The line of the numbers; before there are two, since when it is counted."""
        if len(one.spark) > 1:
            return Cell(format.spark(one.spark, width, self.host.glyphs), "accent")
        return Cell(format.begun(one.since, width, self.host.glyphs), "dim")

    def _age(self, one: WatchState, now: float) -> tuple[str, str]:
        if one.updated_at is None:
            return "new", "dim"
        if one.answered_at is None:
            return "-", "warn"
        old = now - one.answered_at
        return format.age(old), "dim" if old < 7200 else "warn"

    def unknown(self) -> str:
        if self.host.brings:
            return STARTING[self.host.brings]
        if self.model.link != "away":
            return CONNECTING
        if not self.host.can_bring_agent:
            return NO_AGENT
        return (NO_ANSWER if self.model.found else NONE_RUNS) + FIRST_RUN

    def _missing(self) -> str:
        if self.model.watches:
            return NO_MATCH if self.state == STATES[0] else NONE_IN_STATE
        if self.host.read_only:
            return "The agent has no watches."
        return NO_WATCHES


def _chosen(wanted: str | None, before: str, names: Sequence[str]) -> str:
    """The name that is wanted, by its first letters, or with None the next one."""
    if wanted is None:
        return names[(names.index(before) + 1) % len(names)] if before in names else names[0]
    found = [one for one in names if one.startswith(wanted.lower())] if wanted else [""]
    if not found or found[0] not in names:
        raise InvalidInput(f"there are: {', '.join(filter(None, names))}")
    return found[0]


NONE_IN_STATE = "No watch is in this state, or none with these words.\n\n[b]f[/] shows others."

NO_AGENT = """\
Looking for the agent.

Start it with [b]nostr-agent run[/], and this page fills by itself.
Without one: [b]nostr-tui --embedded[/] brings its own,
[b]nostr-tui --demo[/] shows everything on local relays.

[$text-warning]$why[/]"""

NONE_RUNS = "No agent is running."

NO_ANSWER = "The agent does not answer."

FIRST_RUN = """

Paste an npub, name@domain, nevent, naddr or link here, or press [b $text-accent]a[/]:
choose what to count, and an agent starts with this program.

[b]nostr-agent run[/] starts one that goes on when you leave,
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

Press [b $text-accent]a[/] to add one, or paste here what to watch:
an npub, name@domain, nevent, naddr or filter."""


def _sureness(one: WatchState) -> str:
    if one.figure is None or one.figure.lower_bound:
        return "warn"
    return "good" if one.figure.exact else "dim"


def _answered(one: WatchState) -> str:
    if one.answered == one.asked:
        return "good"
    return "warn" if one.answered else "bad"
