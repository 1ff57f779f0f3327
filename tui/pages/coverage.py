"""Which relays have whose events: all coverages, and the matrix of the one under the cursor.

The matrix is a heat map that can be read without colours: each cell has a bar and its per cent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from textual.widgets import Static

from nostr_client.codecs.display import plural
from nostr_client.watch.digest import COVERAGE_LINE
from tui import format
from tui.pages.page import NO_MATCH, Page
from tui.widgets.columns import Column, matches
from tui.widgets.grid import GONE, HEAT_WIDTH, Cell, Grid, heat

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from textual.widget import Widget

    from agent.api.schema import CoverageRun, CoverageState, HeldKind, RelayCoverage
    from tui.glyphs import Glyphs

COVERAGES = (
    Column("name", "Coverage", 12, flex=3, most=40, middle=True),
    Column("state", "State", 9),
    Column("known", "Events", 7, right=True),
    Column("least", "Least", 6, right=True),
    Column("whole", "Compared", 8, right=True),
    Column("repair", "Repair", 6, drop=2),
    Column("every", "Every", 5, right=True, drop=1),
    Column("at", "Ended", 9, right=True),
)
RELAY: Final = Column("relay", "Relay", 18, flex=3, most=44, middle=True)
ALL: Final = Column("all", "All", HEAT_WIDTH, right=True)
AFTER: Final = (
    Column("undeleted", "Deleted", 7, right=True, drop=98),
    Column("why", "Why", 12, flex=4, drop=99),
)
MOST_KINDS: Final = 50


class CoveragePage(Page):
    """Coverages above, the matrix of one below."""

    title_ = "coverage"

    def body(self) -> Iterable[Widget]:
        yield Grid(COVERAGES, self._row, id="coverages", marked="name")
        yield Static(id="no-coverages", classes="empty")
        yield Grid((RELAY, ALL), self._relay_row, id="matrix")

    async def entered(self) -> None:
        self.query_one("#coverages").focus()

    def show(self, changed: set[str]) -> None:
        if not changed & {"coverages", "link", "frame"}:
            return
        grid = self.query_one("#coverages", Grid)
        grid.show([name for name in sorted(self.model.coverages) if matches(self.wanted, name)])
        self.say(grid, "#no-coverages", NO_MATCH if self.model.coverages else NONE)
        self._matrix()

    def on_grid_pointed(self, event: Grid.Pointed) -> None:
        if event.grid.id == "coverages":
            self._matrix()

    @property
    def _run(self) -> CoverageRun | None:
        one = self.model.coverages.get(self.pointed)
        return None if one is None else one.run

    def _matrix(self) -> None:
        run, below = self._run, self.query_one("#matrix", Grid)
        other = below.border_title != self.pointed
        below.use(columns_of(run))
        below.show([one.relay for one in run.relays] if run else [], from_top=other)
        below.border_title = self.pointed
        below.display = bool(self.model.coverages)

    def _row(self, name: str) -> Mapping[str, Cell]:
        one, now = self.model.coverages.get(name), self.host.now()
        if one is None:
            return GONE
        state, tone = _state(one)
        found = {
            "name": Cell(name, "strong"),
            "state": Cell(state, tone),
            "repair": Cell("yes" if one.spec.repair else "no", "dim"),
            "every": Cell(one.spec.interval, "dim"),
            **dict.fromkeys(("known", "least", "whole", "at"), Cell(format.UNKNOWN, "dim")),
        }
        run = one.run
        if run is None:
            return found
        shares = [relay.share for relay in run.relays if relay.share is not None]
        least = min(shares, default=None)
        compared, total = sum(relay.compared for relay in run.relays), len(run.relays)
        return found | {
            "known": Cell(format.number(run.known)),
            "least": Cell("?" if least is None else format.percent(least), _tone(least)),
            "whole": Cell(f"{compared}/{total}", "" if compared == total else "warn"),
            "at": Cell(f"{format.age(now - run.at)} ago", "dim"),
        }

    def _relay_row(self, relay: str) -> Mapping[str, Cell]:
        run = self._run
        one = next((each for each in run.relays if each.relay == relay), None) if run else None
        if run is None or one is None:
            return GONE
        return {
            "relay": Cell(format.host(relay), "strong"),
            "all": _heat(one.share, self.host.glyphs),
            **_kinds(run, one, self.host.glyphs),
            "undeleted": Cell(
                "?" if not (one.compared or one.undeleted) else format.number(one.undeleted),
                "warn" if one.undeleted else "dim",
            ),
            "why": Cell(_remark(one), "dim"),
        }

    def whole(self) -> tuple[str, str]:
        title, text = super().whole()
        one = self.model.coverages.get(title)
        if one is None:
            return title, text
        lines = [f"Failed: {one.why}"] if one.why else []
        if one.run is not None:
            lines += _known(one.run)
            lines += [f"{relay.relay}: {_reached(relay)}" for relay in one.run.relays]
        return title, "\n".join([text, *map(format.plain, lines)])


NONE: Final = (
    "No coverage yet.\n\n"
    "The agent compares the relays of each \\[\\[coverage]] of its configuration."
)


def columns_of(run: CoverageRun | None) -> tuple[Column, ...]:
    """The columns of a run: a kind with more events stays longer where there is no room."""
    if run is None:
        return RELAY, ALL
    ranked = sorted(run.kinds, key=lambda one: (-one.known, one.kind))[:MOST_KINDS]
    drops = {one.kind: n for n, one in enumerate(ranked)}
    kinds = tuple(
        Column(f"kind {one.kind}", f"k{one.kind}", HEAT_WIDTH, right=True, drop=drops[one.kind])
        for one in run.kinds
        if one.kind in drops
    )
    return RELAY, ALL, *kinds, *AFTER


def _state(one: CoverageState) -> tuple[str, str]:
    """What a coverage does, and its tone."""
    if one.running:
        return "running", "accent"
    if one.why:
        return "failed", "bad"
    if one.run is None:
        return "new", "dim"
    if one.run.complete and not one.run.known:
        return "no events", "warn"
    return ("complete", "good") if one.run.complete else ("partial", "warn")


def _known(run: CoverageRun) -> list[str]:
    """Whether no event is known, and how many of the known ones no repair moves."""
    none = [] if run.known else ["No event is known, so no relay's share is known."]
    kept = ((run.protected, "protected by the author (NIP-70)"), (run.expired, "expired (NIP-40)"))
    return none + [f"{plural(n, 'event')} {why}: not moved." for n, why in kept if n]


def _remark(relay: RelayCoverage) -> str:
    """Why a relay was not compared to its end, and how much it names that nothing confirms."""
    alone = format.number(relay.unconfirmed)
    claim = f"{alone} named, not confirmed" if relay.unconfirmed else ""
    return "; ".join(part for part in (relay.why, claim) if part)


def _reached(relay: RelayCoverage) -> str:
    """How much of the events a relay has, and why that is not known or not all."""
    part = "not known" if relay.share is None else f"{format.percent(relay.share)} of the events"
    return ", ".join(filter(None, (part, _remark(relay))))


def _kinds(run: CoverageRun, relay: RelayCoverage, glyphs: Glyphs) -> Mapping[str, Cell]:
    known = {one.kind: one.known for one in run.kinds}
    return {f"kind {one.kind}": _part(one, known[one.kind], glyphs) for one in relay.kinds}


def _part(one: HeldKind, known: int, glyphs: Glyphs) -> Cell:
    """A kind; of one that was not compared to its end what is known at least."""
    if one.whole:
        missing = known - one.held if one.missing is None else one.missing
        total = one.held + missing
        return _heat(one.held / total if total else None, glyphs)
    if not one.held:
        return Cell("?", "dim")
    return Cell(f"{glyphs.least}{format.percent(one.held / known)}", "dim")


def _heat(part: float | None, glyphs: Glyphs) -> Cell:
    return heat(part, _tone(part), glyphs)


def _tone(part: float | None) -> str:
    if part is None:
        return "dim"
    return "good" if part == 1 else "warn" if part >= COVERAGE_LINE else "bad"
