"""Alerts at work: a line that is crossed is told once, by webhook or command, and tried again.

What is crossed and what waits to be told are kept in the store: a restart tells nothing twice, and
forgets nothing. Only an agent that is killed between telling and noting so tells again, under the
same id. A line is armed again when it is no longer crossed.
"""

from __future__ import annotations

import asyncio
import secrets
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from agent import stored, tellings, watchbook
from agent.alerts import Sample, holds, parse_condition
from agent.tellings import Telling
from agent.webhook import place, post
from nostr_client.errors import NetworkError, NostrTallyError, StoreError, StoreFull
from nostr_client.taskgroup import task_group

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from agent.alerts import Condition
    from agent.api.schema import Watch
    from agent.clock import Clock
    from agent.journal import Journal
    from agent.specs import AlertSpec, WatchSpec
    from nostr_client.options import ConnectionOptions
    from nostr_client.store.database import Database

DELAYS_S: Final = (0.0, 5.0, 30.0, 300.0, 1800.0)
"""Before each attempt; after the last the alert is given up, and the log says so."""

COMMAND_S: Final = 30.0
AT_ONCE: Final = 8
"""Webhooks and commands that run at once."""

MOST_WAITING: Final = 200
"""Alerts that wait to be told; the oldest goes when there are more."""


class Alerting:
    """Checks watches after each merge, and tells in the background."""

    def __init__(
        self, clock: Clock, journal: Journal, database: Database, connection: ConnectionOptions
    ) -> None:
        self.told = 0
        self.failed = 0
        """Tries that failed."""
        self.given_up = 0
        self._named: frozenset[tuple[str, str, int]] = frozenset()
        self._clock = clock
        self._journal = journal
        self._database = database
        self._connection = connection
        self._waiting: dict[str, Telling] = {}
        self._some = asyncio.Event()
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._untried: set[str] = set()
        self._all_tried = asyncio.Event()
        self._all_tried.set()

    def configure(self, watches: Sequence[WatchSpec]) -> None:
        """Take the configuration's watches: a webhook that they name may be a private one."""
        hooks = [a.webhook for watch in watches for a in watch.alerts if a.webhook]
        self._named = frozenset(place(url) for url in hooks if _is_url(url))

    def names(self, url: str) -> bool:
        """Whether the configuration names the scheme, host and port of a webhook."""
        return _is_url(url) and place(url) in self._named

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
            await self._note(_telling(watch, alert, now), on=is_crossed)

    async def _note(self, telling: Telling, *, on: bool) -> None:
        """Remember that a line is crossed, together with what is to be told of it."""

        def work(conn: sqlite3.Connection) -> None:
            line = telling.alert.when
            stored.set_crossed(conn, telling.watch, line, telling.at, on=on)
            if on:
                tellings.put(conn, telling)

        await self._database.write(work)
        if on:
            await self._put(telling)

    async def _past(self, name: str, condition: Condition, now: float) -> list[Sample]:
        if condition.kind != "rate":
            return []
        since = now - condition.within
        rows = await self._database.read(lambda c: watchbook.values_since(c, name, since))
        return [Sample(at, value) for at, value in rows]

    async def _put(self, telling: Telling) -> None:
        while len(self._waiting) >= MOST_WAITING:
            oldest = self._waiting.pop(next(iter(self._waiting)))
            await self._give_up(oldest, "too many alerts wait")
        self._waiting[telling.id] = telling
        self._untried.add(telling.id)
        self._all_tried.clear()
        self._some.set()

    async def run(self) -> None:
        """Tell what waits, also from an earlier run, until cancelled.

        A receiver that fails holds up no other, one that is slow only those of its turn.
        """
        for telling in await self._database.read(tellings.waiting):
            await self._put(telling)
        begun: set[str] = set()
        async with task_group() as group:
            while True:
                begun &= self._waiting.keys()
                for id_ in self._waiting.keys() - begun:
                    begun.add(id_)
                    group.create_task(self._attend(self._waiting[id_]))
                self._some.clear()
                await self._some.wait()

    async def settle(self, seconds: float) -> None:
        """Until every alert was tried once, at most so long: what is left waits for another run."""
        await self._clock.wait(self._all_tried, seconds)

    async def _attend(self, telling: Telling) -> None:
        """Tell one alert; where the store takes no note of it, the next run tells it again."""
        try:
            await self._tell(telling)
        except StoreFull:
            return  # the ticker reports a full disk, once
        except StoreError as error:
            self._journal.error("alert_not_noted", watch=telling.watch, why=str(error))

    async def _tell(self, telling: Telling) -> None:
        why = "tried before"
        for n, delay in enumerate(DELAYS_S[telling.attempts :], telling.attempts):
            if delay:
                await self._clock.sleep(delay)
            if telling.id not in self._waiting:
                return
            try:
                async with self._slots:
                    await self._deliver(telling.alert, telling.body)
            except NostrTallyError as error:
                why = str(error)
                self._note_failure(telling, n, why)
                await self._database.write(partial(tellings.failed, id_=telling.id, attempts=n + 1))
                continue
            self.told += 1
            self._journal.info("alert", watch=telling.watch, when=telling.alert.when)
            await self._done(telling)
            return
        await self._give_up(telling, why)

    async def _deliver(self, alert: AlertSpec, body: bytes) -> None:
        """By every way that is configured. Raises NetworkError."""
        if alert.webhook:
            named = self.names(alert.webhook)
            await post(alert.webhook, body, self._connection, public_only=not named)
        if alert.command:
            await _run(alert.command, body)

    def _note_failure(self, telling: Telling, n: int, why: str) -> None:
        """The first failure of a run is told at once: the last one is half an hour away."""
        self.failed += 1
        tell = self._journal.warning if n == telling.attempts else self._journal.debug
        tell(
            "alert_failed",
            watch=telling.watch,
            when=telling.alert.when,
            why=why,
            again_in_s=DELAYS_S[n + 1] if n + 1 < len(DELAYS_S) else None,
        )
        self._tried(telling)

    async def _done(self, telling: Telling) -> None:
        self._waiting.pop(telling.id, None)
        await self._database.write(lambda c: tellings.remove(c, telling.id))
        self._tried(telling)

    def _tried(self, telling: Telling) -> None:
        self._untried.discard(telling.id)
        if not self._untried:
            self._all_tried.set()

    async def _give_up(self, telling: Telling, why: str) -> None:
        self.given_up += 1
        when = telling.alert.when
        self._journal.error("alert_given_up", watch=telling.watch, when=when, why=why)
        await self._done(telling)


def _telling(watch: Watch, alert: AlertSpec, now: float) -> Telling:
    id_ = secrets.token_hex(8)
    return Telling(id_, watch.spec.name, alert, _body(id_, watch, alert, now), now)


def _body(id_: str, watch: Watch, alert: AlertSpec, now: float) -> bytes:
    told: dict[str, Any] = {
        "id": id_,
        "watch": watch.spec.name,
        "when": alert.when,
        "value": watch.figure.value if watch.figure else None,
        "figure": watch.figure,
        "unit": watch.unit,
        "at": now,
    }
    return msgspec.json.encode(told)


def _is_url(text: str) -> bool:
    try:
        place(text)
    except ValueError:
        return False
    return True


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
