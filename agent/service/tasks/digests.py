"""Makes the digest of what the agent knows, and sends the digest when an alert of it is due."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from agent import state
from agent.alerts.bodies import DIGEST
from agent.alerts.conditions import parse_digest_time, parse_shortfall
from nostr_client.counters.engine import moves
from nostr_client.errors import StoreError, StoreFull
from nostr_client.watch import digest_rows
from nostr_client.watch.digest import (
    COVERAGE_LINE,
    Digest,
    LowCoverage,
    UnfinishedSync,
    excluded_of,
    low_coverage,
)

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from agent.alerts.dispatcher import AlertDispatcher
    from agent.api.schema import CoverageState, Sync
    from agent.log import Log
    from agent.maintenance.coverage import CoverageRunner
    from agent.specs import CoverageSpec, DigestAlert
    from agent.syncing import SyncRunner
    from nostr_client.store.file.database import Database
    from nostr_client.watch.clock import Clock
    from nostr_client.watch.digest import WatchDigest
    from nostr_client.watch.engine import Engine


LOOK_S: Final = 60.0
"""Seconds between two looks at the clock at most: so a step of the wall clock is seen."""

FIRST_S: Final = 120.0
"""Seconds after a start until a digest may be sent: relays are asked first."""


class Digests:
    """Makes digests; it changes nothing."""

    def __init__(
        self,
        clock: Clock,
        database: Database,
        engine: Engine,
        syncs: SyncRunner,
        coverages: CoverageRunner,
    ) -> None:
        self._clock = clock
        self._database = database
        self._engine = engine
        self._syncs = syncs
        self._coverages = coverages

    async def since(self, since: int) -> Digest:
        """Return what changed since a time (Unix seconds). Raises StoreError."""
        now = int(self._clock.wall())
        found = [await self._watch(name, since, now) for name in sorted(self._engine.watches)]
        states, syncs = self._coverages.states, self._syncs.syncs
        return Digest(
            since=since,
            until=now,
            watches=tuple(one for one in found if one is not None),
            counters=await self._database.read(lambda conn: moves.read(conn, since)),
            coverages=tuple(_low(states[name] for name in sorted(states))),
            syncs=tuple(_unfinished(syncs[name].shown for name in sorted(syncs))),
        )

    async def _watch(self, name: str, since: int, now: int) -> WatchDigest | None:
        """Return what changed for a watch; None if it was removed meanwhile."""
        one = self._engine.watches.get(name)
        if one is None:
            return None
        await self._engine.store_now(name)
        result = await self._engine.explain(name)
        excluded = excluded_of(result.counted())
        return await self._database.read(
            lambda conn: digest_rows.read(
                conn, name, one.query, since, now, urls=one.counted, excluded=excluded
            )
        )


class DigestSender:
    """Sends the digest at the times of its alerts; the store has when each was sent last.

    So a restart sends none twice, and a digest that was due while the agent was off is sent when
    the agent starts again. The first one is due after the time at which its alert was first seen.
    """

    def __init__(
        self,
        clock: Clock,
        log: Log,
        database: Database,
        alerts: AlertDispatcher,
        make: Callable[[int], Awaitable[Digest]],
    ) -> None:
        self._clock = clock
        self._log = log
        self._database = database
        self._alerts = alerts
        self._make = make
        self._wanted: dict[str, list[DigestAlert]] = {}
        self._changed = asyncio.Event()

    def configure(self, alerts: Sequence[DigestAlert]) -> None:
        """Take the alerts of the configuration; those of the same time get the same digest."""
        self._wanted = {}
        for one in alerts:
            self._wanted.setdefault(one.when, []).append(one)
        self._changed.set()

    async def run(self) -> None:
        """Send what is due, until cancelled.

        The times count from the start, also those within the first FIRST_S seconds.
        """
        first = self._clock.moment().mono + FIRST_S
        while True:
            self._changed.clear()
            left = first - self._clock.moment().mono
            try:
                wait = await (self.round() if left <= 0 else self._begin(left))
            except StoreFull:
                wait = LOOK_S  # the ticker reports a full disk, once
            except StoreError as error:
                self._log.error("digest_not_sent", why=str(error))
                wait = LOOK_S
            await self._clock.wait(self._changed, wait)

    async def _begin(self, left: float) -> float:
        """Note which digests are new, and send none yet; return after how many seconds to look
        again."""
        await self._last()
        return min(LOOK_S, left)

    async def round(self) -> float:
        """Send each digest that is due; return after how many seconds to look again.

        Raises StoreError.
        """
        last = await self._last()
        for when, alerts in list(self._wanted.items()):
            now = self._clock.wall()
            since = min(last[when], now)
            if parse_digest_time(when).after(since) <= now:
                await self._alerts.send_digest(await self._make(int(since)), alerts, now)
                last[when] = now
        now = self._clock.wall()
        due = [parse_digest_time(when).after(min(at, now)) for when, at in last.items()]
        return min([LOOK_S, *(max(0.0, at - now) for at in due)])

    async def _last(self) -> dict[str, float]:
        """Return when each digest was sent last; one that is new counts as sent now."""
        wanted, now = frozenset(self._wanted), self._clock.wall()
        known = await self._database.read(lambda conn: state.crossings(conn, DIGEST))
        if known.keys() != wanted:
            await self._database.write(lambda conn: _take(conn, wanted, known, now))
        return {when: known.get(when, now) for when in wanted}


def _take(
    conn: sqlite3.Connection, wanted: frozenset[str], known: Mapping[str, float], now: float
) -> None:
    """Store the times of digests that are new, and forget those that are no longer wanted."""
    for when in wanted - known.keys():
        state.set_crossed(conn, DIGEST, when, now, on=True)
    for when in known.keys() - wanted:
        state.set_crossed(conn, DIGEST, when, now, on=False)


def line_of(spec: CoverageSpec) -> float:
    """Return the share below which a relay lacks too much: the highest one of the alerts."""
    lines = [parse_shortfall(alert.when).share for alert in spec.alerts]
    return max(lines, default=COVERAGE_LINE)


def _low(states: Iterable[CoverageState]) -> Iterable[LowCoverage]:
    for one in states:
        found = low_coverage(one.spec.name, one.run, line_of(one.spec), one.why)
        if found is not None:
            yield found


def _unfinished(syncs: Iterable[Sync]) -> Iterable[UnfinishedSync]:
    """Return the syncs whose newest run has ended, and not well."""
    for one in syncs:
        if one.running or one.outcome in ("", "complete"):
            continue
        relays = tuple(r.relay for r in one.relays if r.reason or str(r.status) != "complete")
        yield UnfinishedSync(name=one.spec.name, outcome=one.outcome, relays=relays)
