"""What a relay has shown and said so far: capabilities, NOTICEs, its document, its limits."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final

import msgspec

from nostr_client import hll
from nostr_client.relay_stats import Capabilities

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nostr_client.filters import Filter
    from nostr_client.messages import CountAnswer
    from nostr_client.nip11 import RelayInfo
    from nostr_client.options import Limits
    from nostr_client.protocol import Connection

_TICK: Final = 2.0
"""Seconds that a Date is off by itself: it has whole ones, and was under way."""

_MOST_BEHIND: Final = 86_400.0
"""Seconds; a clock that is further off is set wrong, or the relay wants us to read much again."""

_SMALLEST_MESSAGE: Final = 1024  # a document that claims less is wrong, not strict


class Knowledge:
    """Outlives connections; `capabilities` may come from an earlier run."""

    def __init__(self, limits: Limits, capabilities: Capabilities | None) -> None:
        self.capabilities = capabilities or Capabilities()
        self.info: RelayInfo | None = None
        self.notices: deque[str] = deque(maxlen=limits.notices)
        self.heard = 0
        self.behind = 0.0
        self._limits = limits

    def learn(self, **changes: Any) -> None:
        """Note what the relay showed that it can do: fields of `Capabilities`."""
        self.capabilities = msgspec.structs.replace(self.capabilities, **changes)

    def told_time(self, date: float | None, now: float) -> None:
        """Take the relay's clock, of the handshake, both in Unix seconds; odd ones are ignored.

        One that is ahead is no matter: ours is the earlier one then.
        """
        behind = 0.0 if date is None else now - date
        self.behind = behind if _TICK < behind <= _MOST_BEHIND else 0.0

    def counted(self, asked: Sequence[Filter], answer: CountAnswer) -> None:
        """Learn from an answer to COUNT."""
        self.learn(count=True)
        if answer.hll is not None:
            self.learn(hll=True)
        elif self.capabilities.hll is None and hll.eligible(asked[0].to_dict()):
            self.learn(hll=False)

    def noticed(self, text: str) -> None:
        """Keep a NOTICE; the oldest goes when there are too many."""
        self.notices.append(text)
        self.heard += 1

    def documented(self, info: RelayInfo) -> None:
        """Keep the relay's document and what it says about limits."""
        self.info = info
        self.learn(max_subscriptions=info.limitation.max_subscriptions or None)

    def apply_limits(self, connection: Connection) -> None:
        """Bind a connection to the smaller of our limits and the relay's."""
        ours, theirs = self._limits.subscriptions, self.capabilities.max_subscriptions
        connection.subscriptions.allow(min(ours, theirs or ours))
        longest = self.info.limitation.max_message_length if self.info else None
        if longest is not None and longest >= _SMALLEST_MESSAGE:
            connection.max_message_bytes = min(self._limits.message_bytes_out, longest)
