"""A world taken through the real client: its steps one by one, and what the oracles say of each."""

from __future__ import annotations

import asyncio
import functools
import tempfile
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

from nostr_client.client import NostrClient
from nostr_client.codecs import keys
from nostr_client.codecs.event import parse_event
from nostr_client.codecs.keys import stored_event
from nostr_client.network.pool import RelayPool
from nostr_client.options import Limits, Options, ReconnectPolicy, Timeouts
from nostr_client.sync.options import SyncOptions
from tests.worlds import clock, oracles
from tests.worlds.items import known, made, note_id
from tests.worlds.people import START
from tests.worlds.relays import SimRelay
from tests.worlds.wire import MemoryTransport

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nostr_client.count.result import CountResult
    from tests.worlds.items import Made
    from tests.worlds.model import Change, Step, World

BEGINNING = START + 10_000
"""Unix time at which a world begins: after most of its events."""

OPTIONS = Options(
    timeouts=Timeouts(
        connect=2.0, count=2.0, group=6.0, eose=3.0, publish=3.0, page=60.0, heartbeat=1e9
    ),
    limits=Limits(message_bytes_in=200_000),
    reconnect=ReconnectPolicy(first=0.5, longest=4.0),
    budget=None,
)
"""Short deadlines, as the clock is virtual, and no heartbeat, which would wake us for nothing."""

SYNCING = SyncOptions(answer=4.0, progress=8.0, pause=0.5)


@dataclass(frozen=True)
class Pace:
    """Deadlines, and the seconds to wait `between` steps and for `live` events."""

    options: Options = OPTIONS
    syncing: SyncOptions = SYNCING
    between: float = 10.0
    live: float = 3.0


VIRTUAL = Pace()

_checked = functools.lru_cache(200_000)(keys._signature_holds)


@dataclass
class Report:
    """What came of a world: violations as sentences, and tallies of what was proven."""

    world: World
    violations: list[str] = field(default_factory=list)
    tally: Counter[str] = field(default_factory=Counter)

    def fail(self, kind: str, text: str) -> None:
        """Note a violation: its kind, for grouping, and what was seen."""
        self.violations.append(f"{kind}: {text}")

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of violations that were seen."""
        return frozenset(one.split(":")[0] for one in self.violations)


class Run:
    """One world while it runs. `relays` are live; `ever` has all that a relay ever sent."""

    def __init__(self, world: World, folder: Path, pace: Pace = VIRTUAL) -> None:
        self.world = world
        self._pace = pace
        self.report = Report(world)
        self.clock = clock.Clock(BEGINNING)
        self.relays = [
            SimRelay(f"ws://r{i}.test", spec.behaviours, spec.items, 0.01 * (i + 1), self.clock.now)
            for i, spec in enumerate(world.relays)
        ]
        self.ever: dict[str, dict[str, Made]] = defaultdict(dict)
        self.answered_before: set[str] = set()
        self.results: list[CountResult] = []
        """What counts and watches gave."""
        self._remembers = world.kept
        """Whether claims outlive their count: in a store, or once something is watched."""
        self._path = folder / f"world-{world.seed}" if world.kept else None
        self._client: NostrClient | None = None

    async def run(self) -> Report:
        """Every step, to the end."""
        try:
            for i, step in enumerate(self.world.steps):
                await self._step(i, step)
        finally:
            await self._close()
        oracles.repeats(self.relays, self.world, self.report)
        return self.report

    @property
    def client(self) -> NostrClient:
        """The client of this moment."""
        if self._client is None:
            urls = [relay.url for relay in self.relays]
            options = self._pace.options
            self._client = NostrClient(urls, options=options, store=self._path, now=self.clock.now)
            if self._pace is VIRTUAL:
                hosts = {relay.url: relay for relay in self.relays}
                self._client.pool = RelayPool(
                    options=options,
                    transport=MemoryTransport(hosts, options),
                    now=self.clock.now,
                    rand=lambda: 0.5,
                )
        return self._client

    async def _close(self) -> None:
        if self._client is not None:
            client, self._client = self._client, None
            await client.close()

    async def _step(self, i: int, step: Step) -> None:
        if step.restart:
            await self._restart()
        for relay in self.relays:
            relay.step = i
        self.clock.skip(step.gap)
        await asyncio.sleep(self._pace.between)
        if not self._remembers:
            self._forget()
        self._change(step.changes, lambda relay, one: relay.take(one))
        self._note()
        if i == 0 and self.world.local:
            await self._fill()
        match step.action:
            case "count":
                self._check(i, await self.client.count(self.world.query))
            case "watch":
                await self._watch(i, step)
            case _:
                await self._sync(i, step.action)

    async def _restart(self) -> None:
        await self._close()
        for relay in self.relays:
            relay.sent.discard(note_id())  # whom zaps may pay is not kept
        self._remembers = self.world.kept

    def _forget(self) -> None:
        """The client knows nothing of earlier steps."""
        self.answered_before.clear()
        self.ever.clear()
        for relay in self.relays:
            relay.sent.clear()

    def _change(self, changes: Sequence[Change], add: Callable[[SimRelay, Made], None]) -> None:
        for change in changes:
            relay = self.relays[change.relay]
            for item in change.loses:
                relay.lose(made(item))
            for item in change.adds:
                add(relay, made(item))

    def _note(self) -> None:
        for relay in self.relays:
            self.ever[relay.url] |= {one.id: one for one in relay.served()}

    async def _fill(self) -> None:
        await self.client._open_store()
        assert self.client._store.events is not None
        events = [stored_event(parse_event(made(item).text)) for item in self.world.local]
        await self.client._store.events.save(events)

    def _check(self, i: int, result: CountResult, *, later: bool = False) -> None:
        self.results.append(result)
        oracles.count(
            self.world,
            i,
            self.relays,
            result,
            self.ever,
            self.answered_before,
            self.report,
            later=later,
        )
        if self._remembers:
            self.answered_before |= {c.relay for c in result.relays if c.answered}

    async def _watch(self, i: int, step: Step) -> None:
        """The first result, and the last after live events."""
        self._remembers = True
        async with self.client.watch(self.world.query, interval=3_600.0) as watching:
            self._check(i, await anext(watching))
            await asyncio.sleep(self._pace.live)
            self._change(step.live, lambda relay, one: relay.hear(one))
            self._note()
            await asyncio.sleep(self._pace.live)
            try:
                async with asyncio.timeout(1):
                    self._check(i, await anext(watching), later=True)
            except TimeoutError:
                return

    async def _sync(self, i: int, direction: str) -> None:
        before = await self._local()
        report = await self.client.sync(
            self.world.query.filters,
            direction=direction,
            options=self._pace.syncing,
            include_private=self.world.private,
            include_others=True,
            timeout=600.0,
        )
        self._note()
        stored = oracles.Stored(before, await self._local())
        oracles.sync(self.world, i, self.relays, report, stored, direction, self.report)

    async def _local(self) -> list[Made]:
        """What the store holds of the question."""
        await self.client._open_store()
        assert self.client._store.events is not None
        events = await self.client._store.events.query(list(self.world.query.filters))
        return [one for event in events if (one := known(event.id)) is not None]


def ran(world: World, patches: Sequence[Any] = ()) -> Report:
    """Run a world on a virtual clock; `patches` (context managers) change the product."""
    with tempfile.TemporaryDirectory(prefix="world") as folder:
        cached = mock.patch.object(keys, "_signature_holds", _checked)
        return clock.run(lambda: Run(world, Path(folder)).run(), [cached, *patches])
