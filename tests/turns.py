"""Counts the turns of another task on the event loop, beside work that must not keep it waiting."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class Turns:
    """How often the other task had its turn so far."""

    taken = 0


@asynccontextmanager
async def another_task() -> AsyncIterator[Turns]:
    """Run a task beside the block that asks for turn after turn."""
    turns = Turns()

    async def other() -> None:
        while True:
            turns.taken += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    try:
        yield turns
    finally:
        task.cancel()
