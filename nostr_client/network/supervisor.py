"""Keep one relay connected: attempts, pauses with jitter, and callers that wait."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from nostr_client.errors import NetworkError, ProtocolError, RelayError
from nostr_client.network.pacing import RetryDecision, delays, judge
from nostr_client.network.relay_state import RelayStats, RelayStatus
from nostr_client.network.waiting import Gate

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from nostr_client.network.session import Session
    from nostr_client.network.transport import Transport, WebSocket
    from nostr_client.options import ReconnectPolicy


class Supervisor:
    """Task that runs from `start` to `stop`. `url` names the relay; `address` is the URL to connect
    to.

    `open_session` makes the session of a new socket. `up` is called before the session runs. `down`
    is called with the error after each end or failed attempt. `sleep`, `rand` and `now` (Unix
    seconds) are arguments so that tests can control them.
    """

    def __init__(
        self,
        url: str,
        address: str,
        transport: Transport,
        policy: ReconnectPolicy,
        *,
        open_session: Callable[[WebSocket], Session],
        up: Callable[[Session], None],
        down: Callable[[RelayError, bool], None],
        sleep: Callable[[float], Awaitable[None]],
        rand: Callable[[], float],
        now: Callable[[], float],
    ) -> None:
        self.status = RelayStatus.INITIALIZED
        self.session: Session | None = None
        self.stats = RelayStats()
        self.error: RelayError = NetworkError("not connected yet", relay=url)
        self.url = url
        self._address = address
        self._transport = transport
        self._policy = policy
        self._open_session = open_session
        self._up = up
        self._down = down
        self._sleep = sleep
        self._rand = rand
        self._now = now
        self._gate = Gate()
        self._task: asyncio.Task[None] | None = None
        self._stopped = False
        self._failures = 0  # failed attempts, so that waiting calls notice a failure
        self._in_a_row = 0
        self._next_attempt = 0.0
        self._resting: asyncio.Future[None] | None = None

    def connect_by(self, transport: Transport, address: str) -> None:
        """Use this transport and address from now on. An attempt that is due later begins at once.

        An open connection stays.
        """
        self._transport, self._address = transport, address
        if self._resting is not None:
            self.status = RelayStatus.CONNECTING
            self._resting.cancel()

    def start(self) -> None:
        """Begin to connect, or begin again after giving up. Does nothing while the task runs."""
        if not self._stopped and (self._task is None or self._task.done()):
            self.status = RelayStatus.CONNECTING
            self._task = asyncio.get_running_loop().create_task(self._run(), name=self.url)

    async def stop(self) -> None:
        """Close the connection and never connect again. Returns when everything is closed."""
        self._stopped = True
        self.status = RelayStatus.TERMINATED
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            if not self._task.cancelled() and (error := self._task.exception()):
                raise error
        self._gate.wake()

    @property
    def open(self) -> Session | None:
        """The session that takes requests now, without waiting."""
        return None if self._stopped else self.session

    async def ready(self, deadline: float) -> Session:
        """Wait for the session and return it. The caller enforces `deadline`, which is in loop
        time.

        Raises the RelayError of the attempt that fails. If the next attempt is due after the
        deadline, raises the error of the last attempt.
        """
        if self._stopped:
            raise NetworkError("closed by us", relay=self.url)
        self.start()
        failures = self._failures
        await self._gate.wait(
            lambda: self.session or failures != self._failures or self._is_hopeless(deadline)
        )
        if self.session is None:
            raise self.error
        return self.session

    def _is_hopeless(self, deadline: float) -> bool:
        if self.status is RelayStatus.DISCONNECTED:
            return self._next_attempt > deadline
        return self.status is RelayStatus.TERMINATED

    async def _run(self) -> None:
        pauses, self._in_a_row = delays(self._policy, self._rand), 0
        try:
            while True:
                lived = await self._attempt()
                # if the connection ends at the same moment, the cancellation is lost
                if self._stopped:
                    return
                self._in_a_row += 1
                if lived >= self._policy.stable_after:
                    pauses, self._in_a_row = delays(self._policy, self._rand), 0
                pause = self._pause(pauses)
                if pause is None:
                    return
                await self._rest(pause)
        finally:
            self.status = RelayStatus.TERMINATED
            if not self._stopped:
                self._down(self.error, True)
            self._gate.wake()

    async def _attempt(self) -> float:
        """Connect and serve until the end. Return how many seconds the connection lasted."""
        self.status = RelayStatus.CONNECTING
        self.stats.attempts += 1
        try:
            socket = await self._transport.connect(self._address)
        except RelayError as error:
            self._failures += 1
            self._ended(error)
            return 0.0
        try:
            return await self._serve(socket)
        finally:
            await socket.close()

    async def _serve(self, socket: WebSocket) -> float:
        loop = asyncio.get_running_loop()
        started = loop.time()
        self.session = session = self._open_session(socket)
        self._connected()
        self._up(session)
        self._gate.wake()
        try:
            error = await session.run()
        finally:
            self.session = None
            self._add_up(session)
        self._ended(error)
        return loop.time() - started

    def _connected(self) -> None:
        self.status = RelayStatus.CONNECTED
        self.stats.successes += 1
        self.stats.connected_at = self._now()
        self.stats.first_connected_at = self.stats.first_connected_at or self.stats.connected_at

    def _add_up(self, session: Session) -> None:
        session.add_to(self.stats)
        self.stats.connected_at = None

    def _ended(self, error: RelayError) -> None:
        self.error = error
        self.stats.last_error = str(error)
        self.stats.faults += isinstance(error, ProtocolError)
        self.status = RelayStatus.DISCONNECTED

    def _pause(self, pauses: Iterator[float]) -> float | None:
        """Return the seconds until the next attempt, or None to give up."""
        step = judge(self.error)
        pause = next(pauses, None)
        most = self._policy.attempts
        spent = pause is None or (most is not None and self._in_a_row >= most)
        given_up = spent or step is RetryDecision.FATAL
        self._down(self.error, given_up)
        if given_up:
            return None
        longest = self._policy.longest
        return longest * (1 + self._rand()) / 2 if step is RetryDecision.RETRY_LATE else pause

    async def _rest(self, pause: float) -> None:
        self._next_attempt = asyncio.get_running_loop().time() + pause
        self._gate.wake()
        self._resting = asyncio.ensure_future(self._sleep(pause))
        try:
            await asyncio.wait([self._resting])
        finally:
            self._resting.cancel()
            self._resting = None
