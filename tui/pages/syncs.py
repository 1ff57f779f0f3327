"""All syncs, and how the one under the cursor gets on with each relay."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.widgets import Static

from tui import format
from tui.pages.page import NO_MATCH, Page
from tui.pages.panels import sync_part
from tui.widgets.columns import Column, matches
from tui.widgets.grid import GONE, Cell, Grid

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from textual.widget import Widget

    from agent.api.schema import RelayReport, Sync

SYNCS = (
    Column("name", "Sync", 14, flex=3, most=40, middle=True),
    Column("state", "State", 9),
    Column("bar", "Progress", 10, flex=2, most=24),
    Column("direction", "Direction", 9, drop=4),
    Column("down", "Down", 7, right=True),
    Column("up", "Up", 7, right=True, drop=2),
    Column("saved", "Saved", 7, right=True, drop=1),
    Column("every", "Every", 5, right=True, drop=3),
    Column("ended", "Ended", 9, right=True),
)
RELAYS = (
    Column("relay", "Relay", 16, flex=3, most=44, middle=True),
    Column("status", "Status", 11),
    Column("windows", "Windows", 7, right=True, drop=3),
    Column("rounds", "Rounds", 6, right=True, drop=2),
    Column("have", "Have", 6, right=True),
    Column("need", "Need", 6, right=True),
    Column("down", "Down", 6, right=True),
    Column("up", "Up", 6, right=True),
    Column("saved", "Saved", 7, right=True, drop=1),
    Column("eta", "ETA", 5, right=True),
    Column("why", "Why", 12, flex=4, drop=4),
)
MEAN_BYTES = 600
"""Of an event on the wire, as `nostr-client sync run` reckons too."""


class SyncsPage(Page):
    """Syncs above, the relays of one below."""

    title_ = "syncs"

    def body(self) -> Iterable[Widget]:
        yield Grid(SYNCS, self._row, id="syncs", marked="name")
        yield Static(id="no-syncs", classes="empty")
        yield Grid(RELAYS, self._relay_row, id="sync-relays")

    async def entered(self) -> None:
        self.query_one("#syncs").focus()

    def show(self, changed: set[str]) -> None:
        if not changed & {"syncs", "link", "frame"}:
            return
        grid = self.query_one("#syncs", Grid)
        grid.show([name for name in sorted(self.model.syncs) if matches(self.wanted, name)])
        self.say(grid, "#no-syncs", self._missing())
        self._list()

    def on_grid_pointed(self, event: Grid.Pointed) -> None:
        if event.grid.id == "syncs":
            self._list()

    def _list(self) -> None:
        one = self.model.syncs.get(self.pointed)
        below = self.query_one("#sync-relays", Grid)
        other = below.border_title != self.pointed
        below.show([relay.relay for relay in one.relays] if one else [], from_top=other)
        below.border_title = self.pointed

    def _row(self, name: str) -> Mapping[str, Cell]:
        one, glyphs = self.model.syncs.get(name), self.host.glyphs
        if one is None:
            return GONE
        wide = self.query_one("#syncs", Grid).width_of("bar")
        state = "running" if one.running else one.outcome or "new"
        ended = "" if one.running else "never"
        if one.ended_at:
            ended = f"{format.age(self.host.now() - one.ended_at)} ago"
        return {
            "name": Cell(name, "strong"),
            "state": Cell(state, TONES.get(state, "warn")),
            "bar": Cell(format.progress(sync_part(one), wide, glyphs), TONES.get(state, "")),
            "direction": Cell(one.spec.direction, "dim"),
            "down": Cell(format.number(sum(r.downloaded for r in one.relays))),
            "up": Cell(format.number(sum(r.uploaded for r in one.relays))),
            "saved": Cell(format.size(sum(map(saved, one.relays))), "dim"),
            "every": Cell(one.spec.interval, "dim"),
            "ended": Cell(ended, "dim"),
        }

    def _relay_row(self, relay: str) -> Mapping[str, Cell]:
        sync = self.model.syncs.get(self.pointed)
        one = next((r for r in sync.relays if r.relay == relay), None) if sync else None
        if sync is None or one is None:
            return GONE
        return {
            "relay": Cell(format.host(relay), "strong"),
            "status": Cell(one.status, TONES.get(one.status, "bad")),
            "windows": Cell(format.number(one.windows), "dim"),
            "rounds": Cell(format.number(one.rounds), "dim"),
            "have": Cell(format.known(one.have if _is_compared(one) else None)),
            "need": Cell(format.known(one.need if _is_compared(one) else None)),
            "down": Cell(format.number(one.downloaded), "good" if one.downloaded else "dim"),
            "up": Cell(format.number(one.uploaded), "good" if one.uploaded else "dim"),
            "saved": Cell(format.size(saved(one)), "dim"),
            "eta": Cell(self._eta(sync, one), "accent"),
            "why": Cell(one.reason, "dim"),
        }

    def _eta(self, sync: Sync, one: RelayReport) -> str:
        """About when it is done, at the pace so far."""
        if not sync.running:
            return ""
        more = one.need + one.have - one.downloaded - one.uploaded
        if more <= 0:
            return "0s"
        pace = self.model.paces.get((sync.spec.name, one.relay))
        left = pace.left(more) if pace else None
        return format.UNKNOWN if left is None else format.age(left)

    def whole(self) -> tuple[str, str]:
        title, text = super().whole()
        one = self.model.syncs.get(title)
        if one is None:
            return title, text
        relays = (f"{r.relay}: {r.status}{f', {r.reason}' if r.reason else ''}" for r in one.relays)
        return title, "\n".join([text, "", *map(format.plain, relays)])

    def _missing(self) -> str:
        if self.model.syncs:
            return NO_MATCH
        if self.host.read_only:
            return "The agent has no syncs."
        return "No syncs yet.\n\nPress [b $text-accent]a[/] to keep the events of a filter."


TONES = {"running": "accent", "complete": "good", "new": "dim", "partial": "warn"}


def _is_compared(one: RelayReport) -> bool:
    """Whether anything shows what differs; before, zero would be a claim."""
    return one.status == "complete" or bool(one.compared or one.need or one.have)


def saved(one: RelayReport) -> int:
    """About how many bytes a transfer of everything compared would have cost more."""
    return max(0, one.compared * MEAN_BYTES - one.bytes_sent - one.bytes_received)
