"""Holds the parts of the agent, configures them, and runs them together."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agent.alerts.dispatcher import AlertDispatcher
from agent.api import views
from agent.api.feed import ApiFeed
from agent.config.model import BUILT_IN
from agent.counters.links import KIND as LINK
from agent.counters.links import Links
from agent.counters.sources import SOON_S
from agent.maintenance.coverage import KIND as COVERAGE
from agent.maintenance.coverage import LANE as COVERAGE_LANE
from agent.maintenance.coverage import CoverageRunner
from agent.maintenance.retention import KIND as HOUSE
from agent.maintenance.retention import RetentionRunner
from agent.service.merged import MergedWatches
from agent.service.metrics import Metrics
from agent.service.parts import make_counter, make_coverage, make_finder, make_streams
from agent.service.relay_state import RelayEviction
from agent.service.relaying import merged_urls
from agent.service.specs import Specs
from agent.service.tasks.asserted import KIND as ASSERTED
from agent.service.tasks.asserted import AssertedRunner
from agent.service.tasks.assertions import KIND as ASSERTIONS
from agent.service.tasks.assertions import AssertionRunner
from agent.service.tasks.digests import Digests, DigestSender
from agent.service.tasks.linking import LinkRunner
from agent.service.tasks.reindexing import RebuildRunner
from agent.specs import SyncSpec, chosen
from agent.syncing import AT_ONCE, SyncRunner
from agent.syncing import KIND as SYNC
from agent.syncing import LANE as SYNC_LANE
from agent.watch_states import WatchStates
from nostr_client.codecs.display import seconds
from nostr_client.codecs.relay_url import normalize
from nostr_client.errors import StoreError, StoreFull
from nostr_client.network.waiting import task_group
from nostr_client.store.index.schema import IndexedState
from nostr_client.watch import scheduler
from nostr_client.watch.definition import Watch
from nostr_client.watch.engine import ASK, MERGE, MERGE_LANE, Engine
from nostr_client.watch.naming import NameFinder
from nostr_client.watch.state import WatchSet
from nostr_client.watch.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent.config import Config
    from agent.config.model import RelaysSection
    from agent.log import Log
    from agent.service.parts import AgentParts
    from nostr_client.assertions.report import Asserted
    from nostr_client.count.asking import CountOptions
    from nostr_client.network.outbox import RelayFinder
    from nostr_client.store.file.disk_budget import Space
    from nostr_client.watch.clock import Clock
    from nostr_client.watch.state import Merge

MERGES_AT_ONCE = 2
"""Merges are CPU: more at once would only make the loop wait."""


class Agent:
    """Everything that one agent does; made over open `AgentParts`, and run once."""

    def __init__(self, config: Config, parts: AgentParts, clock: Clock, log: Log) -> None:
        self.config = config
        self.parts = parts
        self.clock = clock
        self.log = log
        self.started_at = clock.wall()
        self.started_mono = time.monotonic()
        self._relays: RelaysSection | None = None
        self._finder: RelayFinder | None = None
        database = parts.store.database
        self.feed = ApiFeed(parts.run, config.api.stream_backlog)
        self.links = Links(
            lambda link: self.feed.publish(link=link),
            lambda name: self.feed.publish(removed_link=name),
        )
        self.watch_specs = Specs("watch", Watch, database, clock)
        self.sync_specs = Specs("sync", SyncSpec, database, clock)
        self.worker = Worker(clock, log, self._limits(), ended=self._observe)
        self.engine = Engine(
            self.worker,
            log,
            parts.pool,
            make_counter(config, parts.store, clock),
            self._count_options(config),
            self._merged,
            refreshed=lambda others: self.states.refresh(others),
            history=database,
            ingest=parts.ingest,
        )
        self.names = NameFinder(self.engine, database, parts.keep)
        self.merged = MergedWatches(self.engine)
        self.states = WatchStates(database, lambda: self.engine.watches, self.watch_specs.all)
        self.syncing = SyncRunner(
            clock,
            log,
            parts.store,
            parts.pool,
            parts.memory,
            lambda shown: self.feed.publish(sync=shown),
            parts.provenance.note,
        )
        self.eviction = RelayEviction(parts.pool)
        self.retention = RetentionRunner(clock, log, parts.store, parts.index)
        self.linking = LinkRunner(config, parts, clock, log, self.links, self._soon)
        self.alerts = AlertDispatcher(
            clock, log, database, parts.pool.options.connection, self.names.find_now
        )
        self.coverages = CoverageRunner(
            clock,
            log,
            database,
            parts.pool,
            lambda shown: self.feed.publish(coverage=views.coverage(shown)),
            self.alerts.check_coverage,
        )
        self.digests = Digests(clock, database, self.engine, self.syncing, self.coverages)
        self.digest_sender = DigestSender(clock, log, database, self.alerts, self.digests.since)
        self.assertions = AssertionRunner(clock, log, parts)
        self.asserted = AssertedRunner(clock, self.engine, parts.pool, self._show_asserted)
        self.reindexing = RebuildRunner(clock, log, parts.store, parts.index)
        self.worker.runners |= {
            SYNC: self.syncing.run,
            HOUSE: self._keep_house,
            LINK: self.linking.run,
            COVERAGE: self.coverages.run,
            ASSERTIONS: self.assertions.run,
            ASSERTED: self.asserted.run,
        }
        self.worker.sources += [
            self.syncing,
            self.retention,
            self.linking,
            self.coverages,
            self.assertions,
            self.asserted,
        ]
        self.stored = 0
        """Events of the store when the metrics were last asked for."""
        self.metrics = Metrics(
            self._numbers,
            self.links.all,
            lambda: self.states.all,
            lambda: self.syncing.succeeded,
            lambda: self.coverages.states,
            lambda: self.config.api.open_metrics,
        )
        log.listeners.append(lambda line: self.feed.publish(log=line))

    def _limits(self) -> scheduler.LaneLimits:
        lanes = {SYNC_LANE: AT_ONCE, MERGE_LANE: MERGES_AT_ONCE, COVERAGE_LANE: 1}
        return scheduler.LaneLimits(
            per_lane=self.config.relays.at_once,
            total=1024,
            catch_up=seconds(self.config.service.catch_up),
            lanes=lanes,
        )

    async def configure(self, config: Config) -> None:
        """Take a configuration, the first or another: watches, syncs, relays, retention."""
        self.config = config
        await self.watch_specs.load(config.watches, self.log)
        await self.sync_specs.load(config.syncs, self.log)
        self.alerts.configure([*config.watches, *config.coverage, config.digest])
        self.digest_sender.configure(config.digest.alerts)
        self.retention.section = config.retention
        self.assertions.configure(config.assertions, config.relays)
        self.engine.counter = make_counter(config, self.parts.store, self.clock)
        self.engine.options = self._count_options(config)
        if self._relays != config.relays:
            self._relays = config.relays
            self._name(config.relays)
            self._finder = make_finder(config.relays, self.parts.pool, self.parts.store, self.clock)
            self.coverages.relays = make_coverage(
                config.relays, self.parts, self._finder, self.clock
            )
        await make_streams(self.parts.counters, config)
        self.worker.limits = self._limits()
        await self.linking.configure(config)
        await self.refresh()
        for name in self.linking.sourcing.sources:
            self.worker.nudge(f"{LINK} {name}")

    def _name(self, relays: RelaysSection) -> None:
        """Give the pool the relays that the configuration names; nobody named the built-in ones."""
        for urls, built_in in (
            (relays.default, BUILT_IN.default),
            (relays.indexers, BUILT_IN.indexers),
        ):
            if urls != built_in:
                self.parts.pool.name(urls)

    def _count_options(self, config: Config) -> CountOptions:
        options, relays = self.parts.count_options, config.relays
        keep = self.parts.keep if relays.keep_events else None
        return replace(options, read=relays.read, keep=keep)

    async def refresh(self) -> None:
        """Watches or syncs have changed: bring tasks and listeners in line."""
        relays = self.config.relays
        watches = {name: watch for name, (watch, _) in self.watch_specs.all().items()}
        for watch in watches.values():
            self.parts.pool.name(watch.relays)
        self.engine.wanted = WatchSet(
            watches=watches,
            default=relays.default,
            denied=relays.denied,
            merged_here=merged_urls(self.config.relay),
            finder=self._finder,
        )
        self.syncing.configure(self.sync_specs.all(), relays)
        gone = self.coverages.states.keys() - {one.name for one in self.config.coverage}
        due = self.coverages.configure(self.config.coverage, relays)
        for name in sorted(gone):
            self.feed.publish(removed_coverage=name)
        await self.engine.refresh()
        for key in due:
            self.worker.nudge(key)

    def _observe(self, key: str, seconds: float) -> None:
        kind = key.partition(" ")[0]
        if kind == ASK:
            self.metrics.answers.observe(seconds)
        elif kind == MERGE:
            self.metrics.merges.observe(seconds)

    async def _keep_house(self, rest: str) -> bool:
        ok = await self.retention.run(rest)
        for url in await self.eviction.round(self.loads()):
            self.feed.publish(removed_relay=url)
        return ok

    def _soon(self, name: str) -> None:
        """Run a link soon, unless it runs now: then it reads what is new by itself."""
        if not self.worker.is_running(f"{LINK} {name}"):
            self.worker.nudge(f"{LINK} {name}", SOON_S)

    def _show_asserted(self, name: str, found: Sequence[Asserted]) -> None:
        shown = self.states.show_asserted(name, found)
        if shown is not None:
            self.feed.publish(watch=shown)

    async def _merged(self, merge: Merge) -> None:
        self.merged.take(merge)
        shown = await self.states.take(merge)
        if shown is None:
            return
        self.feed.publish(watch=shown)
        if merge.is_whole:
            liars = merge.result.merged.excluded
            await self.alerts.check(merge.watched.watch, shown, len(liars), merge.believed)

    async def run(self) -> None:
        """Do the work until cancelled."""
        async with task_group() as group:
            group.create_task(self.engine.run())
            group.create_task(self.parts.ingest.run())
            group.create_task(self.alerts.run())
            group.create_task(self.digest_sender.run())
            group.create_task(self.reindexing.run())

    async def keep_relays(self) -> None:
        """Store what relays showed that they can do; log an error of the store, raise none."""
        try:
            await self.parts.book.save(self.parts.pool, self.clock.wall())
        except StoreFull:
            return  # the ticker reports a full disk, once
        except StoreError as error:
            self.log.warning("relays_not_kept", why=str(error))

    def reasons(self) -> tuple[str, ...]:
        """Why the agent is not ready; empty when it is."""
        found = list(self.parts.health.reasons())
        if self.parts.store.full:
            found.append(f"the store takes nothing: {self.parts.store.full}")
        if self.parts.index is not None and self.parts.index.index.behind:
            found.append(f"the derived tables are behind: {self.parts.index.index.behind}")
        statuses = [str(relay.status) for relay in self.parts.pool.relays.values()]
        if statuses and "connected" not in statuses and self.worker.started:
            found.append("no relay can be reached")
        found += [*self.watch_specs.reasons(), *self.sync_specs.reasons()]
        return tuple(found)

    def chosen(self, relays: Sequence[str]) -> list[str]:
        """The relays to ask: `relays`, or the defaults if that is empty."""
        section = self.config.relays
        self.parts.pool.name(relays)
        return chosen(relays, section.default, section.denied)

    def loads(self) -> dict[str, tuple[int, int]]:
        """How many tasks each relay has, and how many of them failed last, by URL."""
        found: dict[str, tuple[int, int]] = {}
        for key, task in self.worker.schedule.tasks.items():
            if "://" not in task.lane:
                continue
            tasks, failing = found.get(task.lane, (0, 0))
            failed = self.worker.schedule.turns[key].failures > 0
            found[task.lane] = (tasks + 1, failing + failed)
        synced = [url for one in self.syncing.syncs.values() for url in one.relays]
        for url in (*synced, *self.coverages.urls()):
            tasks, failing = found.get(url, (0, 0))
            found[url] = (tasks + 1, failing)
        return found

    @property
    def trusted(self) -> frozenset[str]:
        """Normalised URLs of the relays that are believed in any case."""
        return frozenset(map(normalize, self.config.relays.trusted))

    async def metrics_text(self) -> str:
        """The metrics, with the events of the store counted by what came and went."""
        mark = await self.parts.store.database.read(IndexedState.of_store)
        self.stored = mark.next_seq - 1 - mark.removals
        return self.metrics.text()

    def _numbers(self) -> dict[str, tuple[str, float]]:
        pool = self.parts.pool.relays.values()
        stats = [relay.stats for relay in pool]
        numbers: dict[str, tuple[str, Any]] = {
            "watches": ("Number of watches.", len(self.engine.watches)),
            "store_full": (
                "1 if the store refuses events, because its disk or its budget is full.",
                bool(self.parts.store.full),
            ),
            "store_events": ("Events in the store.", self.stored),
            **_space(self.parts.store.room.space),
            "index_behind": (
                "1 if the derived tables lack some stored events.",
                self.parts.index is not None and bool(self.parts.index.index.behind),
            ),
            "syncs": ("Number of syncs.", len(self.syncing.syncs)),
            "coverages": ("Number of coverages.", len(self.coverages.states)),
            "relays": ("Relays that the agent has connected to, or has tried to.", len(stats)),
            "relays_connected": (
                "Relays with an open connection.",
                sum(str(relay.status) == "connected" for relay in pool),
            ),
            "tasks": ("Tasks of the scheduler.", len(self.worker.schedule.tasks)),
            "tasks_running": ("Tasks that run now.", self.worker.running),
            "tasks_overdue": ("Tasks that are due, but wait for other tasks.", self.worker.overdue),
            "tasks_started_total": ("Started tasks.", self.worker.started),
            "tasks_failed_total": ("Failed tasks.", self.worker.failed),
            "live_events_total": ("Live events from relays.", self.engine.live.received),
            "kept_events_total": ("Live events that the store accepted.", self.engine.live.kept),
            "unkept_events_total": (
                "Live events that the agent dropped, because its queue was full.",
                self.engine.live.dropped,
            ),
            "downloaded_events_total": ("Events that syncs stored.", self.syncing.downloaded),
            "uploaded_events_total": (
                "Events of syncs that relays accepted.",
                self.syncing.uploaded,
            ),
            "removed_events_total": (
                "Old events that the retention rules removed.",
                self.retention.removed_total,
            ),
            "received_bytes_total": (
                "Bytes of messages received from relays, without compression.",
                sum(one.bytes_received for one in stats) + self.eviction.gone.bytes_received,
            ),
            "sent_bytes_total": (
                "Bytes of messages sent to relays, without compression.",
                sum(one.bytes_sent for one in stats) + self.eviction.gone.bytes_sent,
            ),
            "relay_faults_total": (
                "Times that the agent closed a connection because of an error of the relay.",
                sum(one.faults for one in stats) + self.eviction.gone.faults,
            ),
            "alerts_told_total": (
                "Alerts that a webhook or command accepted.",
                self.alerts.delivered,
            ),
            "alerts_failed_total": (
                "Failed attempts to deliver an alert.",
                self.alerts.failed,
            ),
            "alerts_given_up_total": (
                "Alerts that the agent gave up.",
                self.alerts.given_up,
            ),
            "streams": ("Connected clients of the event stream.", self.feed.streams),
            "streams_cut_total": (
                "Clients that the agent disconnected because they were too slow.",
                self.feed.cut,
            ),
            "log_lines_total": ("Lines written to the log.", self.log.n),
            "log_lines_left_out_total": (
                "Lines that the agent left out of the log.",
                self.log.dropped,
            ),
        }
        return numbers | dict(self.linking.numbers())


def _space(space: Space | None) -> dict[str, tuple[str, float]]:
    """What the store uses of its disk budget; nothing before it was measured."""
    if space is None:
        return {}
    found: dict[str, tuple[str, float]] = {
        "store_used_bytes": ("Bytes of the store, without free pages and logs.", space.used)
    }
    if space.left is not None:
        text = "Bytes left until the store refuses events."
        found["store_left_bytes"] = (text, space.left)
    return found
