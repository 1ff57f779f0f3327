"""Limit rates and time retries: back-off, token bucket and window.

Pure. Time and randomness are arguments.
"""

from __future__ import annotations

import random
from collections import deque
from enum import Enum
from typing import TYPE_CHECKING, Final

from nostr_client.errors import (
    DeadlineExceeded,
    NetworkError,
    ProtocolError,
    RelayRefused,
    Unsupported,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from nostr_client.options import ReconnectPolicy


class RetryDecision(Enum):
    """What to do after a failure."""

    RETRY = "retry"  # after the next delay
    RETRY_LATE = "retry-late"  # after the longest delay, because the relay asked for a pause
    FATAL = "fatal"  # never, because the same request fails again


_GO_AWAY = 4000
"""Close code that an earlier NIP-01 defined as "do not connect again"."""

_LATE_CLOSE = frozenset({1002, 1003, 1007, 1008, 1009, 1010})
"""RFC 6455 codes that blame the client: protocol, type, encoding, policy, size, extension."""

_FATAL_PREFIXES = frozenset({"auth-required", "restricted", "blocked", "invalid", "pow", "mute"})


def delays(policy: ReconnectPolicy, rand: Callable[[], float] = random.random) -> Iterator[float]:
    """Yield the seconds to wait before each attempt, without end or `policy.attempts` times.

    Delays have full jitter above a floor. The nth delay lies between `first` and `first * 2^n`, and
    is at most `longest`. `rand` returns numbers in [0, 1).
    """
    ceiling, made = policy.first, 0
    while policy.attempts is None or made < policy.attempts:
        ceiling = min(policy.longest, ceiling * 2)
        made += 1
        yield policy.first + rand() * (ceiling - policy.first)


def judge(error: BaseException) -> RetryDecision:
    """Return whether and when to retry after an error.

    - FATAL: a mistake of the caller, an unsupported command, or a refusal of this user or this
      content.
    - RETRY_LATE: a policy close, HTTP 3xx or 4xx in the handshake, or a relay that breaks the
      protocol.
    - RETRY: every other error, for example a restart (1001, 1012).
    """
    match error:
        case Unsupported():
            return RetryDecision.FATAL
        case RelayRefused():
            return (
                RetryDecision.FATAL if error.prefix in _FATAL_PREFIXES else RetryDecision.RETRY_LATE
            )
        case ProtocolError():
            return RetryDecision.RETRY_LATE
        case NetworkError():
            return _judge_connection(error.close_code, error.http_status)
        case DeadlineExceeded() | OSError():
            return RetryDecision.RETRY
    return RetryDecision.FATAL


def _judge_connection(close_code: int | None, http_status: int | None) -> RetryDecision:
    if close_code == _GO_AWAY:
        return RetryDecision.FATAL
    blames_us = close_code in _LATE_CLOSE or 300 <= (http_status or 0) < 500
    return RetryDecision.RETRY_LATE if blames_us else RetryDecision.RETRY


_INSTANT: Final = 1e-6
"""Shorter waits count as no wait, because sums of floats have small errors."""


class TokenBucket:
    """Token bucket that earns `rate` tokens a second, and holds at most `burst` tokens.

    A clock that jumps back earns nothing. A bucket owes at most `debt` tokens. One large take
    therefore delays later ones by at most `debt / rate` seconds.
    """

    __slots__ = ("_at", "_burst", "_debt", "_rate", "_tokens")

    def __init__(
        self,
        rate: float,
        burst: float | None = None,
        *,
        debt: float = float("inf"),
        now: float = 0.0,
    ) -> None:
        self._rate = rate
        self._burst = max(1.0, rate if burst is None else burst)
        self._debt = debt
        self._tokens = self._burst
        self._at = now

    @property
    def numbers(self) -> tuple[float, float]:
        """The tokens and the time when they were counted, for `go_on` of another bucket."""
        return self._tokens, self._at

    def go_on(self, tokens: float, at: float) -> None:
        """Continue with the numbers of another bucket of this kind."""
        self._tokens = max(-self._debt, min(self._burst, tokens))
        self._at = at

    def take(self, now: float, n: float = 1.0) -> float:
        """Take tokens, even if the bucket lacks them.

        Return the seconds until the bucket has them.
        """
        self._earn(now)
        self._tokens -= n
        if self._tokens >= 0.0:
            return 0.0
        self._tokens = max(-self._debt, self._tokens)
        return -self._tokens / self._rate

    def wait(self, now: float, n: float = 1.0) -> float:
        """Return the seconds until there are `n` tokens. Takes none."""
        self._earn(now)
        seconds = (n - self._tokens) / self._rate
        return seconds if seconds > _INSTANT else 0.0

    def allow(self, now: float) -> bool:
        """Take one token if there is one. Return True if there was one."""
        self._earn(now)
        if (1.0 - self._tokens) / self._rate > _INSTANT:
            return False
        self._tokens -= 1.0
        return True

    def _earn(self, now: float) -> None:
        if now > self._at:
            tokens = self._tokens + (now - self._at) * self._rate
            self._tokens = tokens if tokens < self._burst else self._burst
        self._at = now


class RateWindow:
    """Detects more than `most` calls within `seconds`."""

    __slots__ = ("_most", "_seconds", "_times")

    def __init__(self, most: int, seconds: float) -> None:
        self._most = most
        self._seconds = seconds
        self._times: deque[float] = deque(maxlen=most + 1)

    def exceeded(self, now: float) -> bool:
        """Count one call. Return True if there were too many."""
        self._times.append(now)
        return len(self._times) > self._most and now - self._times[0] < self._seconds
