"""Limit how long requests of one relay wait, and how many requests wait at once."""

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
        """Note that the session withdrew the request before it was sent."""
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
        """Limit a block to `seconds`. The block gets its deadline in loop time.

        Raises HeldBack at once if the client's own budget lets no request go before the deadline.
        Raises NetworkError if there is no connection at the deadline. Otherwise raises
        DeadlineExceeded, with the NOTICE that the relay sent meanwhile.
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
        """Return the result of `ask` within `seconds`. `ask` gets the session once a session
        exists.

        Raises as `within` does. Raises RelayRefused if too many requests wait. Raises HeldBack if
        the client's own budget still held the request back at the deadline, because the relay was
        not asked. Nearly every request runs this code, so it is one coroutine and not a context
        manager.
        """
        self._refuse_crowd()
        self._refuse_held_back(seconds)
        before = self._knowledge.notices_received
        made: SessionRequest | None = None
        self._pending += 1
        try:
            async with asyncio.timeout(seconds) as scope:
                session = self._supervisor.open or await self._supervisor.ready(scope.when() or 0.0)
                made = SessionRequest(session)
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
        """Return the error if the client's own budget delays a request by more than `seconds`."""
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
