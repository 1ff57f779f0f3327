"""One window on one relay: a NIP-77 session with a deadline for each step, or pages of REQs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from nostr_client.errors import DeadlineExceeded, RelayError
from nostr_client.sync.options import LEAST_FRAME
from nostr_client.sync.talk import Kind, Learned, Refusal, Suspicion, Talk

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from nostr_client.negchannel import NegChannel
    from nostr_client.relay import Relay
    from nostr_client.sync.options import SyncOptions
    from nostr_client.sync.windows import Window

_ENVELOPE: Final = 120
"""Characters of NEG-OPEN besides the filter and the message."""

_SUSPECTED: Final = 2.0
"""Seconds that a session is still given after a NOTICE that may have been about it."""

_PUZZLED: Final = 5.0
"""The same, after a NOTICE that may be about anything."""

_DOUBT: Final = 0.2
"""Part of the time for the first answer after which a silent relay's NIP-11 document is asked."""

_NIP: Final = 77


class Bargain:
    """One session: `run()` gives None when it was completed, else why it was not.

    `learn(have, need)` takes what each round told and returns how many ids were new. `begun` is
    called at the relay's first negentropy message.
    """

    def __init__(
        self,
        relay: Relay,
        window: Window,
        options: SyncOptions,
        *,
        frame_bytes: int,
        learn: Callable[[Learned], Awaitable[int]],
        begun: Callable[[], None],
    ) -> None:
        self._relay = relay
        self._window = window
        self._options = options
        self._frame_bytes = frame_bytes
        self._learn = learn
        self._begun = begun
        self._wait = options.answer
        self.rounds = 0
        self.learned = 0
        """Ids that were new."""
        self.largest = 0
        """Bytes of the largest message that was sent."""

    async def run(self) -> Refusal | None:
        """Raises NetworkError, DeadlineExceeded, ProtocolError. Sends NEG-CLOSE in any case."""
        room = self._room()
        if room < LEAST_FRAME:
            return Refusal(Kind.OVERFLOW, "the filter alone fills a message")
        # Sealing sorts nothing here, and takes milliseconds for a window.
        talk = Talk(self._window.items.seal(), frame_bytes=room, patience=self._options.patience)
        first = talk.first()
        self.largest = len(first)
        channel = await self._relay.negotiate(self._window.query, first)
        with channel:
            if await self._silent_for_good(channel):
                reason = f"silent, and NIP-{_NIP} is not in its NIP-11 document"
                return Refusal(Kind.UNSUPPORTED, reason)
            return await self._converse(talk, channel)

    async def _silent_for_good(self, channel: NegChannel) -> bool:
        """Whether a relay that says nothing at first does not claim either to know NIP-77."""
        if self._relay.capabilities.negentropy:
            return False
        doubt = self._options.answer * _DOUBT
        try:
            async with asyncio.timeout(doubt):
                await channel.heard()
            return False
        except TimeoutError:
            self._wait -= doubt
        try:
            async with asyncio.timeout(doubt):
                info = await self._relay.info()
        except (TimeoutError, RelayError):
            return False
        return bool(info.supported_nips) and not info.supports(_NIP)

    def _room(self) -> int:
        query = self._window.query
        size = 66 if isinstance(query, str) else len(query.to_json().encode())
        return min(self._frame_bytes, (self._relay.max_message_bytes - size - _ENVELOPE) // 2)

    async def _converse(self, talk: Talk, channel: NegChannel) -> Refusal | None:
        while True:
            heard = await self._next(talk, channel)
            if isinstance(heard, Refusal):
                return heard
            self.rounds = talk.rounds
            fresh = await self._learn(heard)
            self.learned += fresh
            talk.credit(fresh)
            if heard.message is None:
                return None
            self.largest = max(self.largest, len(heard.message))
            channel.send(heard.message)

    async def _next(self, talk: Talk, channel: NegChannel) -> Learned | Refusal:
        """The relay's next answer; a suspicion shortens the wait for it."""
        deadline = asyncio.get_running_loop().time() + self._wait
        suspected: Suspicion | None = None
        try:
            async with asyncio.timeout_at(deadline) as scope:
                while True:
                    heard = talk.hear(await channel.receive())
                    if isinstance(heard, Suspicion):
                        suspected = suspected if suspected and suspected.sure else heard
                        soon = _SUSPECTED if heard.sure else _PUZZLED
                        deadline = min(deadline, asyncio.get_running_loop().time() + soon)
                        scope.reschedule(deadline)
                    elif heard is not None:
                        self._heard(talk)
                        return heard
        except TimeoutError as error:
            if suspected:
                return Refusal(suspected.kind, suspected.reason)
            verb = "NEG-MSG" if talk.begun else "NEG-OPEN"
            wait = self._options.progress if talk.begun else self._options.answer
            text = f"no answer to {verb} within {wait:g} s"
            raise DeadlineExceeded(text, relay=self._relay.url) from error

    def _heard(self, talk: Talk) -> None:
        if talk.begun and self._wait != self._options.progress:
            self._wait = self._options.progress
            self._begun()
