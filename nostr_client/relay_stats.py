"""What is known about one relay: its status, numbers, and what it showed that it can do."""

from __future__ import annotations

from enum import StrEnum

import msgspec

_SMOOTHING = 0.3  # weight of the newest round trip in the latency shown


class RelayStatus(StrEnum):
    """Where a relay's connection stands."""

    INITIALIZED = "initialized"  # made, and nobody has asked for a connection yet
    CONNECTING = "connecting"
    CONNECTED = "connected"
    DISCONNECTED = "disconnected"  # waits for the next attempt
    TERMINATED = "terminated"  # closed by us, or given up: no further attempt


class RelayStats(msgspec.Struct):
    """Numbers of one relay since it was made; times are Unix seconds, sizes characters of text."""

    attempts: int = 0
    successes: int = 0
    first_connected_at: float | None = None
    connected_at: float | None = None
    bytes_sent: int = 0
    bytes_received: int = 0
    latency_ms: float | None = None
    """Smoothed round trip of pings; None before the first pong."""
    frames: int = 0
    rejected: int = 0
    """Frames that are no message of any NIP that we speak."""
    unknown: int = 0
    """Messages about requests that we did not make, or that ended before."""
    notices: int = 0
    faults: int = 0
    """Times that we cut the relay off: floods, events nobody asked for, broken frames."""
    last_error: str = ""

    @property
    def success_rate(self) -> float:
        """Share of attempts that gave a connection; 0 before the first."""
        return self.successes / self.attempts if self.attempts else 0.0

    def round_trip(self, milliseconds: float) -> None:
        """Take one measured round trip in."""
        old = milliseconds if self.latency_ms is None else self.latency_ms
        self.latency_ms = old + _SMOOTHING * (milliseconds - old)


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """What a relay can do, by what it did; None where nothing shows it yet.

    Values of an earlier run may be given to a Relay, which only ever replaces them by newer ones.
    """

    count: bool | None = None
    """Whether it answered a COUNT, or said that it knows no such command."""
    count_hint: bool | None = None
    """What HELLO says about COUNT; a hint only."""
    hll: bool | None = None
    """Whether its answer to an eligible query carried registers."""
    union: bool | None = None
    """Whether a COUNT of several filters tells their true union; most relays answer for one."""
    negentropy: bool | None = None
    auth: bool | None = None
    """Whether it asked for AUTH."""
    max_subscriptions: int | None = None
    """How many open REQs its document allows."""
