"""Keep what one relay has shown so far: status, statistics, capabilities, limits and NOTICEs."""

from __future__ import annotations

from collections import deque
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

import msgspec

from nostr_client import hll

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nostr_client.codecs.filters import Filter
    from nostr_client.codecs.messages import CountAnswer
    from nostr_client.codecs.nip11 import RelayInfo
    from nostr_client.options import Limits
    from nostr_client.protocol import Connection


_SMOOTHING = 0.3  # weight of the newest round trip in the smoothed latency


class RelayStatus(StrEnum):
    """State of a relay's connection."""

    INITIALIZED = "initialized"  # made, but no request has needed a connection yet
    CONNECTING = "connecting"
    CONNECTED = "connected"
    DISCONNECTED = "disconnected"  # waiting for the next attempt
    TERMINATED = "terminated"  # closed by the client or given up, with no further attempt


class RelayStats(msgspec.Struct):
    """Statistics of one relay since it was made.

    Times are Unix seconds. Bytes are those of messages, without compression.
    """

    attempts: int = 0
    successes: int = 0
    first_connected_at: float | None = None
    connected_at: float | None = None
    bytes_sent: int = 0
    bytes_received: int = 0
    latency_ms: float | None = None
    """Smoothed round trip of pings. None before the first pong."""
    frames: int = 0
    rejected: int = 0
    """Frames that are no message of a supported NIP."""
    unknown: int = 0
    """Messages about requests that the client did not send, or that had ended."""
    notices: int = 0
    faults: int = 0
    """How often the client cut the relay off because of a flood, unrequested events or broken
    frames.
    """
    last_error: str = ""

    @property
    def success_rate(self) -> float:
        """The share of attempts that gave a connection. 0 before the first attempt."""
        return self.successes / self.attempts if self.attempts else 0.0

    def round_trip(self, milliseconds: float) -> None:
        """Add one measured round trip."""
        old = milliseconds if self.latency_ms is None else self.latency_ms
        self.latency_ms = old + _SMOOTHING * (milliseconds - old)


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """What a relay supports, as its answers show. A value is null if no answer shows it yet.

    - `count`: whether the relay answers COUNT.
    - `count_hint`: what the relay's HELLO says about COUNT.
    - `hll`: whether an answer to an eligible query had registers.
    - `union`: whether COUNT with several filters returns their union. Most relays count one filter.
    - `negentropy`: whether the relay supports negentropy (NIP-77).
    - `auth`: whether the relay asked for AUTH.
    - `max_subscriptions`: most open REQs, by the relay's NIP-11 document.
    """

    count: bool | None = None
    count_hint: bool | None = None
    hll: bool | None = None
    union: bool | None = None
    negentropy: bool | None = None
    auth: bool | None = None
    max_subscriptions: int | None = None


_TICK: Final = 2.0
"""Seconds of error in a Date header. The header has whole seconds and travels for some time."""

_MOST_BEHIND: Final = 86_400.0
"""Most seconds that a clock may be behind.

A larger number means a wrong clock, or a relay that wants the client to read much again.
"""

_SMALLEST_MESSAGE: Final = 1024  # a document that states less is wrong


class RelayKnowledge:
    """Knowledge about a relay that outlives connections.

    `capabilities` may come from an earlier run.
    """

    def __init__(self, limits: Limits, capabilities: Capabilities | None) -> None:
        self.capabilities = capabilities or Capabilities()
        self.info: RelayInfo | None = None
        self.notices: deque[str] = deque(maxlen=limits.notices)
        self.notices_received = 0
        self.behind = 0.0
        self._limits = limits

    def learn(self, **changes: Any) -> None:
        """Record what the relay has shown that it supports.

        The arguments are fields of `Capabilities`.
        """
        known = self.capabilities
        if any(getattr(known, name) != value for name, value in changes.items()):
            self.capabilities = msgspec.structs.replace(known, **changes)

    def note_clock(self, date: float | None, now: float) -> None:
        """Note the relay's clock in the handshake (Unix seconds). Ignores implausible clocks.

        A clock that is ahead needs no correction, because the local clock is then the earlier one.
        """
        behind = 0.0 if date is None else now - date
        self.behind = behind if _TICK < behind <= _MOST_BEHIND else 0.0

    def counted(self, asked: Sequence[Filter], answer: CountAnswer) -> None:
        """Learn from an answer to COUNT."""
        known = self.capabilities
        if known.count is not True:
            self.learn(count=True)
        if answer.hll is not None:
            if known.hll is not True:
                self.learn(hll=True)
        elif known.hll is None and hll.eligible(asked[0].to_dict()):
            self.learn(hll=False)

    def noticed(self, text: str) -> None:
        """Keep a NOTICE. The oldest one is dropped if there are too many."""
        self.notices.append(text)
        self.notices_received += 1

    def documented(self, info: RelayInfo) -> None:
        """Keep the relay's NIP-11 document and its limits."""
        self.info = info
        self.learn(max_subscriptions=info.limitation.max_subscriptions or None)

    def apply_limits(self, connection: Connection) -> None:
        """Limit a connection to the smaller of the client's limits and the relay's limits."""
        ours, theirs = self._limits.subscriptions, self.capabilities.max_subscriptions
        connection.subscriptions.allow(min(ours, theirs or ours))
        longest = self.info.limitation.max_message_length if self.info else None
        if longest is not None and longest >= _SMALLEST_MESSAGE:
            connection.max_message_bytes = min(self._limits.message_bytes_out, longest)
