"""Compare one window of two relays with each other: one NIP-77 session each, and no local set."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Final, NamedTuple

from nostr_client.codecs.display import plural
from nostr_client.codecs.messages import NegMsg
from nostr_client.errors import (
    DeadlineExceeded,
    NegentropyError,
    NetworkError,
    ProtocolError,
    RelayError,
    RelayRefused,
    clip,
)
from nostr_client.negentropy.bridge import Bridge, DifferingIds
from nostr_client.negentropy.encoding import (
    FINGERPRINT,
    FINGERPRINT_SIZE,
    ID_LIST,
    INFINITY,
    PROTOCOL_VERSION,
    Block,
    Bound,
    MessageReader,
    MessageWriter,
)
from nostr_client.negentropy.matching import Ids
from nostr_client.sync.compare.initiator import Refusal, RefusalKind, no_message
from nostr_client.sync.compare.session import Answers, frame_room
from nostr_client.sync.options import LEAST_FRAME

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from nostr_client.codecs.filters import Filter
    from nostr_client.network.negchannel import NegChannel
    from nostr_client.network.relay import Relay
    from nostr_client.sync.compare.initiator import Frame, Suspicion
    from nostr_client.sync.options import SyncOptions
    from nostr_client.sync.tally import RelayTally

_PASSING: Final = (RefusalKind.RESTART, RefusalKind.LOST, RefusalKind.FAULT)
"""Refusals after which the same question may be sent again."""

_MOST_ROUNDS: Final = 64
"""Most rounds down to the oldest ids.

An honest relay splits each range into sixteen parts, or two.
"""

_READ: Final = 64

_ROUND_WORTH: Final = 2
"""Ids found that allow one more round, as in a session with a store."""


class PairRefusal(NamedTuple):
    """The side that ended the comparison, and the reason."""

    side: int
    refusal: Refusal


class _Session:
    """Session with one of the two relays.

    It opens at the first question, and again if it was lost.
    """

    def __init__(self, filter: Filter, tally: RelayTally, options: SyncOptions) -> None:
        self._filter = filter
        self._relay: Relay = tally.relay
        self._tally = tally
        self._options = options
        self._frame_bytes = options.frame_bytes
        self._channel: NegChannel | None = None
        self._answers = self._new_answers()
        self._begun = False
        self._sent = 0
        self.tries = 0
        """Number of failures since the last answer."""

    def _new_answers(self) -> Answers:
        return Answers(self._relay, self._options, lambda: self._relay.learn(negentropy=True))

    @property
    def room(self) -> int:
        """The most bytes of the session's next message."""
        return frame_room(self._relay, self._filter, self._frame_bytes)

    async def ask(self, message: bytes) -> bytes | Refusal:
        """Return the relay's answer. After a refusal the session is closed."""
        self._sent = len(message)
        try:
            if self._channel is None:
                self._channel = await self._relay.negotiate(self._filter, message)
                self._answers = self._new_answers()
                self._begun = False
            else:
                self._channel.send(message)
            answer = await self._answers.next(self._channel, self._hear)
        except (NetworkError, DeadlineExceeded, ProtocolError, RelayRefused) as error:
            answer = self._failed(error)
        if isinstance(answer, Refusal):
            self.close()
            self.tries += 1
            return answer
        self.tries = 0
        self._tally.rounds += 1
        return answer.message

    def _hear(self, frame: Frame) -> NegMsg | Refusal | Suspicion | None:
        if isinstance(frame, NegMsg):
            self._begun = True
            return frame
        return no_message(frame, self._begun)

    def _failed(self, error: RelayError) -> Refusal:
        if isinstance(error, NetworkError):
            if self._sent > LEAST_FRAME:  # the frame may have been too large for the relay
                self._frame_bytes = max(LEAST_FRAME, min(self._frame_bytes, self._sent) // 2)
            return Refusal(RefusalKind.LOST, str(error))
        speaks = self._relay.capabilities.negentropy
        unasked = self._relay.held_back() is not None  # by our own budget
        silent = isinstance(error, DeadlineExceeded) and not speaks and not unasked
        return Refusal(RefusalKind.UNSUPPORTED if silent else RefusalKind.FAULT, str(error))

    def close(self) -> None:
        """Send NEG-CLOSE if the session is open."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None


class LowestIds:
    """Finds the oldest ids that one relay compares for a filter, in its own session.

    Each question asks for the lowest part of the last answer, until ids come. This takes a dozen
    messages of some hundred bytes, for any number of events. `ids` usually begin with the oldest.
    """

    def __init__(self, filter: Filter, tally: RelayTally, options: SyncOptions) -> None:
        self._session = _Session(filter, tally, options)
        self._options = options
        self._unlike = os.urandom(FINGERPRINT_SIZE)
        self._range: tuple[Bound, Bound] = ((0, b""), (INFINITY, b""))
        self.ids: tuple[bytes, ...] = ()

    async def find(self) -> Refusal | None:
        """Find `ids`. Return None on success, also if the relay has no ids. Safe to cancel."""
        try:
            for _ in range(_MOST_ROUNDS):
                answer = await self._ask()
                if isinstance(answer, Refusal):
                    return answer
                try:
                    if self._hear(answer):
                        return None
                except NegentropyError as error:
                    return Refusal(RefusalKind.BROKEN, clip(str(error)))
            return Refusal(RefusalKind.BROKEN, "does not come to its oldest ids")
        finally:
            self._session.close()

    async def _ask(self) -> bytes | Refusal:
        if self._session.room < LEAST_FRAME:
            return Refusal(RefusalKind.OVERFLOW, "the filter alone fills a message")
        floor, (stamp, prefix) = self._range
        writer = MessageWriter(self._session.room)
        writer.write(
            Block(floor, stamps=[stamp], prefixes=[prefix], lows=[0], prints=[self._unlike]),
            lambda low, high: b"",
        )
        while True:
            answer = await self._session.ask(writer.message())
            passing = isinstance(answer, Refusal) and answer.kind in _PASSING
            if not passing or self._session.tries >= self._options.tries:
                return answer

    def _hear(self, message: bytes) -> bool:
        """Go down to the lowest part of an answer. Return True if it has ids or is empty."""
        reader = MessageReader(message)
        if reader.version != PROTOCOL_VERSION:
            raise NegentropyError("another version of the protocol", kind="unsupported-version")
        floor: Bound = (0, b"")
        while not reader.exhausted:
            for stamp, prefix, mode, payload in zip(*reader.read(_READ), strict=True):
                upper = (stamp, prefix)
                if mode == FINGERPRINT and (floor, upper) != self._range:
                    self._range = (floor, upper)
                    return False
                if mode == ID_LIST and payload:
                    self.ids = tuple(Ids(payload))
                    return True
                floor = upper
        return True


class PairSession:
    """Compares the events of a filter on two relays. `learn` gets the ids that only one relay has.

    If a relay forgets or loses its session, the questions without an answer are asked again.
    """

    def __init__(
        self,
        filter: Filter,
        tallies: Sequence[RelayTally],
        options: SyncOptions,
        learn: Callable[[DifferingIds], Awaitable[None]],
    ) -> None:
        self._sessions = [_Session(filter, tally, options) for tally in tallies]
        self._bridge = Bridge(os.urandom(FINGERPRINT_SIZE), until=filter.until)
        self._options = options
        self._learn = learn
        self._found = 0
        self._rounds = 0

    async def run(self) -> PairRefusal | None:
        """Compare to the end and return None, or return who refused and why. Safe to cancel."""
        try:
            while not self._bridge.done:
                self._rounds += 1
                async with asyncio.TaskGroup() as group:
                    turns = [group.create_task(self._turn(side)) for side in (0, 1)]
                for side, turn in enumerate(turns):
                    if (refusal := turn.result()) is not None:
                        return PairRefusal(side, refusal)
            return None
        finally:
            for session in self._sessions:
                session.close()

    async def _turn(self, side: int) -> Refusal | None:
        """Ask one side, if there is a question for it."""
        session = self._sessions[side]
        if session.room < LEAST_FRAME:
            return Refusal(RefusalKind.OVERFLOW, "the filter alone fills a message")
        message = self._bridge.ask(side, session.room)
        if message is None:
            return None
        if self._rounds > self._options.patience + self._found // _ROUND_WORTH:
            return Refusal(
                RefusalKind.BROKEN, f"does not converge within {plural(self._rounds, 'round')}"
            )
        answer = await session.ask(message)
        if isinstance(answer, Refusal):
            return self._ask_again(side, answer)
        try:
            only = self._bridge.hear(side, answer)
        except NegentropyError as error:
            return Refusal(RefusalKind.BROKEN, clip(str(error)))
        self._found += len(only.first) + len(only.second)
        await self._learn(only)
        return None

    def _ask_again(self, side: int, refusal: Refusal) -> Refusal | None:
        """Return None and prepare to ask again if that is allowed, else return the refusal."""
        if refusal.kind not in _PASSING or self._sessions[side].tries >= self._options.tries:
            return refusal
        self._bridge.again(side)
        return None
