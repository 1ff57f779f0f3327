"""Delivers alerts: each channel of an alert is tried, retried and given up by itself.

The store has the crossed lines and the waiting deliveries: a restart delivers nothing twice, and
forgets nothing. Only an agent that is killed between a delivery and its record delivers again, to
that channel only and with the same id. A line is armed again when it is no longer crossed.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING, Final, NamedTuple, get_args

from agent import state
from agent.alerts import outbox
from agent.alerts.bodies import COVERAGE, DIGEST, Alert, Covered
from agent.alerts.conditions import (
    Sample,
    changed_from,
    falls_short,
    holds,
    parse_condition,
    parse_shortfall,
    reached,
)
from agent.alerts.outbox import Channel, deliveries
from agent.alerts.webhook import place, post
from nostr_client.errors import NetworkError, NostrTallyError, StoreError, StoreFull
from nostr_client.network.waiting import task_group
from nostr_client.watch import people_rows, points
from nostr_client.watch.history import DAY
from nostr_client.watch.moved import change
from nostr_client.watch.points import point_at

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Awaitable, Callable, Collection, Sequence

    from agent.alerts.conditions import Condition
    from agent.alerts.outbox import Delivery
    from agent.api.schema import Person, WatchState
    from agent.log import Log
    from agent.specs import CoverageSpec, DigestAlert, DigestSpec
    from nostr_client.options import ConnectionOptions
    from nostr_client.store.file.database import Database
    from nostr_client.sync.coverage_report import CoverageRun
    from nostr_client.watch.clock import Clock
    from nostr_client.watch.definition import Watch
    from nostr_client.watch.digest import Digest
    from nostr_client.watch.history import Point
    from nostr_client.watch.moved import Change

DELAYS_S: Final = (0.0, 5.0, 30.0, 300.0, 1800.0)
"""Seconds before each attempt; after the last one the channel is given up, and this is logged."""

LATEST_S: Final = 86_400.0
"""Seconds from a crossing until attempts end: an alert that is a day old helps nobody."""

COMMAND_S: Final = 30.0
AT_ONCE: Final = 8
"""Deliveries of one channel that run at once."""

MOST_WAITING: Final = 200
"""Deliveries of one channel that wait; the oldest is given up when there are more."""


class _Past(NamedTuple):
    """The numbers of a watch in the time of a condition: `moved` says how far it changed since
    `before`; None if nobody knows.

    `is_estimated`: their differences may be errors of estimates.
    """

    samples: list[Sample]
    before: Sample | None = None
    moved: Change | None = None
    is_estimated: bool = False

    def reaches(self, condition: Condition) -> bool:
        """Whether the change since `before` crosses the line of a rate."""
        if self.before is None or self.moved is None:
            return False
        return reached(condition, self.before.value, self.moved.value)


async def _no_names(_: str) -> None:
    """Find nobody's name."""


class AlertDispatcher:
    """Checks watches after each merge, and delivers in the background.

    `find_names` looks for the names of the people of a watch, a few seconds at most.
    """

    def __init__(
        self,
        clock: Clock,
        log: Log,
        database: Database,
        connection: ConnectionOptions,
        find_names: Callable[[str], Awaitable[None]] = _no_names,
    ) -> None:
        self.delivered = 0
        """Deliveries that a channel took."""
        self.failed = 0
        """Attempts that failed."""
        self.given_up = 0
        self._hooks: frozenset[tuple[str, str, int]] = frozenset()
        self._commands: frozenset[tuple[str, ...]] = frozenset()
        self._clock = clock
        self._log = log
        self._database = database
        self._connection = connection
        self._find_names = find_names
        self._waiting: dict[tuple[str, Channel], Delivery] = {}
        self._some = asyncio.Event()
        self._slots = {one: asyncio.Semaphore(AT_ONCE) for one in get_args(Channel)}
        self._untried: set[tuple[str, Channel]] = set()
        self._all_tried = asyncio.Event()
        self._all_tried.set()

    def configure(self, specs: Sequence[Watch | CoverageSpec | DigestSpec]) -> None:
        """Take the configuration's watches, coverages and digest: only they may name private
        webhooks, and commands."""
        alerts = [alert for one in specs for alert in one.alerts]
        self._hooks = frozenset(
            place(a.webhook) for a in alerts if a.webhook and _is_url(a.webhook)
        )
        self._commands = frozenset(a.command for a in alerts if a.command)

    def names(self, url: str) -> bool:
        """Whether the configuration names the scheme, host and port of a webhook."""
        return _is_url(url) and place(url) in self._hooks

    async def check(
        self, spec: Watch, watch: WatchState, liars: int, urls: Collection[str]
    ) -> None:
        """Compare a watch's number with the lines of its alerts.

        `urls`: the normalised relays that count; people come from these alone.
        """
        if not spec.alerts or watch.figure is None:
            return
        now = self._clock.wall()
        counted = int(now if watch.updated_at is None else watch.updated_at)
        newest = point_at(counted, watch.figure, str(watch.unit))
        crossed = await self._database.read(lambda c: state.crossed(c, spec.name))
        for alert in spec.alerts:
            condition = parse_condition(alert.when)
            past = await self._past(spec, condition, now, newest, urls)
            if condition.kind == "rate" and past.is_estimated:
                is_crossed = past.reaches(condition)
            else:
                sample = Sample(now, newest.value)
                is_crossed = holds(condition, sample, past.samples, liars=liars)
            if is_crossed == (alert.when in crossed):
                continue
            people = await self._people(spec, condition, now, urls) if is_crossed else ()
            crossing = Alert(
                secrets.token_hex(8), watch, alert.when, now, people, past.before, past.moved
            )
            await self._note(crossing, deliveries(crossing, alert) if is_crossed else [])

    async def check_coverage(self, spec: CoverageSpec, run: CoverageRun) -> None:
        """Compare a coverage's newest run with the lines of its alerts.

        A line whose crossing depends on relays that were not compared stays as it was.
        """
        if not spec.alerts:
            return
        crossed = await self._database.read(lambda c: state.crossed(c, f"{COVERAGE}{spec.name}"))
        for alert in spec.alerts:
            line = parse_shortfall(alert.when)
            is_crossed = falls_short(line, run)
            if is_crossed is None or is_crossed == (alert.when in crossed):
                continue
            covered = Covered(spec.name, run, line.share)
            crossing = Alert(secrets.token_hex(8), covered, alert.when, self._clock.wall())
            await self._note(crossing, deliveries(crossing, alert) if is_crossed else [])

    async def send_digest(self, found: Digest, alerts: Sequence[DigestAlert], at: float) -> None:
        """Send a digest to the alerts of one time, and store that it was sent, in one transaction.

        Raises StoreError; then nothing is sent.
        """
        sent = [
            delivery
            for alert in alerts
            for delivery in deliveries(Alert(secrets.token_hex(8), found, alert.when, at), alert)
        ]
        await self._store(DIGEST, alerts[0].when, at, sent)

    async def _note(self, crossing: Alert, found: Sequence[Delivery]) -> None:
        await self._store(crossing.key, crossing.when, crossing.at, found)

    async def _store(self, key: str, line: str, at: float, found: Sequence[Delivery]) -> None:
        """Store whether a line is crossed, and a delivery for each channel, in one transaction."""

        def work(conn: sqlite3.Connection) -> None:
            state.set_crossed(conn, key, line, at, on=bool(found))
            for one in found:
                outbox.put(conn, one)

        await self._database.write(work)
        for one in found:
            await self._put(one)

    async def _past(
        self, spec: Watch, condition: Condition, now: float, newest: Point, urls: Collection[str]
    ) -> _Past:
        """Return the numbers in the time of a condition, of a day for one without."""
        since, question = int(now - (condition.within or DAY)), spec.question

        def work(conn: sqlite3.Connection) -> _Past:
            found = points.series(conn, spec.name, since)
            earlier = [one for one in found if one.at < newest.at]
            samples = [Sample(one.at, one.value) for one in found]
            before = changed_from(condition, [one for one in samples if one.at < newest.at])
            if before is None:
                return _Past(samples)
            then = next(one for one in earlier if one.at == before.at)
            moved = change(conn, question, then, newest, relays=urls)
            if moved is not None and not moved.estimated:
                return _Past(samples, before, moved)
            oldest = earlier[0]  # the furthest of estimates is the one with the largest error
            moved = change(conn, question, oldest, newest, relays=urls)
            return _Past(samples, Sample(oldest.at, oldest.value), moved, is_estimated=True)

        return await self._database.read(work)

    async def _people(
        self, spec: Watch, condition: Condition, now: float, urls: Collection[str]
    ) -> tuple[Person, ...]:
        """Return who did what in the time of a condition, a day for one without."""
        since = int(now - (condition.within or DAY))
        question = spec.question
        await self._find_names(spec.name)
        found = await self._database.read(
            lambda conn: people_rows.read(conn, question, since, int(now), urls=urls)
        )
        return found.people

    async def _put(self, one: Delivery) -> None:
        others = [key for key in self._waiting if key[1] == one.channel]
        for key in others[: max(0, len(others) + 1 - MOST_WAITING)]:
            await self._give_up(self._waiting[key], "too many alerts wait")
        self._waiting[one.key] = one
        self._untried.add(one.key)
        self._all_tried.clear()
        self._some.set()

    async def run(self) -> None:
        """Deliver what waits, also from an earlier run, until cancelled.

        A failing receiver delays no other; a slow one delays only those of its slot.
        """
        for one in await self._database.read(outbox.waiting):
            await self._put(one)
        begun: set[tuple[str, Channel]] = set()
        async with task_group() as group:
            while True:
                begun &= self._waiting.keys()
                for key in self._waiting.keys() - begun:
                    begun.add(key)
                    group.create_task(self._attend(self._waiting[key]))
                self._some.clear()
                await self._some.wait()

    async def settle(self, seconds: float) -> None:
        """Wait until each delivery was tried once, at most `seconds`; the next run tries on."""
        await self._clock.wait(self._all_tried, seconds)

    async def _attend(self, one: Delivery) -> None:
        """Make one delivery; if the store cannot record it, the next run makes it again."""
        try:
            await self._serve(one)
        except StoreFull:
            return  # the ticker reports a full disk, once
        except StoreError as error:
            self._log.error("alert_not_noted", watch=one.watch, why=str(error))

    async def _serve(self, one: Delivery) -> None:
        """Try until the channel takes it, or give it up."""
        attempts, due, why = one.attempts, one.due, "tried before"
        while attempts < len(DELAYS_S):
            await self._clock.sleep(_until(due, self._clock.wall()))
            if one.key not in self._waiting:
                return
            if self._clock.wall() - one.at > LATEST_S:
                why = f"it is older than {LATEST_S / 3600:g} hours"
                break
            try:
                async with self._slots[one.channel]:
                    await self._deliver(one)
            except NostrTallyError as error:
                attempts, why = attempts + 1, str(error)
                due = self._clock.wall() + _delay(attempts)
                await self._note_failure(one, attempts, due, why)
                continue
            await self._done(one)
            return
        await self._give_up(one, why)

    async def _deliver(self, one: Delivery) -> None:
        """Deliver by the channel, as the current configuration allows. Raises NetworkError."""
        if one.channel == "webhook":
            named = self.names(one.target)
            await post(one.target, one.body, self._connection, one.kind, public_only=not named)
        elif one.command in self._commands:
            await _run(one.command, one.body)
        else:
            raise NetworkError("the configuration file does not name this command any more")

    async def _note_failure(self, one: Delivery, attempts: int, due: float, why: str) -> None:
        """Log the first failure of a run as a warning: the last one is half an hour away."""
        self.failed += 1
        is_first = attempts == one.attempts + 1
        write = self._log.warning if is_first else self._log.debug
        again = _delay(attempts) if attempts < len(DELAYS_S) else None
        write("alert_failed", **_shown(one), why=why, again_in_s=again)
        self._tried(one)
        await self._database.write(lambda c: outbox.failed(c, one, due))

    async def _done(self, one: Delivery) -> None:
        self.delivered += 1
        self._log.info("alert", **_shown(one))
        await self._forget(one)

    async def _give_up(self, one: Delivery, why: str) -> None:
        self.given_up += 1
        self._log.error("alert_given_up", **_shown(one), why=why)
        await self._forget(one)

    async def _forget(self, one: Delivery) -> None:
        self._waiting.pop(one.key, None)
        self._tried(one)
        await self._database.write(lambda c: outbox.remove(c, one))

    def _tried(self, one: Delivery) -> None:
        self._untried.discard(one.key)
        if not self._untried:
            self._all_tried.set()


def _delay(attempts: int) -> float:
    """Seconds to wait after `attempts` failed attempts."""
    return DELAYS_S[min(attempts, len(DELAYS_S) - 1)]


def _until(due: float, now: float) -> float:
    """Seconds until a time, bounded for a clock that was set back."""
    return min(max(0.0, due - now), max(DELAYS_S))


def _shown(one: Delivery) -> dict[str, str]:
    """The log's fields of a delivery, without its target, which may hold a secret."""
    if one.watch == DIGEST:
        return {"digest": one.line, "channel": one.channel}
    name = one.watch.removeprefix(COVERAGE)
    what = "watch" if name == one.watch else "coverage"
    return {what: name, "when": one.line, "channel": one.channel}


def _is_url(text: str) -> bool:
    try:
        place(text)
    except ValueError:
        return False
    return True


async def _run(command: tuple[str, ...], body: bytes) -> None:
    """Run a program with the JSON on its stdin, without a shell, for COMMAND_S at most.

    Raises NetworkError, which names only the program: its arguments may hold a secret.
    """
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
