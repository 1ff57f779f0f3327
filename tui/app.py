"""The application: the host of all pages and handlers; it gives the news to the page in front."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

import msgspec
from textual.app import App, ScreenStackError

from nostr_client.errors import InvalidInput, NetworkError, NostrTallyError
from tui import format
from tui.actions import ACTIONS, BY_NAME, TABS
from tui.contrast import legible
from tui.dialogs.palette import Commands
from tui.glyphs import ASCII, UNICODE
from tui.handlers.watches import ABSENCE_S
from tui.host import bindings, is_whole, start
from tui.key_queue import KeyDone, KeyQueue
from tui.link import Link
from tui.model import Model
from tui.pages.counters import CountersPage
from tui.pages.coverage import CoveragePage
from tui.pages.log import LogPage
from tui.pages.overlap import OverlapPage
from tui.pages.overview import Overview
from tui.pages.page import EVERYTHING, Page
from tui.pages.reindex import ReindexPage
from tui.pages.relays import RelaysPage
from tui.pages.syncs import SyncsPage
from tui.pages.watch import WatchPage
from tui.settings import load, save
from tui.themes import OWN, PLAIN_SIGNS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from pathlib import Path

    from textual import events
    from textual.binding import BindingType
    from textual.filter import LineFilter
    from textual.worker import Worker

    from agent.api import schema
    from agent.api.client import AgentClient
    from tui.host import Action, Brings
    from tui.link import StartedAgent
    from tui.settings import TuiSettings

T = TypeVar("T")

OF_A_WATCH = ("watch", "overlap")
"""The pages about the watch that `watched` names."""

REDRAWS_A_SECOND = 10
"""News that come faster wait for each other: more than this nobody can read."""

KEYS_WAIT_S = 0.25
KEYS_LOOK_S = 0.005
TICK_S = 1.0
TOAST_S = 4.0
NOTE_EVERY_S = 60.0
"""Seconds between two notes that somebody looks."""

BRING_S = 60.0
MOST_MESSAGES = 50
"""Seconds that an agent may take to start."""


class TallyApp(App[None]):
    """Draws at once, finds the agent after that, and goes on finding it."""

    TITLE = "nostr-tally"
    CSS_PATH = "app.tcss"
    COMMANDS: ClassVar[set[Any]] = {Commands}
    BINDINGS: ClassVar[list[BindingType]] = bindings(ACTIONS)
    HORIZONTAL_BREAKPOINTS = [  # noqa: RUF012
        (0, "-tiny"),
        (60, "-narrow"),
        (80, "-normal"),
        (120, "-wide"),
    ]
    VERTICAL_BREAKPOINTS = [  # noqa: RUF012
        (0, "-flat"),
        (16, "-low"),
        (24, "-middle"),
        (28, "-high"),
        (50, "-tall"),
    ]
    MODES: ClassVar[dict[str, Any]] = {
        "overview": Overview,
        "watch": WatchPage,
        "overlap": OverlapPage,
        "relays": RelaysPage,
        "syncs": SyncsPage,
        "counters": CountersPage,
        "coverage": CoveragePage,
        "log": LogPage,
        "reindex": ReindexPage,
    }
    DEFAULT_MODE = "overview"

    def __init__(
        self,
        locate: Callable[[], tuple[str, str]],
        *,
        now: Callable[[], float] = time.time,
        read_only: bool = False,
        ascii_only: bool = False,
        no_color: bool = False,
        theme: str = "tally-dark",
        brings: Brings = "",
        settings: Path | None = None,
        own_agent: Callable[[], Awaitable[StartedAgent]] | None = None,
        notes: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        """`locate` gives the agent's URL and token, or raises NetworkError while there is none.

        `own_agent` starts an agent; None: no agent may be started.
        `notes`: what to say about the start of the agent, once it answers.
        `settings`: the file that remembers the layout; None: nothing is remembered.
        `brings`: what was started with this application, and is waited for.
        """
        super().__init__(ansi_color=True if no_color else None)
        for one in OWN:
            self.register_theme(one)
        self.theme = theme  # before there is anything to restyle
        self.model = Model()
        self.glyphs = ASCII if ascii_only else UNICODE
        self.now = now
        self.read_only = read_only
        """Offer nothing that changes something: asked for, or all that the token may do."""
        self._wanted_read_only = read_only
        self.brings = brings
        self.watched = ""
        """The name of the watch that its page shows."""
        self.counters: list[tuple[str, str]] | None = None
        """The first counters, for the overview; None until the agent has reported them."""
        self.messages: deque[str] = deque(maxlen=MOST_MESSAGES)
        """What passed by as toasts, the newest first."""
        self.redraws = 0
        self._settings_path = settings
        self.settings = load(settings)
        self.last_look = self.settings.looked_at
        """When somebody last looked before this session."""
        self._noted_at = now()
        self._own_agent = own_agent
        self._notes = notes
        self._has_digest = False
        self._changed: set[str] = set()
        self._last_error_at: dict[str, float] = {}
        """When each page last reported an error by itself."""
        self._drawn_at = 0.0
        self.waiting = False
        self._stands = False
        self._end_code: int | None = None
        """The exit code of an end that was asked for."""
        self.key_queue = KeyQueue(self, super().on_event)
        self.link = Link(
            self.model,
            locate,
            now=now,
            changed=self._hear,
            refused=self._refused,
            permitted=self._permitted,
        )

    def on_mount(self) -> None:
        """Draw; the agent is looked for beside it."""
        self.set_class(self.glyphs is ASCII, "-ascii")
        self.set_interval(TICK_S, self._tick)
        start(self, self.link.run)
        self.call_after_refresh(self._stand)

    def end(self, code: int) -> None:
        """Leave with this exit code, once the first page stands: Textual cannot give it up."""
        self._end_code = code
        if self._stands or not self.is_running:
            self.exit(None, code)

    def _stand(self) -> None:
        self._stands = True
        if self._end_code is not None:
            self.exit(None, self._end_code)

    def get_css_variables(self) -> dict[str, str]:
        """The colours of the theme, each made legible."""
        self.theme_variables = legible(super().get_css_variables())
        return self.theme_variables

    def get_line_filters(self) -> Sequence[LineFilter]:
        """What changes all that is drawn: with ASCII alone, every sign."""
        found = super().get_line_filters()
        return [*found, PLAIN_SIGNS] if self.glyphs is ASCII else found

    def clear_selection(self) -> None:
        """Clear the selected text; there is none while the first page is made.

        On Python 3.12 and later, Textual makes the widgets of a page before the page is on a stack.
        """
        with contextlib.suppress(ScreenStackError):
            super().clear_selection()

    # News.

    def _hear(self, changed: set[str]) -> None:
        """Something has changed: drawn at once when all was quiet, else with what comes next."""
        self._changed |= changed
        if "watches" in changed:
            self._greet()
        if "status" in changed:
            self._report_start()
        if not self.waiting:
            self.waiting = True
            passed = time.monotonic() - self._drawn_at
            self.set_timer(max(0.001, 1 / REDRAWS_A_SECOND - passed), self._draw)

    def _report_start(self) -> None:
        """Say once what is to say about the start of the agent, which answers now."""
        notes, self._notes = self._notes, tuple
        for text in notes():
            self.report(text)

    def _draw(self) -> None:
        changed, self._changed, self.waiting = self._changed, set(), False
        self._drawn_at = time.monotonic()
        self.redraws += 1
        page = self._front()
        if page is not None:
            page.draw(changed)

    def redraw(self) -> None:
        """Draw all of the page in front again."""
        page = self._front()
        if page is not None:
            page.draw(set(EVERYTHING))

    def _tick(self) -> None:
        self._note_look()
        page = self._front()
        if page is not None and page.is_current and is_whole(page):
            page.head()
            page.tick()

    def _note_look(self) -> None:
        """Remember from time to time that somebody looks, at numbers that are current."""
        now = self.now()
        if not self.model.stale and now - self._noted_at >= NOTE_EVERY_S:
            self._noted_at = now
            self.remember(msgspec.structs.replace(self.settings, looked_at=now))

    def on_unmount(self) -> None:
        """Remember when this session ended, if it showed anything."""
        if self._settings_path is not None and self.model.received:
            looked_at = self.now() if self.model.since is None else self.model.since
            self.remember(msgspec.structs.replace(self.settings, looked_at=looked_at))

    def _greet(self) -> None:
        """Show what changed to somebody who comes back, once, before anything else is open."""
        if self._has_digest or not self.model.watches:
            return
        self._has_digest = True
        last = self.last_look
        if last is not None and self.now() - last >= ABSENCE_S and not self.screen.is_modal:
            self.do("digest")

    def _permitted(self, permission: schema.Permission) -> None:
        """Offer what the token may do; another token may come with each connection."""
        before = self.read_only
        self.read_only = self._wanted_read_only or permission.scope == "read"
        if self.read_only != before:
            self._hear({"frame"})

    def _refused(self, title: str, why: str) -> None:
        text = f"{why}\n\nThe agent is asked again by itself."
        start(self, partial(self.inform, title, text))

    # Pages.

    def _front(self) -> Page | None:
        """The page in front, be there a dialog before it or not."""
        return next((one for one in reversed(self.screen_stack) if isinstance(one, Page)), None)

    @property
    def page(self) -> Page:
        """The page in front."""
        page = self._front()
        assert page is not None
        return page

    @property
    def page_name(self) -> str:
        return self.current_mode

    def _of(self, mode: str) -> Any:
        return next(one for one in self._screen_stacks[mode] if isinstance(one, Page))

    @property
    def watch_page(self) -> WatchPage:
        return cast("WatchPage", self._of("watch"))

    @property
    def counters_page(self) -> CountersPage:
        return cast("CountersPage", self._of("counters"))

    @property
    def overview_page(self) -> Overview:
        return cast("Overview", self._of("overview"))

    @property
    def log_page(self) -> LogPage:
        return cast("LogPage", self._of("log"))

    @property
    def watch_name(self) -> str:
        """The watch that an action without a name is about."""
        return self.watched if self.page_name in OF_A_WATCH else self.pointed_on("overview")

    def pointed_on(self, page: str) -> str:
        """What the cursor of a page is on, or ""."""
        return self.page.pointed if self.page_name == page else ""

    async def go(self, page: str) -> None:
        """Bring a page to the front."""
        if page in OF_A_WATCH and not self.watched:
            self.watched = self.pointed_on("overview")
        if page != self.page_name:
            await self.switch_mode(page)

    # Actions.

    @property
    def actions(self) -> Sequence[Action]:
        """All actions."""
        return ACTIONS

    @property
    def offered(self) -> Sequence[Action]:
        """The actions that this session may do."""
        return [one for one in ACTIONS if not (one.writes and self.read_only)]

    @property
    def tabs(self) -> Sequence[Action]:
        """The actions that go to the pages that are always there."""
        return TABS

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Let a key run an action only on the pages of the action.

        One key stands for several actions, each on other pages; Textual runs the first that may.
        """
        if action == "do":
            return BY_NAME[str(parameters[0])].on(self.page_name)
        return super().check_action(action, parameters)

    async def on_event(self, event: events.Event) -> None:
        """What is typed goes on in its order; all else at once."""
        await (self.key_queue.take if self.key_queue.takes(event) else super().on_event)(event)

    async def on_key_done(self, event: KeyDone) -> None:
        """A key has been dealt with."""
        await self.key_queue.done(event.number)

    def do(self, name: str, words: list[str] | None = None) -> Worker[None]:
        """Start an action; its end is not waited for."""
        return start(self, partial(self.perform, name, words))

    async def action_do(self, name: str, words: list[str] | None = None) -> None:
        """Start an action by its key: the keys that follow go to what it brings to the front.

        So they wait for that, not longer than a person would notice.
        """
        before, doing = self.screen, self.do(name, words)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(KEYS_WAIT_S):
                while True:
                    here = self.screen
                    if doing.is_finished if here is before else here.focused is not None:
                        return
                    await asyncio.sleep(KEYS_LOOK_S)

    async def perform(self, name: str, words: list[str] | None = None) -> None:
        """Do an action, on the page that it belongs to; what goes wrong passes as a toast."""
        action = BY_NAME[name]
        if action.writes and self.read_only:
            self.trouble("this session only reads: --read-only, or a token that only reads")
            return
        try:
            if not action.on(self.page_name):
                await self.go(action.pages[0])
            await action.run(self, words or [])
        except NostrTallyError as error:
            self.trouble(str(error))

    @property
    def can_bring_agent(self) -> bool:
        return self._own_agent is not None and not self.read_only

    async def bring_agent(self) -> None:
        """Start an agent where none answers, and wait until it does. Raises NetworkError."""
        await self.link.until_tried()
        if self.link.client is not None or self._own_agent is None or self.brings:
            return
        self.brings = "agent"
        self.redraw()
        try:
            started = await self._own_agent()
            self._notes = started.notes
            self.link.use(started.locate)
            async with asyncio.timeout(BRING_S):
                await self.link.until_reached()
        except NetworkError:
            self.brings = ""
            raise
        except TimeoutError:  # it may still come: nothing starts a second one
            raise NetworkError(f"the agent did not start in time: {self.model.why}") from None

    def remember(self, settings: TuiSettings) -> None:
        """Take settings, and write them; the application goes on where that fails."""
        self.settings = settings
        if self._settings_path is None:
            return
        try:
            save(self._settings_path, settings)
        except OSError as error:
            self.trouble(f"the layout cannot be remembered: {error}", "settings")

    async def ask(self, question: Callable[[AgentClient], Awaitable[T]]) -> T:
        """What the agent answers. Raises NetworkError while it is away, ApiError."""
        return await self.link.ask(question)

    async def until_known(self) -> None:
        """Wait until the page shows what the agent has; a first connection is waited for.

        Raises NetworkError while that is not known.
        """
        if not await self.link.until_known():
            raise NetworkError(self.link.why_not)
        while True:
            if not self.waiting:
                return
            await asyncio.sleep(KEYS_LOOK_S)

    async def look_at_counters(self) -> None:
        """Bring the first counters, for the overview; nothing where there are none."""
        if self.model.stale:
            return
        try:
            streams = (await self.ask(lambda client: client.streams())).streams
            found: list[tuple[str, str]] = []
            for stream in streams[:3]:
                answer = await self.ask(_first_of(stream.name))
                found += [(one.subject, one.value) for one in answer.counters]
        except NostrTallyError:
            return
        self.counters = found

    def choose_theme(self, name: str) -> None:
        """Take other colours. Raises InvalidInput for an unknown name."""
        if name not in self.available_themes:
            raise InvalidInput(f"there is no theme {name}")
        self.theme = name

    # Talk.

    def report(self, text: str) -> None:
        """A passing word."""
        self._keep(text)
        self.notify(format.plain(text), timeout=TOAST_S, markup=False)

    def trouble(self, text: str, source: str = "") -> None:
        """A passing error; of a `source` that nobody asked just now, one at a time."""
        now = time.monotonic()
        if source and now - self._last_error_at.get(source, -inf) < 2 * TOAST_S:
            return
        self._last_error_at[source] = now
        self._keep(text)
        self.notify(format.plain(text), severity="error", timeout=2 * TOAST_S, markup=False)

    def _keep(self, text: str) -> None:
        self.messages.appendleft(f"{format.clock(self.now())} {format.plain(text)}")

    async def inform(self, title: str, text: str) -> None:
        """Something that has to be read."""
        from tui.dialogs.simple import Inform

        await self.push_screen_wait(Inform(title, text))

    async def sure(self, question: str, yes: str) -> bool:
        """Whether something that loses things is really meant."""
        from tui.dialogs.simple import ConfirmDialog

        return await self.push_screen_wait(ConfirmDialog(question, yes))

    async def fill(
        self,
        title: str,
        hint: str,
        do: Callable[[str], Awaitable[None]],
        given: str = "",
        *,
        held: str = "",
    ) -> None:
        """Do it with one line: with the one `given`, or with what is typed until it is right.

        `held` stands there to begin with; a given line that is wrong stands there to be corrected.
        """
        from tui.dialogs.simple import Ask

        said = ""
        if given:
            try:
                await do(given)
                return
            except NostrTallyError as error:
                held, said = given, str(error)
        await self.push_screen_wait(Ask(title, hint, do, held=held, said=said))

    def on_click(self, event: events.Click) -> None:
        """Leave a dialog by a click beside it: the keys of a phone have no Escape."""
        if self.screen.is_modal and event.widget is self.screen:
            self.simulate_key("escape")

    def on_paste(self, event: events.Paste) -> None:
        """Text pasted onto the overview is something to watch."""
        if self.page_name == "overview" and self.screen is self.page and event.text.strip():
            self.do("watch add", [event.text.strip()])


def _first_of(stream: str) -> Callable[[AgentClient], Awaitable[schema.CounterList]]:
    return lambda client: client.counters(stream, limit=20)
