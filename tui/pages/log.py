"""The agent's log, as it grows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.widgets import Static

from nostr_client.codecs.display import plural
from nostr_client.errors import NostrTallyError, clip
from tui import format
from tui.pages.page import Page
from tui.widgets.columns import Column, matches
from tui.widgets.grid import GONE, Cell, Grid

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from textual.widget import Widget

    from agent.api.schema import LogLine

COLUMNS = (
    Column("at", "Time", 8),
    Column("level", "Level", 7),
    Column("event", "Event", 14, flex=1, most=24),
    Column("fields", "Fields", 20, flex=6),
)
LEVELS = ("debug", "info", "warning", "error")
TONES = {"debug": "dim", "info": "", "warning": "warn", "error": "bad"}


class LogPage(Page):
    """Lines as a table that stays with its end."""

    title_ = "log"

    def __init__(self) -> None:
        super().__init__()
        self.level = "debug"
        self.following = True
        self._lines: dict[str, LogLine] = {}

    def body(self) -> Iterable[Widget]:
        yield Static(id="log-state", markup=False)
        yield Grid(COLUMNS, self._row, id="lines", marked="at")
        yield Static(id="no-lines", classes="empty")

    async def entered(self) -> None:
        self.query_one("#lines").focus()
        try:
            found = await self.host.ask(lambda client: client.log(limit=1000))
        except NostrTallyError as error:
            self.host.trouble(str(error), "log")
        else:
            self.model.take_log(found.lines)
            self.show({"log"})

    def show(self, changed: set[str]) -> None:
        if not changed & {"log", "frame", "link"}:
            return
        least = LEVELS.index(self.level)
        self._lines = {
            str(line.n): line
            for line in self.model.log
            if _rank(line) >= least and matches(self.wanted, line.event, fields(line))
        }
        state = "following" if self.following else "held"
        self.query_one("#log-state", Static).update(
            f"{plural(len(self._lines), 'line')}, {self.level} and above, {state}"
        )
        grid = self.query_one("#lines", Grid)
        grid.show(list(self._lines))
        self.say(grid, "#no-lines", self._missing())
        if self.following:
            grid.action_to(-1)

    def choose_level(self, level: str | None) -> None:
        """The level named, else the next one."""
        if level not in LEVELS:
            level = LEVELS[(LEVELS.index(self.level) + 1) % len(LEVELS)]
        self.level = level
        self.show({"log"})

    def toggle_follow(self) -> None:
        """Stay with the end, or do not."""
        self.following = not self.following
        self.show({"log"})

    def _row(self, n: str) -> Mapping[str, Cell]:
        line = self._lines.get(n)
        if line is None:
            return GONE
        return {
            "at": Cell(format.clock(line.at), "dim"),
            "level": Cell(line.level, TONES.get(line.level, "")),
            "event": Cell(line.event, "strong"),
            "fields": Cell(fields(line), TONES.get(line.level, "")),
        }

    def copied(self) -> str:
        line = self._lines.get(self.pointed)
        if line is None:
            return ""
        return f"{format.clock(line.at, date=True)} {line.level} {line.event} {fields(line)}"

    def whole(self) -> tuple[str, str]:
        line = self._lines.get(self.pointed)
        if line is None:
            return "", ""
        title = f"{format.clock(line.at, date=True)} {line.level} {line.event}"
        texts = [f"{key}: {value}" for key, value in line.fields.items()]
        return title, "\n".join(map(format.plain, texts)) or "no fields"

    def _missing(self) -> str:
        if self.model.log:
            return "No line of this level with these words.\n\n[b]l[/] changes the level."
        return "Nothing in the log yet."


def fields(line: LogLine) -> str:
    """The content of a log line, in one line."""
    return " ".join(f"{key}={clip(str(value), 300)}" for key, value in line.fields.items())


def _rank(line: LogLine) -> int:
    return LEVELS.index(line.level) if line.level in LEVELS else 1
