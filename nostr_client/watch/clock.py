"""The clocks of an engine, in one value that tests replace."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Protocol

from nostr_client.watch.scheduler import Moment

if TYPE_CHECKING:
    from collections.abc import Callable


class Clock(Protocol):
    """Returns the time and waits for it."""

    def moment(self) -> Moment:
        """Return the time of the wall clock and of the monotonic clock."""
        ...

    def wall(self) -> float:
        """Unix seconds."""
        ...

    async def wait(self, event: asyncio.Event, seconds: float) -> bool:
        """Wait until the event is set, or `seconds` have passed; return whether it is set."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait until `seconds` have passed."""
        ...


class SystemClock:
    """The clocks of the machine; `now` gives Unix seconds."""

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._now = now

    def moment(self) -> Moment:
        return Moment(self._now(), time.monotonic())

    def wall(self) -> float:
        return self._now()

    async def wait(self, event: asyncio.Event, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await event.wait()
        except TimeoutError:
            return event.is_set()
        return True

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
