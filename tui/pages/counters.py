"""Counters of a stream: values by wildcard, where each came from, its newest increments."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from rich.text import Text
from textual.containers import Horizontal, Vertical
from textual.widgets import Static, Tree

from nostr_client.errors import InvalidInput, NostrTallyError
from tui import format
from tui.host import start
from tui.pages import link_lines
from tui.pages.page import NO_MATCH, Page
from tui.widgets.columns import Column, matches
from tui.widgets.grid import GONE, Cell, Grid

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from textual.widget import Widget

    from agent.api.client import AgentClient
    from agent.api.schema import Counter, CounterList, Stream

SUBJECTS = (
    Column("subject", "Subject", 16, flex=3, most=60, middle=True),
    Column("value", "Value", 12, flex=1, right=True, most=24),
    Column("incr", "Last", 6, right=True, drop=1),
    Column("sources", "Src", 3, right=True, drop=2),
    Column("age", "Age", 4, right=True),
)
INCREMENTS = (
    Column("at", "When", 8),
    Column("incr", "Incr", 6, right=True, flex=1, most=12),
    Column("value", "Value", 8, right=True, flex=1, most=20),
    Column("seq", "Seq", 6, right=True, drop=1),
)
EVERY_S = 2.0
NEWEST = 200
MOST = 10_000
WINDOWS = (MOST, 20 * MOST)
"""Messages of the stream, of which the first are surely not more than one answer holds."""


class CountersPage(Page):
    """Subjects on the left; sources and increments of the one under the cursor on the right."""

    title_ = "counters"

    def __init__(self) -> None:
        super().__init__()
        self.stream, self.pattern = "", ">"
        self._streams: list[Stream] = []
        self._counters: dict[str, Counter] = {}
        self._increments: dict[str, Counter] = {}
        self._more = False
        self._closely = ""
        self._choice = 0
        """Counts up when something else is chosen: answers about what was before come too late."""

    def body(self) -> Iterable[Widget]:
        yield Static(id="stream", markup=False)
        with Horizontal(id="counters-body"):
            yield Grid(SUBJECTS, self._row, id="subjects", marked="subject")
            yield Static(id="no-counters", classes="empty")
            with Vertical(id="counter-side"):
                tree: Tree[None] = Tree("sources", id="sources")
                tree.can_focus = False
                yield tree
                yield Grid(
                    INCREMENTS, self._increment_row, id="increments", marked="at", falls=True
                )
        yield Static(id="links", markup=False)

    def on_mount(self) -> None:
        self.set_interval(EVERY_S, self._look_soon)

    async def entered(self) -> None:
        self.query_one("#subjects").focus()
        await self.look()

    def show(self, changed: set[str]) -> None:
        if "counters" in changed and self.model.counters_version:
            self._look_soon()
        if changed & {"frame", "link"}:
            self._list()
        if "links" in changed:
            lines = link_lines.lines(self.model.links.values())
            self.query_one("#links").display = bool(lines)
            self.query_one("#links", Static).update("\n".join(lines))

    def _look_soon(self) -> None:
        start(self, self.look, "look")

    async def look(self) -> None:
        """Ask for the counters that are shown."""
        if not self.is_current or self.model.stale:
            return
        try:
            self._streams = list((await self.host.ask(lambda c: c.streams())).streams)
            names = [one.name for one in self._streams]
            stream = self.stream if self.stream in names else (names or [""])[0]
            await self._load(stream, self.pattern)
        except NostrTallyError as error:
            self.host.trouble(str(error), "counters")

    async def _load(self, stream: str, pattern: str) -> None:
        """Ask for these counters; they and what they are called change together."""
        choice = self._choice
        found = await self.host.ask(lambda c: c.counters(stream, pattern)) if stream else None
        if choice != self._choice:
            return
        self.stream, self.pattern = stream, pattern
        self._counters = {one.subject: one for one in found.counters} if found else {}
        self._more = found is not None and found.more
        self._list()
        await self._look_closer()

    async def _look_closer(self) -> None:
        """The increments of the counter under the cursor; its newest come first."""
        stream, subject = self.stream, self.pointed
        one = self._counters.get(subject)
        self._increments = {}
        if one is not None:
            newest = await self._newest(stream, subject, one.seq)
            self._increments = {str(each.seq): each for each in newest}
        self._tree(one)
        grid = self.query_one("#increments", Grid)
        grid.show(list(self._increments), from_top=subject != self._closely)
        self._closely = subject

    async def _newest(self, stream: str, subject: str, seq: int) -> list[Counter]:
        """Newest first. The API counts from the oldest: a window that holds all of its messages."""
        found: list[Counter] = []
        for window in WINDOWS:
            after = max(0, seq - window)
            answer = await self.host.ask(
                partial(_history, stream=stream, subject=subject, after=after)
            )
            if answer.more:
                break
            found = list(answer.counters)
            if len(found) >= NEWEST or not after:
                break
        return found[-NEWEST:][::-1]

    async def choose(self, *, pattern: str | None = None, stream: str | None = None) -> None:
        """Other subjects, or another stream: the one named, else the next.

        Raises NetworkError, ApiError: then what was shown before stays.
        """
        wanted = self.stream
        names = [one.name for one in self._streams]
        if stream is not None and stream not in names:
            raise InvalidInput(f"there is no stream {stream}")
        if stream is not None:
            wanted = stream
        elif pattern is None and names:
            at = names.index(self.stream) if self.stream in names else -1
            wanted = names[(at + 1) % len(names)]
        self._choice += 1
        await self._load(wanted, self.pattern if pattern is None else pattern)

    def _list(self) -> None:
        head = f"stream {self.stream or '(none)'}   subjects {self.pattern}"
        others = len(self._streams) - 1
        more = "   there are more: narrow the pattern" if self._more else ""
        if others > 0:
            more += f"   {others} other {'streams' if others > 1 else 'stream'} (n)"
        self.query_one("#stream", Static).update(head + more)
        grid = self.query_one("#subjects", Grid)
        grid.show([one for one in sorted(self._counters) if matches(self.wanted, one)])
        self.say(grid, "#no-counters", self._missing(), pattern=self.pattern)

    async def on_grid_pointed(self, event: Grid.Pointed) -> None:
        if event.grid.id == "subjects" and not self.model.stale:
            start(self, self._closer, "closer")

    async def _closer(self) -> None:
        try:
            await self._look_closer()
        except NostrTallyError as error:
            self.host.trouble(str(error), "counters")

    def _tree(self, one: Counter | None) -> None:
        tree: Tree[None] = self.query_one("#sources", Tree)
        tree.clear()
        tree.root.set_label(_leaf(one.subject, "=", one.value) if one else "sources")
        if one is not None:
            tree.root.add_leaf(_leaf("added here", "", one.local))
            for stream, subjects in one.sources.items():
                branch = tree.root.add(Text(format.plain(f"from {stream}")), expand=True)
                for subject, value in subjects.items():
                    branch.add_leaf(_leaf(subject, "", value))
        tree.root.expand()

    def _row(self, subject: str) -> Mapping[str, Cell]:
        one = self._counters.get(subject)
        if one is None:
            return GONE
        incr = one.incr or ""
        return {
            "subject": Cell(subject, "strong"),
            "value": Cell(format.integer(one.value), "accent"),
            "incr": Cell(_signed(incr), "bad" if incr.startswith("-") else "good"),
            "sources": Cell(str(len(one.sources)), "dim"),
            "age": Cell(format.age(self.host.now() - one.ts), "dim"),
        }

    def _increment_row(self, seq: str) -> Mapping[str, Cell]:
        one = self._increments.get(seq)
        if one is None:
            return GONE
        incr = one.incr or ""
        return {
            "at": Cell(format.clock(one.ts), "dim"),
            "incr": Cell(_signed(incr), "bad" if incr.startswith("-") else "good"),
            "value": Cell(format.integer(one.value)),
            "seq": Cell(seq, "dim"),
        }

    def _missing(self) -> str:
        if not self._streams:
            return "No streams of counters.\n\nThey are configured: \\[counters] in agent.toml."
        if self._counters:
            return NO_MATCH
        return "No counter fits $pattern.\n\n[b]w[/] chooses others, [b]+[/] adds to one."


async def _history(client: AgentClient, *, stream: str, subject: str, after: int) -> CounterList:
    return await client.counter_history(stream, subject, after=after, limit=MOST)


def _leaf(name: str, sign: str, value: str) -> Text:
    """A line of the tree; no markup, whatever the name holds."""
    return Text(" ".join(filter(None, (format.plain(name), sign, format.integer(value)))))


def _signed(incr: str) -> str:
    sign = "" if not incr or incr.startswith("-") else "+"
    return sign + format.integer(incr) if incr else ""
