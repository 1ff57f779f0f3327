"""How fast is too fast: a token bucket to pace, a window to judge. Pure: time is an argument."""

from __future__ import annotations

from collections import deque


class TokenBucket:
    """Lets `rate` things through in a second, and `burst` at once after a pause."""

    __slots__ = ("_at", "_burst", "_rate", "_tokens")

    def __init__(self, rate: float, burst: float | None = None, *, now: float = 0.0) -> None:
        self._rate = rate
        self._burst = burst or max(1.0, rate)
        self._tokens = self._burst
        self._at = now

    def take(self, now: float) -> float:
        """Take one token; returns the seconds to wait before going on, 0 most of the time."""
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self._rate)
        self._at = now
        self._tokens -= 1
        return max(0.0, -self._tokens / self._rate)


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
