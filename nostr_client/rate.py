"""How fast is too fast: a token bucket to pace, a window to judge. Pure: time is an argument."""

from __future__ import annotations

from collections import deque
from typing import Final

_INSTANT: Final = 1e-6
"""Seconds that are no wait: sums of floats come short by less."""


class TokenBucket:
    """Lets `rate` things through in a second, and `burst` at once after a pause.

    A clock that jumps back earns nothing. No more than `debt` is owed, so that one large taking
    holds up what follows for `debt / rate` seconds at most.
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
        """The tokens, and when they were counted: what another bucket can go on with."""
        return self._tokens, self._at

    def go_on(self, tokens: float, at: float) -> None:
        """Go on where another bucket of this kind stopped."""
        self._tokens = max(-self._debt, min(self._burst, tokens))
        self._at = at

    def take(self, now: float, n: float = 1.0) -> float:
        """Take tokens, also such as are not there yet; the seconds to wait until they are."""
        self._earn(now)
        self._tokens = max(-self._debt, self._tokens - n)
        return max(0.0, -self._tokens / self._rate)

    def wait(self, now: float, n: float = 1.0) -> float:
        """Seconds until there are `n` tokens; nothing is taken."""
        self._earn(now)
        seconds = (n - self._tokens) / self._rate
        return seconds if seconds > _INSTANT else 0.0

    def allow(self, now: float) -> bool:
        """Take one token if there is one; whether there was."""
        if self.wait(now):
            return False
        self._tokens -= 1.0
        return True

    def _earn(self, now: float) -> None:
        earned = max(0.0, now - self._at) * self._rate
        self._tokens = min(self._burst, self._tokens + earned)
        self._at = now


class Window:
    """Notices when more than `most` things happen within `seconds`."""

    __slots__ = ("_most", "_seconds", "_times")

    def __init__(self, most: int, seconds: float) -> None:
        self._most = most
        self._seconds = seconds
        self._times: deque[float] = deque(maxlen=most + 1)

    def exceeded(self, now: float) -> bool:
        """Count one thing; whether that was one too many."""
        self._times.append(now)
        return len(self._times) > self._most and now - self._times[0] < self._seconds
