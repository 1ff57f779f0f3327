"""Deadlines and places for the requests of one relay: every wait ends, and few wait at once."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from nostr_client.codecs.display import plural
from nostr_client.errors import DeadlineExceeded, HeldBack, NetworkError, RelayError, RelayRefused

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from nostr_client.network.access.budget import Budget
    from nostr_client.network.relay_state import RelayKnowledge
    from nostr_client.network.session import Session
    from nostr_client.network.supervisor import Supervisor

Answer = TypeVar("Answer")


@dataclass(slots=True)
class SessionRequest:
    """One request: the session that carries it, and whether it left this machine."""

    session: Session
    sent: bool = True

    def withdrawn(self) -> None:
        """Note that the session took the request back while it waited for its turn."""
        self.sent = False


class Deadlines:
    """Distinguishes a relay that does not connect (NetworkError) from one that does not answer."""

    def __init__(
        self, supervisor: Supervisor, knowledge: RelayKnowledge, waiting: int, budget: Budget | None
    ) -> None:
        self._supervisor = supervisor
        self._knowledge = knowledge
        self._waiting = waiting
        self._budget = budget
        self._pending = 0

    @asynccontextmanager
    async def within(self, seconds: float, doing: str) -> AsyncIterator[float]:
        """A block that may take so long; gives its deadline in loop time.

        Raises NetworkError where there is no connection at the deadline, else DeadlineExceeded,
        with the NOTICE that the relay sent meanwhile; HeldBack at once where our own budget lets
        nothing go before.
        """
        self._refuse_held_back(seconds)
        before = self._knowledge.notices_received
        try:
            async with asyncio.timeout(seconds) as scope:
                yield scope.when() or 0.0
        except RelayError:
            raise
        except TimeoutError as error:
            raise self._late(f"within {seconds:g} s", doing, before) from error

    async def request(
        self, seconds: float, doing: str, ask: Callable[[SessionRequest], Awaitable[Answer]]
    ) -> Answer:
        """Return what `ask` returns, as a block `within`; it gets the session once there is one.

        Raises RelayRefused in a crowd, and HeldBack where the deadline came while our own budget
        still held the request back: the relay was not asked, so it is not late. Nearly every
        question comes through here, so it is one coroutine and no context manager.
        """
        self._refuse_crowd()
        self._refuse_held_back(seconds)
        before = self._knowledge.notices_received
        made: SessionRequest | None = None
        self._pending += 1
        try:
            async with asyncio.timeout(seconds) as scope:
                made = SessionRequest(await self._supervisor.ready(scope.when() or 0.0))
                return await ask(made)
        except RelayError:
            raise
        except TimeoutError as error:
            unasked = None if made is None or made.sent else self.held_back()
            raise unasked or self._late(f"within {seconds:g} s", doing, before) from error
        finally:
            self._pending -= 1

    def _refuse_crowd(self) -> None:
        if self._pending >= self._waiting:
            waiting = plural(self._pending, "request waits", "requests wait")
            text = f"rate-limited: {waiting} for this relay"
            raise RelayRefused(text, prefix="rate-limited", relay=self._supervisor.url)

    def _refuse_held_back(self, seconds: float) -> None:
        held_back = self.held_back(seconds)
        if held_back is not None:
            raise held_back

    def held_back(self, seconds: float = 0.0) -> HeldBack | None:
        """The error of a request that our own budget holds back for longer than `seconds`."""
        if self._budget is None:
            return None
        wait = self._budget.wait(asyncio.get_running_loop().time())
        return HeldBack(wait, relay=self._supervisor.url) if wait > seconds else None

    def _late(self, limit: str, doing: str, before: int) -> RelayError:
        relay = self._supervisor.url
        if self._supervisor.session is None:
            return NetworkError(f"{doing}: no connection {limit}", relay=relay)
        is_new = self._knowledge.notices_received > before and self._knowledge.notices
        said = f"; NOTICE: {self._knowledge.notices[-1]}" if is_new else ""
        if self.held_back() is not None:
            said += "; our own budget for this relay is spent"
        return DeadlineExceeded(f"{doing}: no answer {limit}{said}", relay=relay)
