"""Implements the methods of the API's contract over the running parts."""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import replace as replaced

from agent.alerts.webhook import private
from agent.api import schema, views
from agent.api.badge import shields, svg
from agent.api.schema import ApiRefusal, not_found
from agent.config.rules import check_sync, check_watch
from agent.counters.links import KIND as LINK
from agent.maintenance.coverage import KIND as COVERAGE
from agent.maintenance.retention import KEEPING
from agent.maintenance.retention import KIND as HOUSE
from agent.service.counters import CounterBackend
from agent.service.tasks.assertions import CARDS
from agent.service.tasks.assertions import KIND as ASSERTIONS
from agent.specs import with_known_webhooks
from agent.syncing import KIND as SYNC
from nostr_client import __version__
from nostr_client.codecs import nip05
from nostr_client.codecs.relay_url import normalize
from nostr_client.count.claims.changes import past_answers
from nostr_client.count.overlaps import overlaps_of
from nostr_client.count.queries import target_of
from nostr_client.errors import InvalidInput, RelayError
from nostr_client.network.profiles import key_for_others
from nostr_client.sync.coverage import history as coverage_runs
from nostr_client.watch import people_rows, points, repository
from nostr_client.watch.definition import Watch, switched
from nostr_client.watch.digest import excluded_of
from nostr_client.watch.engine import FIND, MERGE
from nostr_client.watch.state import NO_RELAY

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from agent.maintenance.index import Indexing
    from agent.service.agent import Agent
    from agent.specs import SyncSpec
    from agent.syncing import RunningSync
    from nostr_client.count.queries import Query
    from nostr_client.network.relay import Relay


T = TypeVar("T")


class AgentBackend(CounterBackend):
    """Answers what the API is asked."""

    def __init__(self, agent: Agent, config_path: str) -> None:
        super().__init__(agent.parts.counters, agent.feed)
        self._agent = agent
        self._read = agent.parts.store.database.read
        self._config_path = config_path
        self.relay_url = ""
        self.restart_for: tuple[str, ...] = ()
        """Keys of the configuration that have changed and wait for a restart."""
        self.reloader: Callable[[], Awaitable[schema.Reloaded]] | None = None
        """Reads the configuration again; None if the agent has no source for it."""

    async def ready(self) -> schema.Ready:
        reasons = self._agent.reasons()
        return schema.Ready(ready=not reasons, reasons=reasons)

    async def metrics(self) -> str:
        return await self._agent.metrics_text()

    async def status(self) -> schema.AgentStatus:
        return self.glance()

    def glance(self) -> schema.AgentStatus:
        """The agent at a glance."""
        agent = self._agent
        reasons = agent.reasons()
        relays = agent.parts.pool.relays.values()
        return schema.AgentStatus(
            version=__version__,
            pid=os.getpid(),
            started_at=agent.started_at,
            uptime=self._uptime(),
            ready=not reasons,
            reasons=reasons,
            config=self._config_path,
            store=agent.parts.path,
            relay_url=self.relay_url,
            watches=len(agent.engine.watches),
            syncs=len(agent.syncing.syncs),
            relays=len(relays),
            relays_connected=sum(str(relay.status) == "connected" for relay in relays),
            tasks=len(agent.worker.schedule.tasks),
            running=agent.worker.running,
            overdue=agent.worker.overdue,
            restart_for=self.restart_for,
        )

    async def reload(self) -> schema.Reloaded:
        if self.reloader is None:
            raise ApiRefusal(409, "no_config", "this agent was started without a file to read")
        return await self.reloader()

    def snapshot(self) -> schema.StateSnapshot:
        return schema.StateSnapshot(
            n=self.feed.n,
            run=self.feed.run,
            status=self.glance(),
            watches=self._watches(),
            syncs=self._syncs(),
            relays=self.all_relays(),
            links=self._agent.links.all(),
            coverages=self._coverages(),
        )

    def _uptime(self) -> float:
        return round(time.monotonic() - self._agent.started_mono, 3)

    # Watches.

    def _watches(self) -> tuple[schema.WatchState, ...]:
        found = self._agent.states.all
        return tuple(found[name] for name in sorted(found))

    async def watches(self) -> schema.Watches:
        return schema.Watches(watches=self._watches())

    async def watch(self, name: str) -> schema.WatchState:
        return self._watched(name)

    async def digest(self, since: float = 0.0) -> schema.Digest:
        return await self._agent.digests.since(int(since))

    async def badge(self, name: str) -> str:
        return svg(self._watched(name))

    async def shield(self, name: str) -> dict[str, Any]:
        return shields(self._watched(name))

    async def add_watch(self, spec: Watch) -> schema.WatchState:
        _check(check_watch, spec)
        self._check_alerts(spec)
        await self._agent.watch_specs.add(spec)
        return await self._took(spec.name)

    def _check_alerts(self, spec: Watch) -> None:
        """Raise ApiRefusal for alerts that only the configuration file may have.

        These run a program, or call a webhook of this machine or its network that the file does
        not name.
        """
        for alert in spec.alerts:
            if alert.command:
                why = "alert commands come from the configuration file alone"
                raise ApiRefusal(403, "file_only", why)
            if alert.webhook and not self._agent.alerts.names(alert.webhook):
                why = private(alert.webhook, self._agent.parts.pool.options.connection) or ""
                if why:
                    raise ApiRefusal(
                        403, "file_only", f"webhook: {why}; the configuration may name it"
                    )

    async def change_watch(self, name: str, spec: Watch) -> schema.WatchState:
        if spec.name != name:
            raise InvalidInput("the name of a watch stays: add another and remove this one")
        if name in self._agent.engine.watches:
            spec = with_known_webhooks(spec, self._agent.engine.watches[name].watch)
        _check(check_watch, spec)
        self._check_alerts(spec)
        await self._agent.watch_specs.change(spec)
        return await self._took(name)

    async def _took(self, name: str) -> schema.WatchState:
        await self._agent.refresh()
        self._agent.worker.nudge(f"{FIND} relays")
        self._agent.worker.nudge(f"{MERGE} {name}")
        shown = self._watched(name)
        self.feed.publish(watch=shown)
        return shown

    async def remove_watch(self, name: str) -> schema.Done:
        await self._agent.watch_specs.remove(name)
        await self._agent.refresh()
        self.feed.publish(removed_watch=name)
        if name in self._agent.engine.watches:  # the file's, which was left out for its name
            self.feed.publish(watch=self._watched(name))
        return schema.Done()

    async def recount(self, name: str) -> schema.Done:
        self._watched(name)
        self._agent.engine.ask_now(name)
        return schema.Done()

    async def ask_watch(self, name: str) -> schema.CountReport:
        self._watched(name)
        await self._agent.engine.asked(name)
        return await self.explain(name)

    async def explain(self, name: str, excluded: str = "", trusted: str = "") -> schema.CountReport:
        self._watched(name)
        watch = self._agent.engine.watches[name].watch
        if excluded:
            watch = replaced(watch, excluded=switched(watch.excluded, excluded))
        if trusted:
            watch = replaced(watch, trusted=switched(watch.trusted, trusted))
        return (await self._agent.engine.explain(name, watch)).counted(watch.left_out)

    async def claims(self, name: str, relay: str) -> schema.PastClaims:
        self._watched(name)
        key, url = self._agent.engine.watches[name].key, normalize(relay)
        found = await self._read(lambda conn: past_answers(conn, key, url))
        return schema.PastClaims(watch=name, relay=relay, claims=tuple(found))

    async def overlaps(self, name: str) -> schema.WatchOverlaps:
        self._watched(name)
        result = await self._agent.engine.explain(name)
        found = await asyncio.to_thread(overlaps_of, result)  # milliseconds for each pair
        return schema.WatchOverlaps(
            watch=name, overlaps=found.overlaps, uncompared=found.uncompared
        )

    async def history(
        self, name: str, since: float = 0.0, limit: int = 2000
    ) -> schema.WatchHistory:
        self._watched(name)
        found = await self._read(lambda conn: points.series(conn, name, int(since), most=limit))
        asked_at = await self._read(lambda conn: repository.asked_at(conn, name))
        return schema.WatchHistory(watch=name, asked_at=asked_at, points=tuple(found))

    async def people(self, name: str, since: float = 0.0, limit: int = 200) -> schema.People:
        state, one = self._watched(name), self._agent.engine.watches[name]
        await self._agent.engine.store_now(name)
        excluded = excluded_of((await self._agent.engine.explain(name)).counted())
        return await self._read(
            lambda conn: people_rows.read(
                conn,
                one.query,
                int(since),
                int(self._agent.clock.wall()),
                urls=one.counted,
                excluded=excluded,
                figure=state.figure,
                limit=limit,
            )
        )

    async def look_up_name(self, body: schema.NameBody) -> schema.NamedKey:
        person = nip05.read_name(body.name)
        transport = self._agent.parts.pool.transport(stranger=True)
        pubkey = await key_for_others(person, transport)
        return schema.NamedKey(name=str(person), pubkey=pubkey)

    async def count(self, body: schema.CountBody) -> schema.CountReport:
        agent = self._agent
        spec = Watch(
            name="once",
            query=body.query,
            target=body.target,
            filters=body.filters,
            relays=body.relays,
        )
        query = spec.question
        relays = await self._relays_for(query, agent.chosen(body.relays))
        options = agent.engine.options
        timeouts = replace(options.timeouts, group=body.timeout, count=body.timeout)
        result = await agent.engine.counter.count(
            query,
            relays,
            replace(options, timeouts=timeouts),
        )
        return result.counted()

    async def _relays_for(self, query: Query, urls: Sequence[str]) -> list[tuple[str, Relay]]:
        """The relays to ask: those named or the defaults, else those of the target's author."""
        pool = self._agent.parts.pool
        if urls:
            return [(url, pool.relay(url)) for url in urls]
        finder = self._agent.engine.wanted.finder
        if finder is None:
            raise InvalidInput(NO_RELAY)
        found = await finder.relays_for(target_of(query))
        if not found.relays:
            raise ApiRefusal(503, "no_relay", found.lack)
        return [(url, pool.relay(url, stranger=url in found.strangers)) for url in found.relays]

    def _watched(self, name: str) -> schema.WatchState:
        return _known(self._agent.states.all, name, "watch")

    # Syncs.

    def _syncs(self) -> tuple[schema.Sync, ...]:
        found = self._agent.syncing.syncs
        return tuple(found[name].shown for name in sorted(found))

    async def syncs(self) -> schema.Syncs:
        return schema.Syncs(syncs=self._syncs())

    async def sync(self, name: str) -> schema.Sync:
        return self._synced(name).shown

    async def add_sync(self, spec: SyncSpec) -> schema.Sync:
        _check(check_sync, spec)
        await self._agent.sync_specs.add(spec)
        await self._agent.refresh()
        shown = self._synced(spec.name).shown
        self.feed.publish(sync=shown)
        return shown

    async def remove_sync(self, name: str) -> schema.Done:
        await self._agent.sync_specs.remove(name)
        await self._agent.refresh()
        self.feed.publish(removed_sync=name)
        if name in self._agent.syncing.syncs:
            self.feed.publish(sync=self._synced(name).shown)
        return schema.Done()

    async def run_sync(self, name: str) -> schema.Done:
        self._synced(name)
        self._agent.worker.nudge(f"{SYNC} {name}")
        return schema.Done()

    async def cancel_sync(self, name: str) -> schema.Done:
        self._synced(name)
        if not self._agent.worker.cancel(f"{SYNC} {name}"):
            raise ApiRefusal(409, "not_running", f"the sync {name} does not run")
        return schema.Done()

    def _synced(self, name: str) -> RunningSync:
        return _known(self._agent.syncing.syncs, name, "sync")

    # Coverages.

    def _coverages(self) -> tuple[schema.CoverageState, ...]:
        found = self._agent.coverages.states
        return tuple(views.coverage(found[name]) for name in sorted(found))

    async def coverages(self) -> schema.Coverages:
        return schema.Coverages(coverages=self._coverages())

    async def coverage(self, name: str) -> schema.CoverageState:
        return views.coverage(self._covered(name))

    async def coverage_history(
        self, name: str, since: float = 0.0, limit: int = 400
    ) -> schema.CoverageHistory:
        self._covered(name)
        runs = await self._read(lambda conn: coverage_runs.runs(conn, name, since, limit))
        return schema.CoverageHistory(coverage=name, runs=tuple(runs))

    async def run_coverage(self, name: str) -> schema.Done:
        self._covered(name)
        self._agent.worker.nudge(f"{COVERAGE} {name}")
        return schema.Done()

    def _covered(self, name: str) -> schema.CoverageState:
        return _known(self._agent.coverages.states, name, "coverage")

    # Links of counters.

    async def links(self) -> schema.CounterLinks:
        return schema.CounterLinks(links=self._agent.links.all())

    async def run_link(self, name: str) -> schema.Done:
        self._linked(name)
        self._agent.worker.nudge(f"{LINK} {name}")
        return schema.Done()

    async def confirm_link(self, name: str) -> schema.Done:
        if not self._linked(name).confirmable:
            raise ApiRefusal(409, "not_waiting", f"the link {name} waits for no confirmation")
        await self._agent.linking.confirm(name)
        return await self.run_link(name)

    def _linked(self, name: str) -> schema.CounterLink:
        return _known({one.name: one for one in self._agent.links.all()}, name, "link")

    # Relays, store, log.

    def all_relays(self) -> tuple[schema.RelayState, ...]:
        """Every relay that watches and syncs name, or that was asked something."""
        agent = self._agent
        loads = agent.loads()
        pool = agent.parts.pool.relays
        trusted = agent.trusted
        found = []
        for url in sorted(loads.keys() | pool.keys()):
            tasks, failing = loads.get(url, (0, 0))
            relay = pool.get(url)
            if relay is None:
                found.append(views.unmet_relay(url, tasks=tasks, trusted=trusted))
            else:
                found.append(views.relay(relay, tasks=tasks, failing=failing, trusted=trusted))
        return tuple(found)

    async def relays(self) -> schema.Relays:
        return schema.Relays(relays=self.all_relays())

    async def relay_info(self, url: str) -> schema.RelayInfo:
        pool = self._agent.parts.pool.relays
        one = _known(pool, normalize(url), "relay that was asked something:")
        try:
            return await one.info()
        except RelayError as error:
            raise ApiRefusal(409, "no_document", str(error)) from error

    async def store(self) -> schema.Store:
        parts = self._agent.parts
        index = None if parts.index is None else await parts.index.stats()
        return views.store(parts.path, await parts.store.stats(), index)

    async def hot(
        self, name: str | None = None, kind: int | None = None, limit: int = 50
    ) -> schema.HotTargets:
        return await self._index().hottest(name, kind, limit)

    async def index_snapshot(self) -> schema.IndexMark:
        return await self._index().snapshot()

    async def adopt_index(self, path: str) -> schema.IndexStats:
        found = await self._index().adopt(_beside(path, self._agent.parts.path))
        self._agent.log.info("index_adopted", generation=found.generation, hot=found.hot)
        return found

    async def rebuild(self) -> schema.Rebuild:
        return self._agent.reindexing.shown

    async def start_rebuild(self, body: schema.RebuildBody) -> schema.Rebuild:
        return self._agent.reindexing.start(body)

    async def cancel_rebuild(self) -> schema.Done:
        self._agent.reindexing.cancel()
        return schema.Done()

    def _index(self) -> Indexing:
        index = self._agent.parts.index
        if index is None:
            raise ApiRefusal(409, "no_index", "this agent keeps no derived tables: set store.index")
        return index

    async def assertions(self) -> schema.Assertions:
        return self._agent.assertions.shown

    async def run_assertions(self) -> schema.Done:
        if not self._agent.assertions.shown.on:
            raise ApiRefusal(409, "no_cards", "no cards are published: set assertions.key_file")
        self._agent.worker.nudge(f"{ASSERTIONS} {CARDS}")
        return schema.Done()

    async def retention(self) -> schema.Retention:
        return self._agent.retention.shown()

    async def run_retention(self) -> schema.Done:
        self._agent.worker.nudge(f"{HOUSE} {KEEPING}")
        return schema.Done()

    async def log(self, after: int = 0, limit: int = 200) -> schema.LogTail:
        lines = [line for line in self._agent.log.lines if line.n > after]
        return schema.LogTail(lines=tuple(lines[-limit:]))


def _known(found: Mapping[str, T], name: str, what: str) -> T:
    """What has this name. Raises ApiRefusal where nothing has."""
    if name not in found:
        raise not_found(f"{what} {name}")
    return found[name]


def _beside(path: str, store: str) -> Path:
    """A path that a request names, which has to lie in the store's folder. Raises InvalidInput."""
    try:
        found = Path(path).resolve()
    except (OSError, ValueError) as error:
        raise InvalidInput("the path cannot be read") from error
    if not found.is_relative_to(Path(store).resolve().parent):
        raise InvalidInput("the path lies outside the store's folder")
    return found


def _check(check: object, spec: object) -> None:
    """Raise InvalidInput with everything that is wrong with a spec."""
    found: list[str] = []

    def complain(path: tuple[str | int, ...], why: str) -> None:
        found.append(f"{'.'.join(map(str, path))}: {why}" if path else why)

    assert callable(check)
    check(spec, complain)
    if found:
        raise InvalidInput("; ".join(found))
