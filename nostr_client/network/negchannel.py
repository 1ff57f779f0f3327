"""Exchange the messages of one NIP-77 session with one relay."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, Self

from nostr_client.errors import ProtocolError, RelayError
from nostr_client.network.waiting import Gate

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from nostr_client.codecs.messages import Closed, NegErr, NegMsg, Notice

_QUEUE: Final = 64  # both sides take turns, so more than a few unread frames mean a fault


class NegChannel:
    """NIP-77 session that `Relay.negotiate` opens. As a context manager it sends NEG-CLOSE.

    `receive` returns the relay's messages: NegMsg, NegErr, Closed, and every Notice while the
    session is open. Some relays send refusals as a Notice. NegErr and Closed end the session.
    """

    def __init__(
        self, relay: str, sub_id: str, send: Callable[[bytes], None], close: Callable[[], None]
    ) -> None:
        self.relay = relay
        self.sub_id = sub_id
        self._send = send
        self._close = close
        self._queue: deque[NegMsg | NegErr | Closed | Notice] = deque()
        self._error: RelayError | None = None
        self._gate = Gate()

    def offer(self, message: NegMsg | NegErr | Closed | Notice) -> None:
        """Queue a frame from the relay."""
        if len(self._queue) >= _QUEUE:
            self.fail(ProtocolError("more NEG messages than answers were due", relay=self.relay))
            return
        self._queue.append(message)
        self._gate.wake()

    def fail(self, error: RelayError) -> None:
        """Note an error, after which no frame comes."""
        self._error = self._error or error
        self._gate.wake()

    def send(self, message: bytes) -> None:
        """Send the next message. Raises RelayRefused if the message is too long for the relay."""
        if self._error is None:
            self._send(message)

    async def receive(self) -> NegMsg | NegErr | Closed | Notice:
        """Return the relay's next frame. The caller sets the deadline. Safe to cancel.

        Raises NetworkError if the connection broke, and ProtocolError for an invalid frame.
        """
        await self._gate.wait(lambda: self._queue or self._error)
        if self._queue:
            return self._queue.popleft()
        raise self._error or ProtocolError("closed", relay=self.relay)

    async def message_ready(self) -> None:
        """Wait until `receive` has a frame or an error. Takes no frame. Safe to cancel."""
        await self._gate.wait(lambda: self._queue or self._error)

    def close(self) -> None:
        """Send NEG-CLOSE if the session is open."""
        self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
