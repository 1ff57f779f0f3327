"""One window on one relay: a NIP-77 session with a deadline for each step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nostr_client.sync.answers import Answers
from nostr_client.sync.options import LEAST_FRAME
from nostr_client.sync.talk import Kind, Refusal, Talk

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from nostr_client.filters import Filter
    from nostr_client.negchannel import NegChannel
    from nostr_client.relay import Relay
    from nostr_client.sync.options import SyncOptions
    from nostr_client.sync.talk import Learned
    from nostr_client.sync.windows import Window

_ENVELOPE: Final = 120
"""Characters of NEG-OPEN besides the filter and the message."""


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
        self._answers = Answers(relay, options, begun)
        self.rounds = 0
        self.learned = 0
        """Ids that were new."""
        self.largest = 0
        """Bytes of the largest message that was sent."""

    async def run(self) -> Refusal | None:
        """Raises NetworkError, DeadlineExceeded, ProtocolError. Sends NEG-CLOSE in any case."""
        room = frame_room(self._relay, self._window.query, self._frame_bytes)
        if room < LEAST_FRAME:
            return Refusal(Kind.OVERFLOW, "the filter alone fills a message")
        # Sealing sorts nothing here, and takes milliseconds for a window.
        talk = Talk(self._window.items.seal(), frame_bytes=room, patience=self._options.patience)
        first = talk.first()
        self.largest = len(first)
        channel = await self._relay.negotiate(self._window.query, first)
        with channel:
            return await self._converse(talk, channel)

    async def _converse(self, talk: Talk, channel: NegChannel) -> Refusal | None:
        while True:
            heard = await self._answers.next(channel, talk.hear)
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


def frame_room(relay: Relay, query: Filter | str, frame_bytes: int) -> int:
    """Bytes of a negentropy message that fit beside the query in what the relay takes."""
    size = 66 if isinstance(query, str) else len(query.to_json().encode())
    return min(frame_bytes, (relay.max_message_bytes - size - _ENVELOPE) // 2)
