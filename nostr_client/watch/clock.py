"""The clocks of an engine, in one value that tests replace."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Protocol

from nostr_client.watch.scheduler import Moment

if TYPE_CHECKING:
    from collections.abc import Callable


class Clock(Protocol):
    """Tells the time and waits for it."""

    def moment(self) -> Moment:
        """Now, by the wall clock and by the one that is never set."""
        ...

    def wall(self) -> float:
        """Unix seconds."""
        ...

    async def wait(self, event: asyncio.Event, seconds: float) -> bool:
        """Until the event is set, or `seconds` have passed; whether it is set."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Until `seconds` have passed."""
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
