"""Host: what a page, a dialog or a handler may ask of the application; Action: what a host can run.

The application implements `Host`, so that no page and no handler imports the application. An action
is run with a host and a host offers actions: the two types name each other and share this module.
`start` runs work of a page or dialog that nobody waits for.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Protocol, TypeVar

from textual.binding import Binding
from textual.css.query import NoMatches
from textual.widget import Widget

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable, Sequence

    from textual.binding import BindingType
    from textual.dom import DOMNode
    from textual.screen import Screen
    from textual.worker import Worker, WorkType

    from agent.api.client import AgentClient
    from tui.glyphs import Glyphs
    from tui.model import Model
    from tui.settings import TuiSettings

LONG: Final = "long"
"""The group of work that takes as long as somebody takes to answer, or for ever."""

T = TypeVar("T")

Brings = Literal["", "agent", "demo"]
"""What was started with this application."""

Handler = Callable[["Host", list[str]], Awaitable[None]]
"""Does an action with the words that follow its name. Raises NostrTallyError, shown as a toast."""

_SHOWN: Final = {
    "question_mark": "?",
    "slash": "/",
    "colon": ":",
    "plus": "+",
    "exclamation_mark": "!",
    "escape": "esc",
    "delete": "del",
}


class Action(NamedTuple):
    """Something that can be done.

    `name`: as on the command line, and in the palette after a colon; `usage`: the words after it.
    `keys`: Textual's names. `pages`: where the keys work; none: everywhere. `footer`: the highest
    stand in the footer. `writes`: its route needs the manage token; a session that only reads does
    not have it.
    """

    name: str
    keys: str
    title: str
    help: str
    run: Handler
    pages: tuple[str, ...] = ()
    usage: str = ""
    footer: int = 0
    writes: bool = False

    @property
    def key(self) -> str:
        """The first key, as people know it."""
        first = self.keys.split(",")[0]
        return _SHOWN.get(first, first.replace("ctrl+", "^"))

    def on(self, page: str) -> bool:
        """Whether its keys work on a page."""
        return not self.pages or page in self.pages


def bindings(actions: Iterable[Action]) -> list[BindingType]:
    """The keys of all actions; the application checks which of them work on the page in front."""
    return [Binding(one.keys, f"app.do({one.name!r})", one.title, show=False) for one in actions]


class FrontPage(Protocol):
    """What every page does."""

    sort: str
    """The column that rows are sorted by."""

    @property
    def pointed(self) -> str:
        """The name of what the cursor is on, or ""."""

    def copied(self) -> str:
        """The text that is copied from here."""

    def whole(self) -> tuple[str, str]:
        """Return the row under the cursor in full: a title, and its cells on lines."""

    @property
    def columns(self) -> tuple[tuple[str, str], ...]:
        """The columns that may be hidden, each with its title."""

    def find(self, text: str = "") -> None:
        """Filter the rows by the words, or let them be typed."""

    def sort_by(self, column: str | None) -> None:
        """Sort by a column, or with None by the next one; the same again turns the order."""


class WatchView(Protocol):
    """The page of one watch."""

    def choose_span(self, span: str | None) -> None:
        """Plot the span of time named, else the next one."""

    def toggle_people(self) -> None:
        """Go to the people, or to the relays again; a small terminal shows one of them."""

    @property
    def person(self) -> str:
        """All of what the person did that is pointed at, or ""."""


class OverviewView(Protocol):
    """The page of all watches."""

    @property
    def chosen(self) -> list[str]:
        """The marked watches by name."""

    def fold(self) -> bool:
        """Close the group under the cursor, or open it; False where a watch is there."""

    def choose_state(self, state: str | None) -> None:
        """Show the watches of a state, with None of the next one. Raises InvalidInput."""

    def choose_group(self, group: str | None) -> None:
        """Group the watches, with None by the next thing. Raises InvalidInput."""

    def mark(self) -> None:
        """Mark what is under the cursor, or unmark it."""

    def mark_all(self) -> None:
        """Mark all watches that are listed, or unmark them."""


class LogView(Protocol):
    """The page of the log."""

    def choose_level(self, level: str | None) -> None:
        """Show the level named and above, else the next one."""

    def toggle_follow(self) -> None:
        """Stay with the newest line, or stop doing so."""


class CountersView(Protocol):
    """The page of the counters."""

    stream: str
    pattern: str

    async def look(self) -> None:
        """Ask for the counters that are shown."""

    async def choose(self, *, pattern: str | None = None, stream: str | None = None) -> None:
        """Show other subjects, or another stream. Raises InvalidInput, NetworkError, ApiError."""


class Host(Protocol):
    """The application, as pages, dialogs and handlers know it."""

    watched: str
    """The name of the watch that its page shows."""

    # State.

    @property
    def model(self) -> Model:
        """What the agent reported."""

    @property
    def glyphs(self) -> Glyphs:
        """The signs to draw with."""

    @property
    def read_only(self) -> bool:
        """Whether this session changes nothing."""

    @property
    def brings(self) -> Brings:
        """What was started with the application, and is waited for."""

    @property
    def settings(self) -> TuiSettings:
        """What is remembered of the last sessions and of this one."""

    def remember(self, settings: TuiSettings) -> None:
        """Take these settings, and write them for the next session."""

    @property
    def last_look(self) -> float | None:
        """When somebody last looked before this session, Unix seconds; None if that is unknown."""

    @property
    def can_bring_agent(self) -> bool:
        """Whether an agent can be started where none runs."""

    async def bring_agent(self) -> None:
        """Start an agent where none answers and one may be started; wait until it answers.

        Raises NetworkError.
        """

    @property
    def counters(self) -> list[tuple[str, str]] | None:
        """Subject and value of the first counters; None until the agent has answered."""

    @property
    def actions(self) -> Sequence[Action]:
        """All actions."""

    @property
    def offered(self) -> Sequence[Action]:
        """The actions of this session: all, or with `read_only` those that change nothing."""

    @property
    def tabs(self) -> Sequence[Action]:
        """The actions that go to the pages that are always there."""

    def now(self) -> float:
        """Seconds since 1970."""

    # Pages.

    @property
    def page(self) -> FrontPage:
        """The page in front."""

    @property
    def page_name(self) -> str:
        """The name of the page in front."""

    @property
    def overview_page(self) -> OverviewView: ...

    @property
    def watch_page(self) -> WatchView: ...

    @property
    def counters_page(self) -> CountersView: ...

    @property
    def log_page(self) -> LogView: ...

    @property
    def watch_name(self) -> str:
        """The watch that an action without a name is about, or ""."""

    def pointed_on(self, page: str) -> str:
        """What the cursor of a page is on, or "" where another page is in front."""

    async def go(self, page: str) -> None:
        """Bring a page to the front."""

    def redraw(self) -> None:
        """Draw all of the page in front again."""

    # Actions, and questions to the agent.

    def do(self, name: str, words: list[str] | None = None) -> object:
        """Start an action without waiting for its end."""

    async def action_do(self, name: str, words: list[str] | None = None) -> None:
        """Start an action as its key does; the keys that follow wait for what it opens."""

    async def perform(self, name: str, words: list[str] | None = None) -> None:
        """Do an action on its page, to its end."""

    async def ask(self, question: Callable[[AgentClient], Awaitable[T]]) -> T:
        """Return the agent's answer. Raises NetworkError while it is away, ApiError."""

    async def until_known(self) -> None:
        """Wait until the page shows what the agent has; a first connection is waited for.

        Raises NetworkError while that is not known.
        """

    async def look_at_counters(self) -> None:
        """Bring `counters` up to date."""

    # Talk.

    @property
    def messages(self) -> Collection[str]:
        """What passed by as toasts, the newest first."""

    def report(self, text: str) -> None:
        """Show a toast."""

    def trouble(self, text: str, source: str = "") -> None:
        """Show an error as a toast; of a `source` that nobody asked just now, one at a time."""

    async def inform(self, title: str, text: str) -> None:
        """Show a text until it is closed."""

    async def sure(self, question: str, yes: str) -> bool:
        """Ask before something is lost."""

    async def fill(
        self,
        title: str,
        hint: str,
        do: Callable[[str], Awaitable[None]],
        given: str = "",
        *,
        held: str = "",
    ) -> None:
        """Do it with one line: with the one `given`, or with what is typed until it is right."""

    def push_screen(self, screen: Screen[Any]) -> Awaitable[None]:
        """Open a dialog."""

    async def push_screen_wait(self, screen: Screen[T]) -> T:
        """Open a dialog, and return its result when it is closed."""

    def copy_to_clipboard(self, text: str) -> None:
        """Copy, as far as the terminal lets."""

    def choose_theme(self, name: str) -> None:
        """Take other colours. Raises InvalidInput for an unknown name."""

    def exit(self) -> None:
        """Leave."""


def is_whole(node: DOMNode) -> bool:
    """Whether a node stands with all its parts: it is neither being made nor being taken down."""
    made = not isinstance(node, Widget) or node.is_mounted
    return made and node.app.is_running and node.is_attached


def start(
    node: DOMNode,
    what: Callable[[], Coroutine[Any, Any, None]],
    group: str = "",
    *,
    alone: bool = True,
) -> Worker[None]:
    """Begin it, to end with the node; alone in a group, what that did before is given up."""

    async def done() -> None:
        try:
            await what()
        except NoMatches:  # it has lost its parts already where it is being taken down
            if is_whole(node):
                raise

    work: WorkType[None] = done
    return node.run_worker(work, group=group or LONG, exclusive=bool(group) and alone)
