"""Runs the coverages of the configuration: which relays have an author's events, and repairs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from agent.api import schema
from agent.specs import chosen
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
    from nostr_client.store.file.database import Database
    from nostr_client.sync.coverage import Coverage
    from nostr_client.sync.coverage.relays import CoverageRelays
    from nostr_client.sync.coverage.repair import RepairReport
    from nostr_client.sync.coverage_report import CoverageRun
    from nostr_client.watch.clock import Clock

KIND: Final = "coverage"
LANE: Final = "coverage"


class _Question(msgspec.Struct, frozen=True):
    """What a coverage compares: another question has other runs. `since`: seconds back."""

    author: str
    kinds: tuple[int, ...]
    since: float | None
    written: bool
    urls: tuple[str, ...]

    @property
    def key(self) -> str:
        """The question as text; the order of kinds and relays does not matter."""
        kinds, urls = tuple(sorted(set(self.kinds))), tuple(sorted(self.urls))
        one = msgspec.structs.replace(self, kinds=kinds, urls=urls)
        return msgspec.json.encode(one).decode()


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
        self._questions: dict[str, _Question] = {}
        self._clock = clock
        self._log = log
        self._database = database
        self._pool = pool
        self._on_change = on_change
        self._compared = compared

    def configure(self, specs: Sequence[CoverageSpec], relays: RelaysSection) -> list[str]:
        """Replace all coverages by these; return the tasks that are due now, by key.

        What is known of one by the same name stays if it compares the same as before.
        """
        before, keys = self.states, self._keys()
        for one in specs:
            self._pool.name(one.relays)
        self._questions = {one.name: _question(one, relays) for one in specs}
        changed = {name for name, key in self._keys().items() if keys.get(name, key) != key}
        self.states = {
            one.name: msgspec.structs.replace(before[one.name], spec=one)
            if one.name in before and one.name not in changed
            else schema.CoverageState(spec=one)
            for one in specs
        }
        return [f"{KIND} {name}" for name in sorted(changed)]

    def _keys(self) -> dict[str, str]:
        return {name: question.key for name, question in self._questions.items()}

    def _asks(self, name: str, question: _Question) -> bool:
        """Whether the configuration still has a coverage that compares this."""
        now = self._questions.get(name)
        return now is not None and now.key == question.key

    def urls(self) -> list[str]:
        """The relays that the configuration names for coverages, each once for each."""
        return [url for one in self._questions.values() for url in one.urls]

    def tasks(self) -> list[scheduler.Task]:
        """One task for each coverage."""
        return [
            scheduler.Task(f"{KIND} {name}", LANE, seconds(one.spec.interval))
            for name, one in self.states.items()
        ]

    async def last(self) -> dict[str, float]:
        """When each was compared last; restores those runs, too."""
        keys = self._keys()
        found = await self._database.read(lambda conn: kept.last_of(conn, keys))
        now = self._keys()
        same = {name: run for name, run in found.items() if now.get(name) == keys[name]}
        for name, run in same.items():
            one = self.states[name]
            if one.run is None:
                self.states[name] = msgspec.structs.replace(one, run=run)
        return {f"{KIND} {name}": run.at for name, run in same.items()}

    async def run(self, name: str) -> bool:
        """Compare one, and repair where its configuration says so; return whether it is whole.

        The run is discarded if the coverage is removed, or compares something else, meanwhile.
        """
        if name not in self.states:  # removed after its turn had come
            return True
        self._show(name, running=True, why="")
        why, question = "cancelled", self._questions[name]
        try:
            run = await self._run(self.states[name].spec, question)
            why = ""
        except NostrTallyError as error:
            why = str(error)
            self._log.warning("coverage_failed", coverage=name, why=why)
            return False
        finally:
            self._show(name, running=False, why=why)
        if run is None or not self._asks(name, question):
            return True
        self._show(name, run=run)
        return run.complete

    async def _run(self, spec: CoverageSpec, question: _Question) -> CoverageRun | None:
        """Compare, repair, and compare again what was repaired; store the run.

        Return None if nobody asks this any more.
        """
        assert self.relays is not None
        found, report = await self._look(self.relays, spec, question), None
        if spec.repair and self._asks(spec.name, question):
            report = await self._repair(self.relays, spec.name, found)
            if report is not None and report.relays:
                found = await self._look(self.relays, spec, question)
        if not self._asks(spec.name, question):
            return None
        run = run_of(found, self._clock.wall(), report)
        await self._database.write(lambda conn: kept.add(conn, spec.name, run, question.key))
        shares = {one.relay: one.share for one in run.relays}
        self._log.info("compared", coverage=spec.name, known=run.known, shares=str(shares))
        await self._compared(spec, run)
        return run

    async def _look(
        self, relays: CoverageRelays, spec: CoverageSpec, question: _Question
    ) -> Coverage:
        span = question.since
        since = None if span is None else int(self._clock.wall() - span)
        return await relays.look(
            Look(author=question.author, kinds=question.kinds, since=since),
            [(url, self._pool.relay(url)) for url in question.urls],
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
        for relay, kinds in plan.uncompared.items():
            self._log.info("not_compared", coverage=name, relay=relay, kinds=str(kinds))
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


def _question(spec: CoverageSpec, relays: RelaysSection) -> _Question:
    return _Question(
        author=nip19.decode_pubkey(spec.author),
        kinds=spec.kinds or KINDS,
        since=None if spec.since is None else seconds(spec.since),
        written=spec.written,
        urls=tuple(chosen(spec.relays, () if spec.written else relays.default, relays.denied)),
    )
