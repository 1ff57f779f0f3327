"""What is looked at every second: relays that changed, the writer's progress, the supervisor."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

from nostr_client.taskgroup import task_group

if TYPE_CHECKING:
    import sqlite3

    from agent.api.schema import Relay
    from agent.notify import Notifier
    from agent.service.agent import Agent
    from agent.service.backend import AgentBackend

TICK_S: Final = 1.0
"""How often relays are compared with what listeners know of them."""

BEAT_S: Final = 5.0
"""How often the writer is asked for a sign, at least; half of what a watchdog wants, if less."""


class Ticker:
    """Publishes what changes by itself, and feeds the watchdog."""

    def __init__(self, agent: Agent, backend: AgentBackend, notifier: Notifier) -> None:
        self._agent = agent
        self._backend = backend
        self._notifier = notifier
        self._relays: dict[str, tuple[object, ...]] = {}
        self._status = ""

    async def run(self) -> None:
        """Tick until cancelled."""
        async with task_group() as group:
            group.create_task(self._watch_relays())
            group.create_task(self._beat())

    async def _watch_relays(self) -> None:
        while True:
            self._compare()
            await asyncio.sleep(TICK_S)

    def _compare(self) -> None:
        """Publish relays whose connection or load has changed; without listeners, nothing."""
        if not self._agent.feed.streams:
            return
        for relay in self._backend.all_relays():
            look = _look(relay)
            if self._relays.get(relay.url) != look:
                self._relays[relay.url] = look
                self._agent.feed.publish(relay=relay)

    async def _beat(self) -> None:
        """Only a writer that works through its queue, on a loop that runs, feeds the watchdog."""
        every = BEAT_S
        if self._notifier.watchdog_s is not None:
            every = min(every, self._notifier.watchdog_s / 2)
        while True:
            await self._agent.parts.store.database.maintain(_nothing)
            self._agent.parts.health.beat()
            self._notifier.send(WATCHDOG=1)
            self._tell()
            await self._agent.keep_relays()
            await asyncio.sleep(every)

    def _tell(self) -> None:
        worker = self._agent.worker
        text = f"{len(self._agent.watching.watches)} watches, {worker.running} tasks run"
        if text != self._status:
            self._status = text
            self._notifier.send(STATUS=text)


def _nothing(conn: sqlite3.Connection) -> float:
    """A turn in the writer's queue."""
    return time.monotonic()


def _look(relay: Relay) -> tuple[object, ...]:
    """What makes a listener want to know of a relay again."""
    return (
        relay.status,
        relay.last_error,
        relay.failing,
        relay.tasks,
        relay.capabilities,
        relay.latency_ms and round(relay.latency_ms),
    )
