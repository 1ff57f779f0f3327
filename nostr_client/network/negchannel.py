"""One NIP-77 session on one relay: messages out, messages and refusals in."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, Self

from nostr_client.errors import ProtocolError, RelayError
from nostr_client.network.waiting import Gate

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from nostr_client.codecs.messages import Closed, NegErr, NegMsg, Notice

_QUEUE: Final = 64  # both sides take turns: more than a few unread frames is a fault


class NegChannel:
    """Made by `Relay.negotiate`; a context manager that sends NEG-CLOSE.

    `receive` gives what the relay says: NegMsg, NegErr, Closed, and every Notice while the session
    is open, as some relays report their refusals so. NegErr and Closed are the last.
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
        """A frame from the relay."""
        if len(self._queue) >= _QUEUE:
            self.fail(ProtocolError("more NEG messages than answers were due", relay=self.relay))
            return
        self._queue.append(message)
        self._gate.wake()

    def fail(self, error: RelayError) -> None:
        """Nothing more will come."""
        self._error = self._error or error
        self._gate.wake()

    def send(self, message: bytes) -> None:
        """Send the next message. Raises RelayRefused when it is too long for the relay."""
        if self._error is None:
            self._send(message)

    async def receive(self) -> NegMsg | NegErr | Closed | Notice:
        """The relay's next frame; the caller sets the deadline. Safe to cancel.

        Raises NetworkError when the connection broke, ProtocolError for a frame that is none.
        """
        await self._gate.wait(lambda: self._queue or self._error)
        if self._queue:
            return self._queue.popleft()
        raise self._error or ProtocolError("closed", relay=self.relay)

    async def message_ready(self) -> None:
        """Return when `receive` has something to give; takes nothing. Safe to cancel."""
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
