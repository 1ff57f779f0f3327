"""How many people the relays of a watch share: a matrix of relays, and the pairs of one relay.

The matrix is a heat map that can be read without colours: each cell has a bar and its per cent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from textual.markup import escape
from textual.widgets import Static

from tui import format
from tui.pages.page import NO_MATCH
from tui.pages.watched import WatchedPage
from tui.widgets.columns import Column, matches
from tui.widgets.grid import GONE, HEAT_WIDTH, Cell, Grid, heat

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from textual.widget import Widget

    from agent.api.schema import SharedPeople, WatchOverlaps
    from tui.glyphs import Glyphs

RELAY: Final = Column("relay", "Relay", 20, flex=3, most=44, middle=True)
WHY: Final = Column("why", "Why not compared", 16, flex=4, drop=1000)
PAIRS: Final = (
    Column("relay", "With", 20, flex=3, most=44, middle=True),
    Column("people", "On both", 11, right=True),
    Column("part", "Share", 7, right=True),
    Column("interval", "95 %", 8, right=True),
)
MUCH: Final = 0.5
"""From this part on, a pair stands out."""

WAIT: Final = "Comparing the relays of $name."
NONE: Final = "No relay has answered yet."
NO_WATCH: Final = "There is no watch to compare the relays of."
NO_PAIR: Final = "not compared: $why"


class OverlapPage(WatchedPage):
    """The matrix above, all pairs of the relay under its cursor below."""

    title_ = "overlap"

    def __init__(self) -> None:
        super().__init__()
        self._found: WatchOverlaps | None = None
        self._pairs: dict[tuple[str, str], SharedPeople] = {}
        self._compared: list[str] = []
        self._lacking: dict[str, str] = {}
        self._listed = ("", "")
        """The watch and the relay that are listed."""

    def body(self) -> Iterable[Widget]:
        yield Grid((RELAY,), self._row, id="matrix")
        yield Static(id="no-matrix", classes="empty")
        yield Grid(PAIRS, self._pair_row, id="pairs")
        yield Static(id="no-pairs", classes="empty")

    async def entered(self) -> None:
        self.query_one("#matrix").focus()
        await self.look()

    def show(self, changed: set[str]) -> None:
        if changed & {"watches", "link", "frame"}:
            self._list()
            self.look_if_moved()

    async def fetch(self, name: str) -> None:
        found = await self.host.ask(lambda client: client.overlaps(name))
        self._found = found
        self._pairs = {one.relays: one for one in found.overlaps}
        self._pairs |= {one.relays[::-1]: one for one in found.overlaps}
        self._compared = list(dict.fromkeys(url for one in found.overlaps for url in one.relays))
        self._lacking = {one.relay: one.why for one in found.uncompared}
        self._list()

    def on_grid_pointed(self, event: Grid.Pointed) -> None:
        if event.grid.id == "matrix":
            self._list_pairs()

    @property
    def _is_of_watch(self) -> bool:
        """Whether what was found is about the watch that is shown."""
        return self._found is not None and self._found.watch == self.host.watched

    def _list(self) -> None:
        grid, name = self.query_one("#matrix", Grid), self.host.watched
        other, self._listed = self._listed[0] != name, (name, "")
        relays = [*self._compared, *self._lacking] if self._is_of_watch else []
        grid.use(columns_of(self._compared, lacks=bool(self._lacking)))
        grid.show([url for url in relays if matches(self.wanted, url)], from_top=other)
        grid.border_title = escape(f"{name}: people on both relays, of all on either")
        words = NO_MATCH if relays else NONE if self._is_of_watch else WAIT
        words = words if self.shown else NO_WATCH
        self.say(grid, "#no-matrix", words, name=name)
        self._list_pairs()

    def _list_pairs(self) -> None:
        grid, relay = self.query_one("#pairs", Grid), self.pointed
        others = [url for url in self._compared if (relay, url) in self._pairs]
        other, self._listed = self._listed[1] != relay, (self._listed[0], relay)
        grid.show(others if self._is_of_watch else [], from_top=other)
        grid.border_title = escape(relay)
        self.say(grid, "#no-pairs", NO_PAIR, why=format.plain(self._lacking.get(relay, "")))
        self.query_one("#no-pairs").display = relay in self._lacking

    def _row(self, relay: str) -> Mapping[str, Cell]:
        numbers = {url: n for n, url in enumerate(self._compared, 1)}
        before = f"{numbers[relay]} " if relay in numbers else ""
        return {
            "relay": Cell(f"{before}{format.host(relay)}", "strong"),
            **{url: self._cell(relay, url) for url in self._compared},
            "why": Cell(self._lacking.get(relay, ""), "dim"),
        }

    def _cell(self, relay: str, other: str) -> Cell:
        if relay == other:
            return Cell(self.host.glyphs.dot, "dim")
        return shared_cell(self._pairs.get((relay, other)), self.host.glyphs)

    def _pair_row(self, other: str) -> Mapping[str, Cell]:
        one = self._pairs.get((self.pointed, other))
        if one is None:
            return GONE
        glyphs = self.host.glyphs
        return {
            "relay": Cell(format.host(other), "strong"),
            "people": Cell(people_of(one, glyphs)),
            "part": Cell(part_of(one, glyphs)),
            "interval": Cell("exact" if one.exact else range_of(one, glyphs)),
        }

    def whole(self) -> tuple[str, str]:
        """The relay under the cursor, and each of its pairs in a sentence."""
        relay = self.pointed
        if relay in self._lacking:
            return relay, format.plain(f"Not compared: {self._lacking[relay]}")
        glyphs = self.host.glyphs
        pairs = ((url, self._pairs.get((relay, url))) for url in self._compared)
        lines = [f"{format.plain(url)}: {in_words(one, glyphs)}" for url, one in pairs if one]
        return relay, "\n".join(lines)


def columns_of(relays: Sequence[str], *, lacks: bool) -> tuple[Column, ...]:
    """The columns of the matrix: one for each relay; the first relays stay where room lacks."""
    numbered = tuple(
        Column(url, f"{n}", HEAT_WIDTH, right=True, drop=n) for n, url in enumerate(relays, 1)
    )
    return (RELAY, *numbered, *((WHY,) if lacks else ()))


def shared_cell(one: SharedPeople | None, glyphs: Glyphs) -> Cell:
    """A pair in the matrix: its part of all on either; a range where that may be nobody."""
    if one is None or _is_unknown(one):
        return heat(None, "", glyphs)
    text = range_of(one, glyphs) if one.noise else part_of(one, glyphs)
    tone = "dim" if one.noise else "accent" if one.jaccard >= MUCH else ""
    return heat(one.jaccard, tone, glyphs, text.replace(" ", ""))


def people_of(one: SharedPeople, glyphs: Glyphs) -> str:
    """How many people are on both relays, unless that may be nobody."""
    if _is_unknown(one):
        return format.UNKNOWN
    if one.noise:
        return "maybe none"
    return format.number(one.people) if one.exact else f"{glyphs.about} {format.number(one.people)}"


def part_of(one: SharedPeople, glyphs: Glyphs) -> str:
    """The people on both, of all on either."""
    if _is_unknown(one):
        return format.UNKNOWN
    part = format.percent(one.jaccard)
    return part if one.exact else f"{glyphs.about} {part}"


def range_of(one: SharedPeople, glyphs: Glyphs) -> str:
    """The interval of that part, rounded outwards."""
    return format.percent_range(one.low, one.high, glyphs)


def in_words(one: SharedPeople, glyphs: Glyphs) -> str:
    """A pair in a sentence, with its interval."""
    sure = "exact" if one.exact else f"95 %: {range_of(one, glyphs)}"
    return f"{people_of(one, glyphs)} on both, {part_of(one, glyphs)} of all on either ({sure})"


def _is_unknown(one: SharedPeople) -> bool:
    """Whether the interval says nothing: the share may be anything from 0 to 1."""
    return not one.low and one.high == 1
