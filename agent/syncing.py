"""Runs syncs: each run asks all relays of a sync, and may stop at any byte."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from agent import state
from agent.api import schema
from agent.specs import chosen, sync_filters
from nostr_client.codecs.display import seconds
from nostr_client.errors import StoreFull
from nostr_client.sync.direction import Direction
from nostr_client.sync.options import Mode, SyncOptions
from nostr_client.sync.procedure import Syncer
from nostr_client.watch import scheduler

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from agent.config.model import RelaysSection
    from agent.log import Log
    from agent.specs import SyncSpec
    from nostr_client.network.pool import RelayPool
    from nostr_client.store.sqlite import SqliteStore
    from nostr_client.sync.memory import SyncMemory
    from nostr_client.sync.report import RelayReport
    from nostr_client.watch.clock import Clock

KIND: Final = "sync"
LANE: Final = "syncing"
AT_ONCE: Final = 2
"""Syncs that run at once: each has its own windows and downloads in flight."""

REPORT_EVERY_S: Final = 0.5


class RunningSync:
    """One sync at work."""

    def __init__(self, spec: SyncSpec, origin: str, relays: list[str]) -> None:
        self.spec = spec
        self.relays = relays
        kind: schema.Origin = "file" if origin == "file" else "api"
        self.shown = schema.Sync(spec=spec, origin=kind)


class SyncRunner:
    """All syncs: their tasks, their runs, and their states for the API.

    `on_change` gets every change of one, as the API shows it. `on_event` gets the id and the relay
    of each event before it is saved.
    """

    def __init__(
        self,
        clock: Clock,
        log: Log,
        store: SqliteStore,
        pool: RelayPool,
        memory: SyncMemory,
        on_change: Callable[[schema.Sync], None],
        on_event: Callable[[str, str], None],
    ) -> None:
        self.syncs: dict[str, RunningSync] = {}
        self.succeeded: dict[str, float] = {}
        """When each sync last completed."""
        self.downloaded = 0
        self.uploaded = 0
        self._clock = clock
        self._log = log
        self._store = store
        self._pool = pool
        self._memory = memory
        self._on_change = on_change
        self._on_event = on_event
        self._reported_at = 0.0

    def configure(self, specs: Mapping[str, tuple[SyncSpec, str]], relays: RelaysSection) -> None:
        """Replace all syncs by these, by name with their origin."""
        before = self.syncs
        self.syncs = {}
        for name, (spec, origin) in specs.items():
            urls = chosen(spec.relays, relays.default, relays.denied)
            self._pool.name(spec.relays)
            one = RunningSync(spec, origin, urls)
            if name in before:
                old = before[name].shown
                one.shown = msgspec.structs.replace(old, spec=spec, origin=one.shown.origin)
            self.syncs[name] = one
        self.succeeded = {n: at for n, at in self.succeeded.items() if n in self.syncs}

    def tasks(self) -> list[scheduler.Task]:
        """One task for each sync."""
        return [
            scheduler.Task(f"{KIND} {name}", LANE, seconds(one.spec.interval))
            for name, one in self.syncs.items()
        ]

    async def last(self) -> dict[str, float]:
        """When each ended last; restores the states of those runs, too."""
        found: dict[str, float] = {}
        kept = await self._store.database.read(lambda conn: state.notes(conn, f"{KIND}:"))
        for key, text in kept.items():
            one = self.syncs.get(key.removeprefix(f"{KIND}:"))
            if one is None:
                continue
            old = msgspec.json.decode(text, type=_Run)
            one.shown = msgspec.structs.replace(one.shown, **msgspec.structs.asdict(old))
            found[f"{KIND} {one.spec.name}"] = old.ended_at
            if old.outcome == "complete":
                self.succeeded[one.spec.name] = old.ended_at
        return found

    async def run(self, name: str) -> bool:
        """Run a sync with all its relays; return whether it is complete."""
        one = self.syncs.get(name)
        if one is None:  # removed after its turn had come
            return True
        if self._store.full and one.spec.direction != "up":
            return False  # no room for downloads; the ticker reports it, once
        started = self._clock.wall()
        self._show(one, running=True, started_at=started, ended_at=None, outcome="", relays=())
        outcome = "cancelled"
        try:
            outcome = await self._sync(one, started)
        except StoreFull:  # the ticker says why, once
            outcome = "store full"
        finally:
            self._show(one, running=False, ended_at=self._clock.wall(), outcome=outcome)
        run = _Run(
            started_at=started,
            ended_at=one.shown.ended_at or started,
            outcome=outcome,
            relays=one.shown.relays,
        )
        if outcome == "complete":
            self.succeeded[name] = run.ended_at
        await self._store.database.write(lambda conn: state.note(conn, f"{KIND}:{name}", run))
        return outcome == "complete"

    async def _sync(self, one: RunningSync, now: float) -> str:
        options = SyncOptions(window=one.spec.window)
        syncer = Syncer(
            self._store,
            options=options,
            memory=self._memory,
            now=self._clock.wall,
            on_event=self._on_event,
        )
        report = await syncer.sync(
            sync_filters(one.spec, now),
            [(url, self._pool.relay(url)) for url in one.relays],
            Mode(
                Direction(one.spec.direction),
                include_private=one.spec.include_private,
                include_others=one.spec.include_others,
            ),
            on_progress=lambda relays: self._progress(one, relays),
        )
        self.downloaded += report.downloaded
        self.uploaded += report.uploaded
        for relay in report.relays:
            if str(relay.status) != "complete":
                self._log.warning(
                    "sync_incomplete",
                    relay=relay.relay,
                    sync=one.spec.name,
                    status=str(relay.status),
                    why=relay.reason,
                )
        moved = {"downloaded": report.downloaded, "uploaded": report.uploaded}
        self._log.info("synced", sync=one.spec.name, complete=report.complete, **moved)
        self._show(one, relays=report.relays)
        return "complete" if report.complete else "partial"

    def _progress(self, one: RunningSync, relays: Sequence[RelayReport]) -> None:
        one.shown = msgspec.structs.replace(one.shown, relays=tuple(relays))
        now = self._clock.wall()
        if abs(now - self._reported_at) >= REPORT_EVERY_S:
            self._reported_at = now
            self._on_change(one.shown)

    def _show(self, one: RunningSync, **changes: object) -> None:
        one.shown = msgspec.structs.replace(one.shown, **changes)
        self._on_change(one.shown)


class _Run(msgspec.Struct, frozen=True):
    """What the store has of a run."""

    started_at: float
    ended_at: float
    outcome: str
    relays: tuple[schema.RelayReport, ...] = ()
