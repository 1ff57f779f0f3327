"""Run the NIP-77 session of one window on one relay, with a deadline for each answer."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, TypeVar

from nostr_client.errors import DeadlineExceeded, RelayError
from nostr_client.sync.compare.initiator import InitiatorSession, Refusal, RefusalKind, Suspicion
from nostr_client.sync.options import LEAST_FRAME

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from nostr_client.codecs.filters import Filter
    from nostr_client.network.negchannel import NegChannel
    from nostr_client.network.relay import Relay
    from nostr_client.sync.compare.initiator import Frame, LearnedIds
    from nostr_client.sync.compare.windows import SyncWindow
    from nostr_client.sync.options import SyncOptions


_SUSPECTED: Final = 2.0
"""Seconds that a session still gets after a NOTICE that may be about it."""

_PUZZLED: Final = 8.0
"""The same after a NOTICE about anything, if the relay has not used NIP-77 before."""

_DOUBT: Final = 0.2
"""Part of the first answer's time after which the NIP-11 document of a silent relay is read."""

_NIP: Final = 77

T = TypeVar("T")


class Answers:
    """Waits for the answers of one session. `begun` is called at the first negentropy message."""

    def __init__(self, relay: Relay, options: SyncOptions, begun: Callable[[], None]) -> None:
        self._relay = relay
        self._options = options
        self._begin = begun
        self._began = False

    async def next(
        self, channel: NegChannel, hear: Callable[[Frame], T | Suspicion | Refusal | None]
    ) -> T | Refusal:
        """Return the next answer as `hear` reads it. A suspicion shortens the wait.

        Raises NetworkError, DeadlineExceeded, ProtocolError.
        """
        wait = self._options.progress if self._began else self._options.answer
        deadline = asyncio.get_running_loop().time() + wait
        if not self._began and await self._is_silent_for_good(channel):
            return Refusal(
                RefusalKind.UNSUPPORTED, f"silent, and NIP-{_NIP} is not in its NIP-11 document"
            )
        return await self._wait(channel, hear, deadline)

    async def _wait(
        self,
        channel: NegChannel,
        hear: Callable[[Frame], T | Suspicion | Refusal | None],
        deadline: float,
    ) -> T | Refusal:
        suspected: Suspicion | None = None
        try:
            async with asyncio.timeout_at(deadline) as scope:
                while True:
                    answer = hear(await channel.receive())
                    if isinstance(answer, Suspicion):
                        suspected = answer if answer.sure else suspected
                        deadline = min(deadline, self._soon(answer))
                        scope.reschedule(deadline)
                    elif answer is not None:
                        self._note_begun(answer)
                        return answer
        except TimeoutError as error:
            if suspected is not None:
                return Refusal(suspected.kind, suspected.reason)
            raise self._late() from error

    def _soon(self, suspicion: Suspicion) -> float:
        """Return the new deadline after a suspicion, in loop time."""
        now = asyncio.get_running_loop().time()
        if suspicion.sure:
            return now + _SUSPECTED
        return now + (self._options.answer if self._relay.capabilities.negentropy else _PUZZLED)

    async def _is_silent_for_good(self, channel: NegChannel) -> bool:
        """Return True if a relay is silent and its NIP-11 document does not list NIP-77."""
        if self._relay.capabilities.negentropy:
            return False
        doubt = self._options.answer * _DOUBT
        try:
            async with asyncio.timeout(doubt):
                await channel.message_ready()
            return False
        except TimeoutError:
            pass
        try:
            async with asyncio.timeout(doubt):
                info = await self._relay.info()
        except (TimeoutError, RelayError):
            return False
        return bool(info.supported_nips) and not info.supports(_NIP)

    def _note_begun(self, answer: object) -> None:
        if not self._began and not isinstance(answer, Refusal):
            self._began = True
            self._begin()

    def _late(self) -> DeadlineExceeded:
        verb = "NEG-MSG" if self._began else "NEG-OPEN"
        wait = self._options.progress if self._began else self._options.answer
        return DeadlineExceeded(f"no answer to {verb} within {wait:g} s", relay=self._relay.url)


_ENVELOPE: Final = 120
"""Characters of NEG-OPEN without the filter and the message."""


class WindowSession:
    """One session. `run()` returns None if the session is complete, else the reason why not.

    `learn` takes the result of each round and returns how many ids were new. `begun` is called at
    the relay's first negentropy message.
    """

    def __init__(
        self,
        relay: Relay,
        window: SyncWindow,
        options: SyncOptions,
        *,
        frame_bytes: int,
        learn: Callable[[LearnedIds], Awaitable[int]],
        begun: Callable[[], None],
    ) -> None:
        self._relay = relay
        self._window = window
        self._options = options
        self._frame_bytes = frame_bytes
        self._learn = learn
        self._answers = Answers(relay, options, begun)
        self.rounds = 0
        self.learned = 0
        """The number of new ids."""
        self.largest = 0
        """Bytes of the largest message that was sent."""

    async def run(self) -> Refusal | None:
        """Run the session.

        Raises NetworkError, DeadlineExceeded, ProtocolError. Sends NEG-CLOSE always.
        """
        room = frame_room(self._relay, self._window.query, self._frame_bytes)
        if room < LEAST_FRAME:
            return Refusal(RefusalKind.OVERFLOW, "the filter alone fills a message")
        # Sealing takes only milliseconds for a window, because the items are sorted already.
        talk = InitiatorSession(
            self._window.items.seal(), frame_bytes=room, patience=self._options.patience
        )
        first = talk.first()
        self.largest = len(first)
        channel = await self._relay.negotiate(self._window.query, first)
        with channel:
            return await self._converse(talk, channel)

    async def _converse(self, talk: InitiatorSession, channel: NegChannel) -> Refusal | None:
        while True:
            answer = await self._answers.next(channel, talk.hear)
            if isinstance(answer, Refusal):
                return answer
            self.rounds = talk.rounds
            fresh = await self._learn(answer)
            self.learned += fresh
            talk.credit(fresh)
            if answer.message is None:
                return None
            self.largest = max(self.largest, len(answer.message))
            channel.send(answer.message)


def frame_room(relay: Relay, query: Filter | str, frame_bytes: int) -> int:
    """Return the bytes of a negentropy message that fit beside the query in the relay's limit."""
    size = 66 if isinstance(query, str) else len(query.to_json().encode())
    return min(frame_bytes, (relay.max_message_bytes - size - _ENVELOPE) // 2)
