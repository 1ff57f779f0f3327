"""The agent's clocks, in one value that tests replace."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol

from agent.scheduler import Moment


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
    """The clocks of the machine."""

    def moment(self) -> Moment:
        return Moment(time.time(), time.monotonic())

    def wall(self) -> float:
        return time.time()

    async def wait(self, event: asyncio.Event, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await event.wait()
        except TimeoutError:
            return event.is_set()
        return True

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
