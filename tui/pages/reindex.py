"""The bulk rebuild of what the agent derives: its stages as they go, and what a check found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.widgets import Static

from agent.api.schema import Rebuild
from nostr_client.codecs.display import plural
from nostr_client.errors import NostrTallyError, clip
from tui import format
from tui.host import start
from tui.pages.page import Page
from tui.widgets.columns import Column
from tui.widgets.grid import GONE, Cell, Grid

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from textual.widget import Widget

STAGES = (
    Column("stage", "Stage", 13, flex=1, most=20),
    Column("state", "State", 8),
    Column("bar", "Progress", 10, flex=3, most=40),
    Column("rows", "Rows", 11, right=True),
    Column("took", "Took", 7, right=True),
)
DIFFERENCES = (
    Column("table", "Table", 11),
    Column("key", "Row", 20, flex=3),
    Column("cause", "Cause", 24, flex=4),
)
TONES = {"done": "good", "running": "accent", "started": "accent", "skipped": "dim"}


class ReindexPage(Page):
    """Stages above, differences below; refreshed every second while the page is in front."""

    title_ = "reindex"

    def __init__(self) -> None:
        super().__init__()
        self._shown = Rebuild()

    def body(self) -> Iterable[Widget]:
        yield Static(id="rebuild-state", markup=False)
        yield Grid(STAGES, self._stage_row, id="stages")
        yield Static(id="no-stages", classes="empty")
        yield Grid(DIFFERENCES, self._difference_row, id="differences")

    async def entered(self) -> None:
        self.query_one("#stages").focus()
        await self.look()

    def tick(self) -> None:
        super().tick()
        start(self, self.look, "look")

    async def look(self) -> None:
        """Ask how it goes; an agent that is away is shown in the heading already."""
        try:
            self._shown = await self.host.ask(lambda client: client.rebuild())
        except NostrTallyError:
            return
        self.show({"rebuild"})

    def show(self, changed: set[str]) -> None:
        if not changed & {"rebuild", "frame", "link"}:
            return
        self.query_one("#rebuild-state", Static).update(headline(self._shown))
        grid = self.query_one("#stages", Grid)
        grid.show([one.name for one in self._shown.stages])
        self.say(grid, "#no-stages", _missing(read_only=self.host.read_only))
        below = self.query_one("#differences", Grid)
        below.show([str(n) for n in range(len(self._shown.differences))])
        below.display = bool(below.keys)

    def _stage_row(self, name: str) -> Mapping[str, Cell]:
        one = next((stage for stage in self._shown.stages if stage.name == name), None)
        if one is None:
            return GONE
        ended = one.state in ("done", "skipped")
        part = 1.0 if ended else one.done / one.total if one.total else 0.0
        wide = {p.column.key: p.width for p in self.query_one("#stages", Grid).placed()}
        tone = TONES.get(one.state, "")
        bar = format.progress(part, wide.get("bar", 10), self.host.glyphs)
        return {
            "stage": Cell(one.name, "strong"),
            "state": Cell(one.state, tone),
            "bar": Cell(bar, tone),
            "rows": Cell(format.number(one.rows) if one.rows else "", ""),
            "took": Cell(f"{one.seconds:.1f} s" if one.seconds else "", "dim"),
        }

    def _difference_row(self, n: str) -> Mapping[str, Cell]:
        found = self._shown.differences
        if int(n) >= len(found):
            return GONE
        one = found[int(n)]
        return {
            "table": Cell(one.table, "warn"),
            "key": Cell(clip(one.key, 200), "strong"),
            "cause": Cell(clip(one.cause, 200)),
        }

    def whole(self) -> tuple[str, str]:
        below = self.query_one("#differences", Grid)
        if self.focused is not below or below.key is None:
            return super().whole()
        one = self._shown.differences[int(below.key)]
        return one.table, f"{format.plain(one.key)}\n\n{format.plain(one.cause)}"

    def copied(self) -> str:
        return "\n".join(f"{d.table}\t{d.key}\t{d.cause}" for d in self._shown.differences)


def headline(one: Rebuild) -> str:
    """How it stands, in a line."""
    words: list[str] = ["running" if one.running else one.outcome or "never"]
    if one.engine:
        words.append(f"by {one.engine}: {one.why}")
    if one.generation is not None:
        words.append(f"generation {one.generation}")
    if one.found is not None:
        words.append(plural(one.found, "difference"))
    if one.message and one.outcome == "failed":
        words.append(clip(one.message, 200))
    return " · ".join(words)


def _missing(*, read_only: bool) -> str:
    if read_only:
        return "Nothing was rebuilt in this run of the agent."
    return "Nothing was rebuilt yet.\n\nPress [b $text-accent]r[/] to rebuild what is derived."
