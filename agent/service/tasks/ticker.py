"""Checks every second which relays changed, whether the writer works, and the supervisor."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

import msgspec

from nostr_client.codecs.display import plural
from nostr_client.errors import StoreError
from nostr_client.network.waiting import task_group

if TYPE_CHECKING:
    import sqlite3

    from agent.api.schema import AgentStatus, RelayState, Stream
    from agent.service.agent import Agent
    from agent.service.backend import AgentBackend
    from agent.service.process.supervision import Notifier

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
        self._streams: dict[str, Stream] = {}
        self._last: AgentStatus | None = None
        self._status = ""
        self._is_full = False

    async def run(self) -> None:
        """Tick until cancelled."""
        async with task_group() as group:
            group.create_task(self._look_around())
            group.create_task(self._beat())

    async def _look_around(self) -> None:
        """Publish what has changed by itself; without listeners, nothing."""
        while True:
            if self._agent.feed.streams:
                self._compare_relays()
                self._compare_status()
                await self._compare_streams()
            await asyncio.sleep(TICK_S)

    def _compare_relays(self) -> None:
        """Relays whose connection or load has changed."""
        before, self._relays = self._relays, {}
        for relay in self._backend.all_relays():
            look = self._relays[relay.url] = _look(relay)
            if before.get(relay.url) != look:
                self._agent.feed.publish(relay=relay)

    def _compare_status(self) -> None:
        """The agent at a glance, where more than its age has changed."""
        now = self._backend.glance()
        before, self._last = self._last, now
        if before is None or msgspec.structs.replace(before, uptime=now.uptime) != now:
            self._agent.feed.publish(status=now)

    async def _compare_streams(self) -> None:
        """Streams of counters in which something moved: by the API, by syncs, by other agents."""
        try:
            found = (await self._backend.streams()).streams
        except StoreError as error:
            self._agent.log.warning("streams_not_read", why=str(error))
            return
        before, self._streams = self._streams, {one.name: one for one in found}
        for one in found:
            if before and before.get(one.name) != one:
                self._agent.feed.publish(stream=one)

    async def _beat(self) -> None:
        """Only a writer that works through its queue, on a loop that runs, feeds the watchdog."""
        every = BEAT_S
        if self._notifier.watchdog_s is not None:
            every = min(every, self._notifier.watchdog_s / 2)
        while True:
            async with task_group() as group:
                sign = group.create_task(self._agent.parts.store.database.maintain(_nothing))
                while not sign.done():
                    await asyncio.wait({sign}, timeout=every)
                    if sign.done() or self._is_exchanging():
                        self._feed()
            self._report()
            await self._look_for_room()
            await self._agent.keep_relays()
            await asyncio.sleep(every)

    async def _look_for_room(self) -> None:
        """Log a full disk or a spent budget once, and go on by itself when there is room again."""
        store, log = self._agent.parts.store, self._agent.log
        was_full = self._is_full
        try:
            await store.room.look()
            if store.full and not was_full:
                self._is_full = True
                log.error("store_full", why=store.full)
            if self._is_full:
                self._is_full = not await store.try_room()
        except StoreError as error:
            log.warning("store_not_tried", why=str(error))
        if was_full and not self._is_full:
            log.info("store_has_room")

    def _feed(self) -> None:
        self._agent.parts.health.beat()
        self._notifier.send(WATCHDOG=1)

    def _is_exchanging(self) -> bool:
        """Whether the writer is busy on purpose, with an index that is taken over."""
        index = self._agent.parts.index
        return index is not None and index.exchange.locked()

    def _report(self) -> None:
        worker = self._agent.worker
        text = f"{plural(len(self._agent.engine.watches), 'watch', 'watches')}, "
        text += plural(worker.running, "task runs", "tasks run")
        if text != self._status:
            self._status = text
            self._notifier.send(STATUS=text)


def _nothing(conn: sqlite3.Connection) -> float:
    """A turn in the writer's queue."""
    return time.monotonic()


def _look(relay: RelayState) -> tuple[object, ...]:
    """What makes a listener want to know of a relay again."""
    return (
        relay.status,
        relay.last_error,
        relay.failing,
        relay.tasks,
        relay.capabilities,
        relay.latency_ms and round(relay.latency_ms),
    )
