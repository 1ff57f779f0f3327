"""Driving the application in tests: start it, press keys, wait until nothing moves, look."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from textual._wait import wait_for_idle
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from tests.tui import world
from tests.tui.backend import SERVED, TOKEN
from tui.app import TallyApp
from tui.host import LONG
from tui.widgets.grid import Grid

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from textual.pilot import Pilot

PATIENCE_S = 120.0
"""Seconds after which something is taken to hang; a loaded machine needs a minute now and then."""
ROUNDS = 3
"""How often all widgets have to have handled what was sent to them, with nothing under way."""
SIZES = ((80, 24), (140, 45))
ALL_SIZES = ((80, 24), (100, 30), (140, 45), (200, 60))
"""Sizes of which each page has a picture; what does not depend on the size is tried in SIZES."""
NAMES = {" ": "space", ":": "colon", "/": "slash", "{": "left_curly_bracket"}


class Driver:
    """A running application, and the means to use it as a person does."""

    def __init__(self, app: TallyApp, pilot: Pilot[None], patience: float) -> None:
        self.app = app
        self.patience = patience
        self.pilot = pilot

    async def until(self, check: Callable[[], bool]) -> None:
        """Wait until `check` says yes; fails after a while, with what is on the screen."""
        try:
            async with asyncio.timeout(self.patience):
                while not check():
                    await self.pilot.pause(0.01)
        except TimeoutError:
            raise AssertionError(self.text()) from None

    async def settled(self) -> None:
        """Wait until nothing is asked for, all news are there, and nothing waits to be drawn."""
        still = 0
        while still < ROUNDS:
            await self.until(self._idle)
            await self.pilot.pause(0)
            still = still + 1 if self._idle() else 0

    def _idle(self) -> bool:
        busy = any(not w.is_finished for w in self.app.workers if w.group != LONG)
        screen = self.app.screen
        opening = isinstance(screen, ModalScreen) and screen.focused is None
        waits = busy or opening or self.app.waiting or bool(self.app.key_queue.waiting)
        return not waits and not self._behind() and not self._undrawn()

    def _undrawn(self) -> bool:
        """Whether the front screen has still to lay out or to draw what it was told."""
        one = self.app.screen
        flags = one._layout_required or one._scroll_required or one._repaint_required
        return bool(flags or one._recompose_required or one._dirty_widgets or one._callbacks)

    def _behind(self) -> bool:
        """Whether the agent of these tests has published what the application has not heard yet."""
        model = self.app.model
        served = SERVED.get(model.api)
        if served is None or model.link != "live" or not model.received:
            return False
        return served.published > int(model.last.rpartition(":")[2] or 0)

    async def press(self, *keys: str) -> None:
        """Press keys one after the other, and wait each time for what the key brings about."""
        for key in keys:
            await self.pilot.press(key)
            await self.settled()

    async def go(self, page: str) -> None:
        """Bring a page to the front, and wait until it shows what it asks for."""
        await self.app.go(page)
        await self.settled()

    async def type(self, text: str) -> None:
        """Put a text where the cursor is."""
        focused = self.app.focused
        assert isinstance(focused, Input)
        focused.insert_text_at_cursor(text)
        await self.settled()

    def text(self) -> str:
        """What is on the screen, without colours."""
        lines = self.app.screen._compositor.render_strips()
        return "\n".join(strip.text.rstrip() for strip in lines)

    def grid(self, selector: str = "Grid") -> Grid:
        return self.app.screen.query(selector).first(Grid)

    def static(self, selector: str) -> str:
        return str(self.app.screen.query_one(selector, Static).content)

    async def picture(self) -> str:
        """The screen as SVG, with still cursors."""
        for one in self.app.screen.query(Input):
            one.cursor_blink = False
        await self.settled()
        await wait_for_idle(0)  # what Textual itself puts off, as a new layout after a resize
        await self.settled()
        return self.app.export_screenshot(title="nostr-tui")


@asynccontextmanager
async def driving(
    url: str | Callable[[], tuple[str, str]],
    size: tuple[int, int] = (140, 40),
    *,
    live: bool = True,
    patience: float = PATIENCE_S,
    toasts: bool = True,
    **options: Any,
) -> AsyncIterator[Driver]:
    """The application over an API, at the time of `world`; waits until it is live.

    `toasts`: False for pictures, as they pass with the time that the machine takes.
    """
    locate = (lambda: (url, TOKEN)) if isinstance(url, str) else url
    app = TallyApp(locate, **{"now": lambda: world.NOW, **options})
    app.animation_level = "none"
    async with app.run_test(size=size, notifications=toasts) as pilot:
        driver = Driver(app, pilot, patience)
        if live:
            await driver.until(lambda: app.model.link == "live" and app.model.received > 0)
        await driver.settled()
        yield driver
