"""What a public relay is asked by all connections together, and no more.

Public relays are run by others, for many. The budget is that of a host, as all its paths are one
machine. Relays on addresses and names of one's own network have none, nor those that the user
lifts. With `Options.share_budget` all programs of a user have one budget for each host, by a file
(`budget_file`); else each process has its own.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from nostr_client.codecs.relay_url import host_of, refusal
from nostr_client.network.access.budget_file import IS_SHARED, BudgetFile, BudgetState, digest_of
from nostr_client.network.pacing import TokenBucket
from nostr_client.paths import budgets_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from nostr_client.options import Options, RelayBudget

REMEMBERED: Final = 1_024
"""Budgets that are known at most: a relay that is closed and asked again continues with its own."""

JITTER: Final = 0.25
"""A wait is longer by up to this share of the time between two requests: programs that the same
relay made wait do not come together."""


SHARED_BYTES: Final = 64 * 1024
"""Bytes that are noted for the other programs at once: frames are many, and mostly small."""


MOST_OWED_S: Final = 3_600.0
"""Seconds of requests that a file may say are owed: more is a damaged file."""


class Budget:
    """What one host may be asked now: seconds of a monotonic clock are arguments.

    Pure, but where `shared` names the file and the place in it that other programs go on with.
    """

    def __init__(
        self,
        limits: RelayBudget,
        rand: Callable[[], float] = random.random,
        shared: tuple[BudgetFile, bytes] | None = None,
    ) -> None:
        self._limits = limits
        self._shared = shared
        self._carried = 0
        self._unshared = 0
        self._rand = rand
        self._requests = TokenBucket(limits.requests_per_minute / 60, limits.requests_at_once)
        self._bytes = TokenBucket(
            limits.bytes_per_minute / 60, limits.bytes_at_once, debt=limits.bytes_at_once
        )
        self._pause = 0.0
        self._until = 0.0

    def wait(self, now: float) -> float:
        """Seconds until the next request may go; 0 most of the time."""
        with self._together(now):
            return max(self._requests.wait(now), self._wait(now))

    def pause(self, now: float) -> float:
        """Seconds until the relay may be asked anything at all: bytes are spent, or it said so."""
        with self._together(now):
            return self._wait(now)

    def _wait(self, now: float) -> float:
        backing_off = self._until - now
        if backing_off > self._limits.longest_pause:  # of a clock that began again
            backing_off = self._until = 0.0
        return max(self._bytes.wait(now, 0), backing_off, 0.0)

    def take(self, now: float) -> float:
        """Take the next request, first come first served; the seconds to wait before it goes."""
        with self._together(now) as shared:
            seconds = self._requests.take(now)
            self._unshared += not shared
        apart = 60 / self._limits.requests_per_minute
        return seconds and seconds + JITTER * apart * self._rand()

    def carried(self, size: int, now: float) -> None:
        """Count bytes that came or went; requests wait once there were too many."""
        self._carried += size
        if self._shared is None or self._carried >= SHARED_BYTES:
            with self._together(now):
                pass

    def refused(self, now: float) -> None:
        """The relay said `rate-limited:`: ask nothing for a while, twice as long each time."""
        with self._together(now):
            if now < self._until <= now + self._limits.longest_pause:
                return  # of the same burst
            longest = self._limits.longest_pause
            self._pause = min(longest, 2 * self._pause or self._limits.first_pause)
            self._until = now + self._pause * (1 + self._rand()) / 2

    def answered(self, now: float) -> None:
        """The relay answered after its pause: the next one is a short one again."""
        if not self._pause and not self._others_pause():
            return  # nearly always: no lock is needed
        with self._together(now):
            if now >= self._until:
                self._pause = 0.0

    def _others_pause(self) -> bool:
        """Whether another program was refused, at a glance: the lock shows what is true."""
        if self._shared is None:
            return False
        file, place = self._shared
        known = file.read(place)
        return known is not None and known.pause != 0

    @contextmanager
    def _together(self, now: float) -> Iterator[bool]:
        """A block that goes on where the last program stopped, and leaves its numbers to the next.

        What was carried meanwhile is taken first. False where another program holds the file too
        long: then what is taken is noted, and shared the next time.
        """
        if self._shared is None:
            self._take_carried(now)
            yield True
            return
        file, place = self._shared
        with file.locked() as held:
            known = file.read(place) if held else None
            if known is not None:
                self._go_on(known)
                self._requests.take(now, self._unshared)
            if held:
                self._take_carried(now)
                self._unshared = 0
            yield held
            if held:
                file.write(place, self._numbers())

    def _take_carried(self, now: float) -> None:
        if self._carried:
            self._bytes.take(now, self._carried)
            self._carried = 0

    def _go_on(self, known: BudgetState) -> None:
        most_owed = MOST_OWED_S * self._limits.requests_per_minute / 60
        self._requests.go_on(max(known.requests, -most_owed), known.requests_at)
        self._bytes.go_on(known.bytes, known.bytes_at)
        self._pause = min(max(known.pause, 0.0), self._limits.longest_pause)
        self._until = known.until

    def _numbers(self) -> BudgetState:
        return BudgetState(*self._requests.numbers, *self._bytes.numbers, self._pause, self._until)


class Budgets:
    """The budgets by host; those with other limits are others.

    `path`: the file of those that are shared, by default the user's. Where it cannot be used they
    are those of this process.
    """

    def __init__(
        self, rand: Callable[[], float] = random.random, path: Callable[[], Path] = budgets_path
    ) -> None:
        self._rand = rand
        self._known: dict[tuple[str, RelayBudget, bool], Budget] = {}
        self._path = path
        self._opened: BudgetFile | None = None

    def of(self, url: str, options: Options) -> Budget | None:
        """The budget of a relay, None where it is not limited. Raises InvalidRelayURL."""
        limits, host = options.budget, host_of(url)
        if limits is None or is_own(url) or host in map(host_of, options.unlimited):
            return None
        key = host, limits, options.share_budget
        found = self._known.pop(key, None) or self._made(*key)
        self._known[key] = found  # the newest stands last
        if len(self._known) > REMEMBERED:
            del self._known[next(iter(self._known))]
        return found

    def _made(self, host: str, limits: RelayBudget, share: bool) -> Budget:
        file = self._file() if share else None
        shared = None if file is None else (file, digest_of(host, limits))
        return Budget(limits, self._rand, shared)

    def _file(self) -> BudgetFile | None:
        if self._opened is None and IS_SHARED:
            try:
                self._opened = BudgetFile(self._path())
            except (OSError, ValueError):
                return None  # no place to write: this process has its own
        return self._opened


OF_PROCESS: Final = Budgets()
"""What the relays of a process share unless they are given others, as tests do."""


def is_own(url: str) -> bool:
    """Whether a relay stands on an address, or has a name, of this machine or its network."""
    return refusal(url, proxied=True, unchecked=True) is not None


async def admitted(budget: Budget | None) -> None:
    """Wait until a request may go, and take it from the budget. Safe to cancel."""
    if budget is None:
        return
    seconds = budget.take(asyncio.get_running_loop().time())
    if seconds:
        await asyncio.sleep(seconds)
    await unpaused(budget)


async def unpaused(budget: Budget | None) -> None:
    """Wait while bytes are spent, or the relay said `rate-limited:`. Safe to cancel."""
    if budget is None:
        return
    loop = asyncio.get_running_loop()
    seconds = budget.pause(loop.time())
    while seconds:
        await asyncio.sleep(seconds)
        seconds = budget.pause(loop.time())
