"""What a public relay is asked by all connections of this process together, and no more.

Public relays are run by others, for many. The budget is that of a host, as all its paths are one
machine. Relays on addresses and names of one's own network have none, nor those that the user
lifts. Processes do not know of each other: each has budgets of its own.
"""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Final

from nostr_client.addresses import host_of, refusal
from nostr_client.rate import TokenBucket

if TYPE_CHECKING:
    from collections.abc import Callable

    from nostr_client.options import Options, RelayBudget

REMEMBERED: Final = 1_024
"""Budgets that are known at most: a relay that is let go and asked again goes on with its own."""

JITTER: Final = 0.25
"""A wait is longer by up to this share of the time between two requests: programs that the same
relay made wait do not come together."""


class Budget:
    """What one host may be asked now. Pure: seconds of a monotonic clock are arguments."""

    def __init__(self, limits: RelayBudget, rand: Callable[[], float] = random.random) -> None:
        self._limits = limits
        self._rand = rand
        self._requests = TokenBucket(limits.requests_per_minute / 60, limits.requests_at_once)
        self._bytes = TokenBucket(
            limits.bytes_per_minute / 60, limits.bytes_at_once, debt=limits.bytes_at_once
        )
        self._pause = 0.0
        self._until = 0.0

    def wait(self, now: float) -> float:
        """Seconds until the next request may go; 0 most of the time."""
        return max(self._requests.wait(now), self.pause(now))

    def pause(self, now: float) -> float:
        """Seconds until the relay may be asked anything at all: bytes are spent, or it said so."""
        backing_off = min(self._until - now, self._limits.longest_pause)
        return max(self._bytes.wait(now, 0), backing_off, 0.0)

    def take(self, now: float) -> float:
        """Take the next request, first come first served; the seconds to wait before it goes."""
        seconds = self._requests.take(now)
        apart = 60 / self._limits.requests_per_minute
        return seconds and seconds + JITTER * apart * self._rand()

    def carried(self, size: int, now: float) -> None:
        """Count bytes that came or went; requests wait once there were too many."""
        self._bytes.take(now, size)

    def refused(self, now: float) -> None:
        """The relay said `rate-limited:`: ask nothing for a while, twice as long each time."""
        if now < self._until <= now + self._limits.longest_pause:
            return  # of the same burst
        longest = self._limits.longest_pause
        self._pause = min(longest, 2 * self._pause or self._limits.first_pause)
        self._until = now + self._pause * (1 + self._rand()) / 2

    def answered(self, now: float) -> None:
        """The relay answered after its pause: the next one is a short one again."""
        if now >= self._until:
            self._pause = 0.0


class Budgets:
    """The budgets of this process, by host; those with other limits are others."""

    def __init__(self, rand: Callable[[], float] = random.random) -> None:
        self._rand = rand
        self._known: dict[tuple[str, RelayBudget], Budget] = {}

    def of(self, url: str, options: Options) -> Budget | None:
        """The budget of a relay, None where it is not limited. Raises InvalidRelayURL."""
        limits, host = options.budget, host_of(url)
        if limits is None or is_own(url) or host in map(host_of, options.unlimited):
            return None
        key = host, limits
        found = self._known.pop(key, None) or Budget(limits, self._rand)
        self._known[key] = found  # the newest stands last
        if len(self._known) > REMEMBERED:
            del self._known[next(iter(self._known))]
        return found


OF_PROCESS: Final = Budgets()
"""What the relays of a process share unless they are given others, as tests do."""


def is_own(url: str) -> bool:
    """Whether a relay stands on an address, or has a name, of this machine or its network."""
    return refusal(url, proxied=True, unchecked=True) is not None


async def admitted(budget: Budget | None) -> None:
    """Wait until a request may go, and take it from the budget. Safe to cancel."""
    if budget is None:
        return
    loop = asyncio.get_running_loop()
    seconds = budget.take(loop.time()) or budget.pause(loop.time())
    while seconds:
        await asyncio.sleep(seconds)
        seconds = budget.pause(loop.time())
