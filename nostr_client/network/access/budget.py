"""Limit the requests and bytes that all connections together cost a public relay.

Other people run public relays, for many users. All paths of a host are one machine, so each host
has one budget. Relays on addresses or names of the user's own network have no budget. Relays in
`Options.unlimited` have none either. With `Options.share_budget` all programs of a user share one
budget for each host through a file (`budget_file`). Otherwise each process has its own budgets.
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
"""Most budgets in memory. A relay that is closed and asked again continues with its old budget."""

JITTER: Final = 0.25
"""A wait is longer by up to this share of the time between two requests.

Programs that the same relay made wait then do not all come back at once.
"""


SHARED_BYTES: Final = 64 * 1024
"""Bytes to collect before the file is updated, because frames are many and mostly small."""


MOST_OWED_S: Final = 3_600.0
"""Most seconds of owed requests that a file may state. A larger number means a damaged file."""


class Budget:
    """Limits the requests to one host. Methods take seconds of a monotonic clock.

    `shared` names the file, and the host's key in the file, that other programs also use. Without
    `shared`, a budget does no I/O.
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
        """Return the seconds until the next request may go. Mostly 0."""
        with self._together(now):
            return max(self._requests.wait(now), self._wait(now))

    def pause(self, now: float) -> float:
        """Return the seconds until the relay may get any request.

        The wait is above 0 if too many bytes were used, or if the relay sent `rate-limited:`.
        """
        with self._together(now):
            return self._wait(now)

    def _wait(self, now: float) -> float:
        backing_off = self._until - now
        if backing_off > self._limits.longest_pause:  # the clock began again
            backing_off = self._until = 0.0
        return max(self._bytes.wait(now, 0), backing_off, 0.0)

    def take(self, now: float) -> float:
        """Take the next request, and return the seconds to wait before sending it."""
        with self._together(now) as shared:
            seconds = self._requests.take(now)
            self._unshared += not shared
        apart = 60 / self._limits.requests_per_minute
        return seconds and seconds + JITTER * apart * self._rand()

    def carried(self, size: int, now: float) -> None:
        """Count sent or received bytes. Requests wait after too many bytes."""
        self._carried += size
        if self._shared is None or self._carried >= SHARED_BYTES:
            with self._together(now):
                pass

    def refused(self, now: float) -> None:
        """Note that the relay sent `rate-limited:`.

        Each new pause is twice as long as the last one.
        """
        with self._together(now):
            if now < self._until <= now + self._limits.longest_pause:
                return  # the refusal belongs to the same burst
            longest = self._limits.longest_pause
            self._pause = min(longest, 2 * self._pause or self._limits.first_pause)
            self._until = now + self._pause * (1 + self._rand()) / 2

    def answered(self, now: float) -> None:
        """Note that the relay answered after a pause. The next pause is short again."""
        if not self._pause and not self._others_pause():
            return  # the usual case needs no lock
        with self._together(now):
            if now >= self._until:
                self._pause = 0.0

    def _others_pause(self) -> bool:
        """Return True if another program noted a refusal.

        Reads without the lock, so it may be wrong.
        """
        if self._shared is None:
            return False
        file, place = self._shared
        known = file.read(place)
        return known is not None and known.pause != 0

    @contextmanager
    def _together(self, now: float) -> Iterator[bool]:
        """Hold the shared state during a block: read the last program's numbers, then write new
        ones.

        The block first counts the bytes that were sent and received meanwhile. It gets False if
        another program keeps the lock too long. Requests in such a block are noted and added to the
        file later.
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
    """Budgets of hosts. Another set of limits for a host gets another budget.

    `path` returns the file of shared budgets, by default the user's file. If the file cannot be
    used, this process has its own budgets.
    """

    def __init__(
        self, rand: Callable[[], float] = random.random, path: Callable[[], Path] = budgets_path
    ) -> None:
        self._rand = rand
        self._known: dict[tuple[str, RelayBudget, bool], Budget] = {}
        self._path = path
        self._opened: BudgetFile | None = None

    def of(self, url: str, options: Options) -> Budget | None:
        """Return the budget of a relay, or None if the relay is not limited.

        Raises InvalidRelayURL.
        """
        limits, host = options.budget, host_of(url)
        if limits is None or is_own(url) or host in map(host_of, options.unlimited):
            return None
        key = host, limits, options.share_budget
        found = self._known.pop(key, None) or self._made(*key)
        self._known[key] = found  # the most recently used budget is the last one
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
                return None  # without a file this process has its own budgets
        return self._opened


OF_PROCESS: Final = Budgets()
"""Budgets that the relays of a process share. Tests pass other budgets."""


def is_own(url: str) -> bool:
    """Return True if a relay's host is an address or a name of this machine or its network."""
    return refusal(url, proxied=True, unchecked=True) is not None


async def admitted(budget: Budget | None) -> None:
    """Take a request from the budget and wait until the request may go. Safe to cancel."""
    if budget is None:
        return
    seconds = budget.take(asyncio.get_running_loop().time())
    if seconds:
        await asyncio.sleep(seconds)
    await unpaused(budget)


async def unpaused(budget: Budget | None) -> None:
    """Wait while the byte budget is used up or the relay is pausing requests. Safe to cancel."""
    if budget is None:
        return
    loop = asyncio.get_running_loop()
    seconds = budget.pause(loop.time())
    while seconds:
        await asyncio.sleep(seconds)
        seconds = budget.pause(loop.time())
