"""Alerts at work: a line that is crossed is told once, by webhook or command, and tried again.

What is crossed is kept in the store: a restart tells nothing twice. A line is armed again when it
is no longer crossed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, Final

import msgspec

from agent import stored, watchbook
from agent.alerts import Sample, holds, parse_condition
from agent.specs import AlertSpec
from agent.webhook import post
from nostr_client.errors import NetworkError, NostrTallyError
from nostr_client.taskgroup import task_group

if TYPE_CHECKING:
    from agent.alerts import Condition
    from agent.api.schema import Watch
    from agent.clock import Clock
    from agent.journal import Journal
    from nostr_client.store.database import Database

DELAYS_S: Final = (0.0, 5.0, 30.0, 300.0, 1800.0)
"""Before each attempt; after the last the alert is given up, and the log says so."""

COMMAND_S: Final = 30.0
MOST_WAITING: Final = 200
"""Alerts that wait to be told; the oldest goes when there are more."""


class Telling(msgspec.Struct, frozen=True):
    """One alert to be told."""

    alert: AlertSpec
    body: bytes
    watch: str


class Alerting:
    """Checks watches after each merge, and tells in the background."""

    def __init__(self, clock: Clock, journal: Journal, database: Database) -> None:
        self.told = 0
        self.given_up = 0
        self._clock = clock
        self._journal = journal
        self._database = database
        self._waiting: deque[Telling] = deque()
        self._some = asyncio.Event()

    async def check(self, watch: Watch, liars: int) -> None:
        """Compare a watch's number with its lines."""
        spec = watch.spec
        if not spec.alerts or watch.figure is None:
            return
        now = self._clock.wall()
        crossed = await self._database.read(lambda c: stored.crossed(c, spec.name))
        for alert in spec.alerts:
            condition = parse_condition(alert.when)
            past = await self._past(spec.name, condition, now)
            is_crossed = holds(condition, Sample(now, watch.figure.value), past, liars=liars)
            if is_crossed == (alert.when in crossed):
                continue
            await self._mark(spec.name, alert.when, now, on=is_crossed)
            if is_crossed:
                self._put(Telling(alert, _body(watch, alert, now), spec.name))

    async def _mark(self, name: str, line: str, now: float, *, on: bool) -> None:
        await self._database.write(lambda c: stored.set_crossed(c, name, line, now, on=on))

    async def _past(self, name: str, condition: Condition, now: float) -> list[Sample]:
        if condition.kind != "rate":
            return []
        since = now - condition.within
        rows = await self._database.read(lambda c: watchbook.values_since(c, name, since))
        return [Sample(at, value) for at, value in rows]

    def _put(self, telling: Telling) -> None:
        if len(self._waiting) >= MOST_WAITING:
            self._give_up(self._waiting.popleft(), "too many alerts wait")
        self._waiting.append(telling)
        self._some.set()

    async def run(self) -> None:
        """Tell what waits, until cancelled; slow receivers hold up only each other."""
        slots = asyncio.Semaphore(8)
        async with task_group() as group:
            while True:
                await self._some.wait()
                await slots.acquire()
                telling = self._waiting.popleft()
                if not self._waiting:
                    self._some.clear()
                task = group.create_task(self._tell(telling))
                task.add_done_callback(lambda _: slots.release())

    async def _tell(self, telling: Telling) -> None:
        why = ""
        for delay in DELAYS_S:
            if delay:
                await self._clock.sleep(delay)
            try:
                await _deliver(telling.alert, telling.body)
            except NostrTallyError as error:
                why = str(error)
                continue
            self.told += 1
            self._journal.info("alert", watch=telling.watch, when=telling.alert.when)
            return
        self._give_up(telling, why)

    def _give_up(self, telling: Telling, why: str) -> None:
        self.given_up += 1
        when = telling.alert.when
        self._journal.error("alert_given_up", watch=telling.watch, when=when, why=why)


def _body(watch: Watch, alert: AlertSpec, now: float) -> bytes:
    told: dict[str, Any] = {
        "watch": watch.spec.name,
        "when": alert.when,
        "value": watch.figure.value if watch.figure else None,
        "figure": watch.figure,
        "unit": watch.unit,
        "at": now,
    }
    return msgspec.json.encode(told)


async def _deliver(alert: AlertSpec, body: bytes) -> None:
    """By every way that is configured. Raises NetworkError."""
    if alert.webhook:
        await post(alert.webhook, body)
    if alert.command:
        await _run(alert.command, body)


async def _run(command: tuple[str, ...], body: bytes) -> None:
    """Run a program with the JSON on its stdin; without a shell, and not for ever."""
    quiet = asyncio.subprocess.DEVNULL
    try:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.PIPE, stdout=quiet, stderr=quiet
        )
    except (OSError, ValueError) as error:
        raise NetworkError(f"{command[0]}: {error}") from error
    try:
        async with asyncio.timeout(COMMAND_S):
            await process.communicate(body)
    except TimeoutError as error:
        raise NetworkError(f"{command[0]} took more than {COMMAND_S:g} s") from error
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise NetworkError(f"{command[0]} ended with {process.returncode}")
