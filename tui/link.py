"""The way to the agent: found, lost and found again, without anybody's doing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from nostr_client.errors import NetworkError, NostrTallyError

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from agent.api import schema
    from agent.api.client import AgentClient
    from tui.model import Model

T = TypeVar("T")

Locate = Callable[[], tuple[str, str]]
"""Gives the agent's URL and token, or raises NetworkError while there is none."""


class StartedAgent(NamedTuple):
    """An agent that this application started: how to find it, and what to say about its start."""

    locate: Locate
    notes: Callable[[], Sequence[str]] = tuple


CONNECT_S: Final = 15.0
"""Seconds that a key waits for the first connection: a browser's tab is there before it."""

DELAYS_S: Final = (0.2, 0.5, 1.0, 2.0)
"""Between tries; the last one for as long as it takes: the agent is on this machine."""


CONNECTING: Final = "still connecting to the agent: try again in a moment"

TITLES: Final = {
    **dict.fromkeys(
        ("wrong_token", "no_token", "limited_token", "foreign_host"), "The agent lets nobody in"
    ),
    "unreadable": "The agent is not understood",
}
"""What does not pass by itself, by its code."""


class Link:
    """Feeds the model from the event stream; `client` is there while the agent answers."""

    def __init__(
        self,
        model: Model,
        locate: Locate,
        *,
        now: Callable[[], float],
        changed: Callable[[set[str]], None],
        refused: Callable[[str, str], None],
        permitted: Callable[[schema.Permission], None],
    ) -> None:
        """`locate` gives URL and token, each time again; `refused` gets what is wrong, and why.

        `permitted` gets what the token may do, at each connection.
        """
        self.client: AgentClient | None = None
        self._answers = asyncio.Event()
        self._tried = asyncio.Event()
        """Whether the first connection was made, or failed."""
        self._known = asyncio.Event()
        """Whether the agent has said what it has, or could not be reached."""
        self._model = model
        self._locate = locate
        self._now = now
        self._changed = changed
        self._refused = refused
        self._permitted = permitted
        self._reported = ""
        self._reached = False

    async def run(self) -> None:
        """Keep the model up to date until cancelled."""
        await asyncio.to_thread(import_module, "agent.api.client")  # half a second of imports
        tries = 0
        while True:
            try:
                await self._listen()
                self._lost(NetworkError(self._model.why or "the stream ended"))
            except NostrTallyError as error:
                self._lost(error)
            tries = 0 if self._reached else tries + 1
            await asyncio.sleep(DELAYS_S[min(tries, len(DELAYS_S) - 1)])

    async def _listen(self) -> None:
        """Follow one stream to its end."""
        from agent.api.client import AgentClient

        self._reached = self._model.found = False
        url, token = await asyncio.to_thread(self._locate)
        self._model.found = True
        async with AgentClient(url, token) as client:
            self._permitted(await client.access())
            self._model.status = await client.status()  # a stream may have nothing to say for long
            self.client = client
            self._answers.set()
            self._tried.set()
            self._model.reached(url, self._now())
            self._changed({"link", "status"})
            async for id, message in client.events(self._model.last):
                self._reached, self._reported = True, ""
                self._changed(self._model.apply(id, message, self._now()))
                self._known.set()

    def _lost(self, error: NostrTallyError) -> None:
        self.client = None
        self._answers.clear()
        self._model.lost(str(error), self._now())
        self._tried.set()
        self._known.set()
        self._changed({"link"})
        code = getattr(error, "code", "")
        if code in TITLES and self._reported != code:
            self._reported = code
            self._refused(TITLES[code], str(error))

    def use(self, locate: Locate) -> None:
        """Look for the agent by `locate` from the next try on."""
        self._locate = locate

    async def until_reached(self) -> None:
        """Wait until the agent answers; the caller has a deadline."""
        await self._answers.wait()

    async def until_known(self) -> bool:
        """Wait while the first connection is made; return whether the agent said what it has."""
        await _within(CONNECT_S, self._known)
        return self._model.received_at is not None

    async def until_tried(self) -> None:
        """Wait until the first connection was made, or failed."""
        await _within(CONNECT_S, self._tried)

    async def ask(self, question: Callable[[AgentClient], Awaitable[T]]) -> T:
        """What the agent answers; a first connection is waited for.

        Raises NetworkError while it is away, ApiError.
        """
        await self.until_tried()
        if self.client is None:
            raise NetworkError(self.why_not)
        return await question(self.client)

    @property
    def why_not(self) -> str:
        """Why the agent cannot be asked now."""
        return CONNECTING if self._model.link == "connecting" else "the agent is away"


async def _within(seconds: float, event: asyncio.Event) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
