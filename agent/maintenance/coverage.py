"""Runs the coverages of the configuration: which relays have an author's events, and repairs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from agent.api import schema
from agent.selection import chosen
from nostr_client.codecs import nip19
from nostr_client.codecs.display import seconds
from nostr_client.errors import NostrTallyError
from nostr_client.options import ReadBudget
from nostr_client.sync.coverage import Look
from nostr_client.sync.coverage import history as kept
from nostr_client.sync.coverage.history import run_of
from nostr_client.sync.coverage.looking import KINDS
from nostr_client.watch import scheduler

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from agent.config.model import RelaysSection
    from agent.log import Log
    from agent.specs import CoverageSpec
    from nostr_client.network.pool import RelayPool
    from nostr_client.store.database import Database
    from nostr_client.sync.coverage import Coverage
    from nostr_client.sync.coverage.relays import CoverageRelays
    from nostr_client.sync.coverage.repair import RepairReport
    from nostr_client.sync.coverage_report import CoverageRun
    from nostr_client.watch.clock import Clock

KIND: Final = "coverage"
LANE: Final = "coverage"


class CoverageRunner:
    """All coverages: their tasks, their runs, and their states for the API.

    `relays` compares and repairs, and is replaced when the configuration of relays changes.
    `on_change` gets every change of one; `compared` gets each new run, for its alerts.
    """

    def __init__(
        self,
        clock: Clock,
        log: Log,
        database: Database,
        pool: RelayPool,
        on_change: Callable[[schema.CoverageState], None],
        compared: Callable[[CoverageSpec, CoverageRun], Awaitable[None]],
    ) -> None:
        self.states: dict[str, schema.CoverageState] = {}
        self.relays: CoverageRelays | None = None
        self._urls: dict[str, list[str]] = {}
        self._clock = clock
        self._log = log
        self._database = database
        self._pool = pool
        self._on_change = on_change
        self._compared = compared

    def configure(self, specs: Sequence[CoverageSpec], relays: RelaysSection) -> None:
        """Replace all coverages by these; what is known of one by the same name stays."""
        before = self.states
        for one in specs:
            self._pool.name(one.relays)
        self._urls = {
            one.name: chosen(one.relays, () if one.written else relays.default, relays.denied)
            for one in specs
        }
        self.states = {
            one.name: msgspec.structs.replace(before[one.name], spec=one)
            if one.name in before
            else schema.CoverageState(spec=one)
            for one in specs
        }

    def urls(self) -> list[str]:
        """The relays that the configuration names for coverages, each once for each."""
        return [url for urls in self._urls.values() for url in urls]

    def tasks(self) -> list[scheduler.Task]:
        """One task for each coverage."""
        return [
            scheduler.Task(f"{KIND} {name}", LANE, seconds(one.spec.interval))
            for name, one in self.states.items()
        ]

    async def last(self) -> dict[str, float]:
        """When each was compared last; restores those runs, too."""
        found = await self._database.read(kept.last)
        for name, run in found.items():
            one = self.states.get(name)
            if one is not None and one.run is None:
                self.states[name] = msgspec.structs.replace(one, run=run)
        return {f"{KIND} {name}": run.at for name, run in found.items() if name in self.states}

    async def run(self, name: str) -> bool:
        """Compare one, and repair where its configuration says so; return whether it is whole."""
        if name not in self.states:  # removed after its turn had come
            return True
        self._show(name, running=True, why="")
        why = "cancelled"
        try:
            run = await self._run(self.states[name].spec)
            why = ""
        except NostrTallyError as error:
            why = str(error)
            self._log.warning("coverage_failed", coverage=name, why=why)
            return False
        finally:
            self._show(name, running=False, why=why)
        self._show(name, run=run)
        return run.complete

    async def _run(self, spec: CoverageSpec) -> CoverageRun:
        """Compare, repair, and compare again what was repaired; store the run."""
        assert self.relays is not None
        found, report = await self._look(self.relays, spec), None
        if spec.repair:
            report = await self._repair(self.relays, spec.name, found)
            if report is not None and report.relays:
                found = await self._look(self.relays, spec)
        run = run_of(found, self._clock.wall(), report)
        await self._database.write(lambda conn: kept.add(conn, spec.name, run))
        shares = {one.relay: one.share for one in run.relays}
        self._log.info("compared", coverage=spec.name, known=run.known, shares=str(shares))
        await self._compared(spec, run)
        return run

    async def _look(self, relays: CoverageRelays, spec: CoverageSpec) -> Coverage:
        since = None if spec.since is None else int(self._clock.wall() - seconds(spec.since))
        question = Look(
            author=nip19.decode_pubkey(spec.author), kinds=spec.kinds or KINDS, since=since
        )
        return await relays.look(
            question,
            [(url, self._pool.relay(url)) for url in self._urls[spec.name]],
            written=spec.written,
            budget=ReadBudget(events=spec.max_events),
            options=None,
        )

    async def _repair(
        self, relays: CoverageRelays, name: str, found: Coverage
    ) -> RepairReport | None:
        plan = await relays.plan(found)
        for relay, why, number in plan.left:
            self._log.info("not_sent", coverage=name, relay=relay, events=number, why=str(why))
        report = await relays.carry_out(plan, None)
        for one in report.relays:
            self._log.info("repaired", coverage=name, relay=one.relay, took=one.taken)
        return report

    def _show(self, name: str, **changes: object) -> None:
        """Change a state and publish it, if the configuration still has it."""
        one = self.states.get(name)
        if one is not None:
            self.states[name] = msgspec.structs.replace(one, **changes)
            self._on_change(self.states[name])
