"""All relays: how they do, what they can, and what they say of themselves."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
from textual.content import Content
from textual.markup import escape
from textual.widgets import Static

from nostr_client.errors import NostrTallyError
from tui import format
from tui.host import start
from tui.pages.page import NO_MATCH, Page
from tui.pages.panels import relay_sign
from tui.widgets.columns import Column, matches, next_column
from tui.widgets.grid import GONE, Cell, Grid

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from textual.widget import Widget

    from agent.api.schema import RelayInfo, RelayState

COLUMNS = (
    Column("sign", "", 1),
    Column("url", "Relay", 18, flex=3, most=48, middle=True),
    Column("status", "Status", 12, drop=5),
    Column("latency", "Latency", 7, right=True),
    Column("rate", "OK", 4, right=True),
    Column("count", "COUNT", 5),
    Column("hll", "HLL", 3),
    Column("negentropy", "NEG", 3),
    Column("auth", "AUTH", 4),
    Column("tasks", "Tasks", 5, right=True, drop=2),
    Column("failing", "Fail", 4, right=True, drop=1),
    Column("in", "In", 6, right=True, drop=4),
    Column("out", "Out", 6, right=True, drop=6),
    Column("error", "Last error", 12, drop=3, flex=5),
)
SORTS = ("url", "status", "latency", "rate", "tasks", "failing", "in", "out")
FALLING = ("tasks", "failing", "in", "out")
"""Columns whose largest value comes first, as long as the order is not turned."""
ABLE = ("count", "hll", "negentropy", "auth")


class RelaysPage(Page):
    """Relays as a table, and the one under the cursor below it."""

    title_ = "relays"

    def __init__(self) -> None:
        super().__init__()
        self.sort, self.reverse = "url", False
        self._infos: dict[str, RelayInfo | str] = {}

    def body(self) -> Iterable[Widget]:
        yield Grid(COLUMNS, self._row, id="relays")
        yield Static(id="no-relays", classes="empty")
        yield Static(id="about", classes="panel")

    async def entered(self) -> None:
        self.query_one("#relays").focus()
        self._infos.clear()
        await self._inform(self.pointed)

    def show(self, changed: set[str]) -> None:
        if not changed & {"relays", "link", "frame"}:
            return
        grid = self.query_one("#relays", Grid)
        grid.marked, grid.falls = self.sort, (self.sort in FALLING) != self.reverse
        grid.show(self._urls())
        self.say(grid, "#no-relays", self._missing())
        self._about()

    def sort_by(self, column: str | None) -> None:
        if column is None:
            column = next_column(SORTS, self.sort, self.query_one("#relays", Grid).hidden)
        if column in SORTS:
            self.reverse = column == self.sort and not self.reverse
            self.sort = column
            self.show({"relays"})

    def _urls(self) -> list[str]:
        found = [
            (self._rank(one), url)
            for url, one in self.model.relays.items()
            if matches(self.wanted, url, one.status, one.last_error)
        ]
        found.sort(reverse=self.reverse)
        return [url for _, url in found]

    def _rank(self, one: RelayState) -> Any:
        match self.sort:
            case "status":
                return one.status
            case "latency":
                return 1e12 if one.latency_ms is None else one.latency_ms
            case "rate":
                return one.success_rate
            case "in":
                return -one.bytes_received
            case "out":
                return -one.bytes_sent
            case "tasks" | "failing":
                return -getattr(one, self.sort)
        return one.url

    def _row(self, url: str) -> Mapping[str, Cell]:
        one, glyphs = self.model.relays.get(url), self.host.glyphs
        if one is None:
            return GONE
        up = one.status == "connected"
        tone = ("warn" if one.failing else "good") if up else "bad"
        if one.status == "initialized":
            tone = "dim"
        marks = {name: _able(getattr(one.capabilities, name), self) for name in ABLE}
        return {
            "sign": Cell(relay_sign(one, glyphs), tone),
            "url": Cell(format.host(url) + (" (trusted)" if one.trusted else ""), "strong"),
            "status": Cell(one.status, tone),
            "latency": Cell(format.milliseconds(one.latency_ms)),
            "rate": Cell(format.percent(one.success_rate) if one.attempts else "?", "dim"),
            **marks,
            "tasks": Cell(str(one.tasks), "dim"),
            "failing": Cell(str(one.failing), "bad" if one.failing else "dim"),
            "in": Cell(format.size(one.bytes_received), "dim"),
            "out": Cell(format.size(one.bytes_sent), "dim"),
            "error": Cell(one.last_error, "dim" if up else "bad"),
        }

    async def on_grid_pointed(self, event: Grid.Pointed) -> None:
        self._about()
        start(self, partial(self._inform, event.key or ""), "about")

    async def _inform(self, url: str) -> None:
        """Ask what a relay says of itself, once."""
        if not url or url in self._infos or self.model.stale:
            return
        try:
            self._infos[url] = await self.host.ask(lambda client: client.relay_info(url))
        except NostrTallyError as error:
            self._infos[url] = str(error)
        self._about()

    def _about(self) -> None:
        panel, one = self.query_one("#about", Static), self.model.relays.get(self.pointed)
        panel.border_title = escape(self.pointed)
        panel.update("" if one is None else Content("\n").join(self._described(one)))

    def _described(self, one: RelayState) -> list[Content]:
        info = self._infos.get(one.url)
        if info is None or isinstance(info, str):
            lines = [Content(format.plain(info or "asking what it says of itself"))]
        else:
            lines = [Content(format.plain(text)) for text in about(info)]
        if one.last_error:
            lines.append(
                Content.from_markup("[$text-error]$text[/]", text=format.plain(one.last_error))
            )
        return lines + [Content(f"notice: {format.plain(text)}") for text in one.notices[-3:][::-1]]

    def whole(self) -> tuple[str, str]:
        url, text = super().whole()
        one = self.model.relays.get(url)
        if one is None:
            return url, text
        described = "\n".join(line.plain for line in self._described(one))
        return url, f"{text}\n\n{described}"

    def _missing(self) -> str:
        if self.model.relays:
            return NO_MATCH
        return "No relays yet: they come with the first watch or sync (1, then a)."


def about(info: RelayInfo) -> list[str]:
    """What a relay says of itself, in lines."""
    name = " ".join(filter(None, (info.name, info.software, info.version))) or "no name"
    nips = ", ".join(map(str, info.supported_nips)) or "none named"
    given = msgspec.structs.asdict(info.limitation).items()
    limits = ", ".join(f"{key.removeprefix('max_')} {n:,}" for key, n in given if n is not None)
    return [name, f"NIPs: {nips}", f"limits: {limits or 'none named'}"]


def _able(found: bool | None, page: Page) -> Cell:
    glyphs = page.host.glyphs
    if found is None:
        return Cell(" ?", "dim")
    return Cell(f" {glyphs.yes}", "good") if found else Cell(f" {glyphs.no}", "bad")
