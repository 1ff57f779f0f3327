"""The watchdog is fed while the writer makes progress, or is busy on purpose; else it is not."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

from agent.service import parts
from agent.service.process.supervision import Notifier
from tests.agent.service.kit import an_agent, eventually

if TYPE_CHECKING:
    import sqlite3
    from pathlib import Path

    import pytest


class Listening(Notifier):
    def __init__(self) -> None:
        super().__init__({"WATCHDOG_USEC": "100000"})
        self.fed = 0

    def send(self, **states: str | int) -> bool:
        self.fed += "WATCHDOG" in states
        return True


async def test_a_writer_that_is_stuck_starves_it_and_an_exchange_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "STUCK_S", 0.3)
    notifier, go_on, blocked = Listening(), threading.Event(), threading.Event()

    def block(_: sqlite3.Connection) -> None:
        blocked.set()
        go_on.wait(20)

    async with an_agent(tmp_path, notifier=notifier) as agent:
        inside = agent.service.agent.parts
        assert inside.index is not None
        stuck = asyncio.create_task(inside.store.database.maintain(block))
        try:
            await asyncio.to_thread(blocked.wait, 20)

            async def starves() -> bool:
                return "writer makes no progress" in str((await agent.client.ready()).reasons)

            await eventually(starves)
            before = notifier.fed
            async with inside.index.exchange:

                async def fed() -> bool:
                    return notifier.fed > before and (await agent.client.ready()).ready

                await eventually(fed)
        finally:
            go_on.set()
            await stuck
        before = notifier.fed

        async def goes_on() -> bool:
            return notifier.fed > before + 1

        await eventually(goes_on)
