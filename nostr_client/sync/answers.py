"""What a relay says in a session, each answer within its time.

A relay without NIP-77 may say so in any words, or say nothing at all: what it says is weighed, and
its NIP-11 document is asked when it is silent.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, TypeVar

from nostr_client.errors import DeadlineExceeded, RelayError
from nostr_client.sync.talk import Kind, Refusal, Suspicion

if TYPE_CHECKING:
    from collections.abc import Callable

    from nostr_client.negchannel import NegChannel
    from nostr_client.relay import Relay
    from nostr_client.sync.options import SyncOptions
    from nostr_client.sync.talk import Frame

_SUSPECTED: Final = 2.0
"""Seconds that a session is still given after a NOTICE that may have been about it."""

_PUZZLED: Final = 8.0
"""The same, after a NOTICE that may be about anything, where NIP-77 was not spoken before."""

_DOUBT: Final = 0.2
"""Part of the time for the first answer after which a silent relay's NIP-11 document is asked."""

_NIP: Final = 77

T = TypeVar("T")


class Answers:
    """See the module; one for each session. `begun` is called at the first negentropy message."""

    def __init__(self, relay: Relay, options: SyncOptions, begun: Callable[[], None]) -> None:
        self._relay = relay
        self._options = options
        self._begin = begun
        self._began = False

    async def next(
        self, channel: NegChannel, hear: Callable[[Frame], T | Suspicion | Refusal | None]
    ) -> T | Refusal:
        """The next answer as `hear` reads it; a suspicion shortens the wait for it.

        Raises NetworkError, DeadlineExceeded, ProtocolError.
        """
        wait = self._options.progress if self._began else self._options.answer
        deadline = asyncio.get_running_loop().time() + wait
        if not self._began and await self._is_silent_for_good(channel):
            return Refusal(
                Kind.UNSUPPORTED, f"silent, and NIP-{_NIP} is not in its NIP-11 document"
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
                    heard = hear(await channel.receive())
                    if isinstance(heard, Suspicion):
                        suspected = heard if heard.sure else suspected
                        deadline = min(deadline, self._soon(heard))
                        scope.reschedule(deadline)
                    elif heard is not None:
                        self._heard(heard)
                        return heard
        except TimeoutError as error:
            if suspected is not None:
                return Refusal(suspected.kind, suspected.reason)
            raise self._late() from error

    def _soon(self, suspicion: Suspicion) -> float:
        """Until when to wait now, by the clock of the loop."""
        now = asyncio.get_running_loop().time()
        if suspicion.sure:
            return now + _SUSPECTED
        return now + (self._options.answer if self._relay.capabilities.negentropy else _PUZZLED)

    async def _is_silent_for_good(self, channel: NegChannel) -> bool:
        """Whether a relay that says nothing at first does not claim either to know NIP-77."""
        if self._relay.capabilities.negentropy:
            return False
        doubt = self._options.answer * _DOUBT
        try:
            async with asyncio.timeout(doubt):
                await channel.heard()
            return False
        except TimeoutError:
            pass
        try:
            async with asyncio.timeout(doubt):
                info = await self._relay.info()
        except (TimeoutError, RelayError):
            return False
        return bool(info.supported_nips) and not info.supports(_NIP)

    def _heard(self, heard: object) -> None:
        if not self._began and not isinstance(heard, Refusal):
            self._began = True
            self._begin()

    def _late(self) -> DeadlineExceeded:
        verb = "NEG-MSG" if self._began else "NEG-OPEN"
        wait = self._options.progress if self._began else self._options.answer
        return DeadlineExceeded(f"no answer to {verb} within {wait:g} s", relay=self._relay.url)
