"""An agent's backend over values in memory, behind the real API server in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from agent.api import schema
from agent.api.feed import ApiFeed
from agent.api.guard import ApiAccess
from agent.api.schema import ApiRefusal, not_found
from agent.api.server import ApiServer, Backend, serve
from agent.relay.listen import bind
from nostr_client.codecs.relay_url import normalize
from nostr_client.watch.definition import switched
from tests.tui import world

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from agent.api.schema import RelayInfo
    from agent.specs import SyncSpec
    from nostr_client.counters.shown import AuditBreak
    from nostr_client.watch.definition import Watch

TOKEN = "token-of-the-tests"
READ_TOKEN = "token-that-only-reads"


class Recorded(Backend):
    """Knows what `world` says until it is told otherwise; `asked` lists what changes things."""

    def __init__(self, **state: Any) -> None:
        self._feed = ApiFeed("run1", 10_000)
        self.asked: list[tuple[str, str]] = []
        self.watch_map = {one.spec.name: one for one in state.get("watches", world.WATCHES)}
        self.sync_map = {one.spec.name: one for one in state.get("syncs", world.SYNCS)}
        self.coverage_map = {one.spec.name: one for one in state.get("coverages", world.COVERAGES)}
        self.relay_list = tuple(state.get("relays", world.RELAYS))
        self.counter_map = {one.subject: one for one in state.get("counters", world.COUNTERS)}
        self.stream_list = tuple(state.get("streams", world.STREAMS))
        self.lines = tuple(state.get("log", world.LOG))
        self.breaks: tuple[AuditBreak, ...] = ()
        self.rebuilt = world.REBUILD
        self.server: Served | None = None

    @property
    def feed(self) -> ApiFeed:
        return self._feed

    async def ready(self) -> schema.Ready:
        return schema.Ready(ready=True)

    async def status(self) -> schema.AgentStatus:
        return world.status()

    async def metrics(self) -> str:
        return ""

    def snapshot(self) -> schema.StateSnapshot:
        return schema.StateSnapshot(
            n=self.feed.n,
            run=self.feed.run,
            status=world.status(),
            watches=tuple(self.watch_map.values()),
            syncs=tuple(self.sync_map.values()),
            relays=self.relay_list,
            coverages=tuple(self.coverage_map.values()),
        )

    def put_watch(self, one: schema.WatchState) -> None:
        """A watch is new, or has changed, and listeners are told."""
        self.watch_map[one.spec.name] = one
        self.feed.publish(watch=one)

    def feed_later(self, one: schema.WatchState) -> None:
        """The same from another thread, of a server that is known."""
        assert self.server is not None
        self.server.do(lambda: self.put_watch(one))

    # Watches.

    async def watches(self) -> schema.Watches:
        return schema.Watches(watches=tuple(self.watch_map.values()))

    async def watch(self, name: str) -> schema.WatchState:
        if name not in self.watch_map:
            raise not_found(f"watch {name}")
        return self.watch_map[name]

    async def add_watch(self, spec: Watch) -> schema.WatchState:
        self.asked.append(("add_watch", spec.name))
        if spec.name in self.watch_map:
            raise ApiRefusal(409, "exists", f"there is a watch {spec.name} already")
        one = schema.WatchState(spec=spec, origin="api", asked=len(self.relay_list))
        self.put_watch(one)
        return one

    async def look_up_name(self, body: schema.NameBody) -> schema.NamedKey:
        self.asked.append(("look_up_name", body.name))
        if body.name != "ada@example.com":
            raise ApiRefusal(422, "invalid", f"example.com does not know the name {body.name}")
        return schema.NamedKey(name=body.name, pubkey=world.PUBKEY)

    async def change_watch(self, name: str, spec: Watch) -> schema.WatchState:
        self.asked.append(("change_watch", name))
        one = msgspec.structs.replace(await self.watch(name), spec=spec)
        self.put_watch(one)
        return one

    async def remove_watch(self, name: str) -> schema.Done:
        self.asked.append(("remove_watch", name))
        await self.watch(name)
        del self.watch_map[name]
        self.feed.publish(removed_watch=name)
        return schema.Done()

    async def recount(self, name: str) -> schema.Done:
        self.asked.append(("recount", name))
        await self.watch(name)
        return schema.Done()

    async def claims(self, name: str, relay: str) -> schema.PastClaims:
        return schema.PastClaims(watch=name, relay=relay, claims=world.PAST)

    async def digest(self, since: float = 0.0) -> schema.Digest:
        return world.digest(int(since))

    async def people(self, name: str, since: float = 0.0, limit: int = 200) -> schema.People:
        return world.PEOPLE

    async def overlaps(self, name: str) -> schema.WatchOverlaps:
        await self.watch(name)
        return world.overlaps(name)

    async def explain(self, name: str, excluded: str = "", trusted: str = "") -> schema.CountReport:
        one = await self.watch(name)
        out = set(switched(one.spec.excluded, excluded) if excluded else one.spec.excluded)
        told = world.counted(one.spec.query or "filter", one.figure)
        claims = [
            msgspec.structs.replace(c, excluded=True, used=(), reasons=("left out by the watch",))
            if normalize(c.relay) in out
            else c
            for c in told.relays
        ]
        return msgspec.structs.replace(told, relays=tuple(claims))

    async def history(self, name: str, since: float, limit: int) -> schema.WatchHistory:
        return world.history(name, (await self.watch(name)).figure, since)

    async def count(self, body: schema.CountBody) -> schema.CountReport:
        self.asked.append(("count", body.query or "filter"))
        return world.counted(body.query or "filter", world.estimate(184_312, 0.031))

    # Syncs.

    async def syncs(self) -> schema.Syncs:
        return schema.Syncs(syncs=tuple(self.sync_map.values()))

    async def sync(self, name: str) -> schema.Sync:
        if name not in self.sync_map:
            raise not_found(f"sync {name}")
        return self.sync_map[name]

    async def add_sync(self, spec: SyncSpec) -> schema.Sync:
        self.asked.append(("add_sync", spec.name))
        one = schema.Sync(spec=spec, origin="api")
        self.sync_map[spec.name] = one
        self.feed.publish(sync=one)
        return one

    async def remove_sync(self, name: str) -> schema.Done:
        self.asked.append(("remove_sync", name))
        await self.sync(name)
        del self.sync_map[name]
        self.feed.publish(removed_sync=name)
        return schema.Done()

    async def run_sync(self, name: str) -> schema.Done:
        self.asked.append(("run_sync", name))
        await self.sync(name)
        return schema.Done()

    async def cancel_sync(self, name: str) -> schema.Done:
        self.asked.append(("cancel_sync", name))
        if not (await self.sync(name)).running:
            raise ApiRefusal(409, "not_running", f"the sync {name} does not run")
        return schema.Done()

    async def run_coverage(self, name: str) -> schema.Done:
        self.asked.append(("run_coverage", name))
        if name not in self.coverage_map:
            raise not_found(f"coverage {name}")
        return schema.Done()

    # Relays, counters, store, log.

    async def relays(self) -> schema.Relays:
        return schema.Relays(relays=self.relay_list)

    async def relay_info(self, url: str) -> RelayInfo:
        if url == world.GONE:
            raise ApiRefusal(503, "failed", "connection refused")
        return world.ABOUT

    async def streams(self) -> schema.StreamList:
        return schema.StreamList(streams=self.stream_list)

    async def counters(
        self, stream: str, pattern: str, limit: int, at: int = 0
    ) -> schema.CounterList:
        found = [one for one in self.counter_map.values() if fits(one.subject, pattern)]
        if stream != "INGEST":
            found = [world.counter("votes.yes", 3, 1, 3)]
        return schema.CounterList(stream=stream, counters=tuple(found[:limit]))

    async def counter_history(
        self, stream: str, subject: str, after: int, limit: int
    ) -> schema.CounterList:
        last = self.counter_map.get(subject) or world.counter(subject, 3, 1, 3)
        value, incr = int(last.value), int(last.incr or 0)
        found = [
            world.counter(subject, value - n * incr, incr, last.seq - n, 4.0 + 60 * n)
            for n in reversed(range(min(12, last.seq)))
        ]
        return schema.CounterList(stream=stream, counters=tuple(found))

    async def add(self, stream: str, subject: str, add: str, id: str = "") -> schema.CounterAdded:
        self.asked.append(("add", f"{subject} {add}"))
        old = self.counter_map.get(subject)
        value = int(add) + (int(old.value) if old else 0)
        self.counter_map[subject] = world.counter(subject, value, int(add), 60_011)
        return schema.CounterAdded(seq=60_011, value=str(value))

    async def audit(self, stream: str, subject: str) -> schema.Audit:
        self.asked.append(("audit", subject))
        value = self.counter_map[subject].value
        return schema.Audit(
            subject=subject,
            value=value,
            base="0",
            total=value,
            messages=1,
            holds=not self.breaks,
            breaks=self.breaks,
        )

    async def reset(self, stream: str, subject: str) -> schema.CounterAdded:
        self.asked.append(("reset", subject))
        self.counter_map[subject] = world.counter(subject, 0, 0, 60_012)
        return schema.CounterAdded(seq=60_012, value="0")

    async def rebuild(self) -> schema.Rebuild:
        return self.rebuilt

    async def start_rebuild(self, body: schema.RebuildBody) -> schema.Rebuild:
        self.asked.append(("rebuild", "check" * body.check + "repair" * body.repair))
        return self.rebuilt

    async def cancel_rebuild(self) -> schema.Done:
        self.asked.append(("cancel_rebuild", ""))
        return schema.Done()

    async def store(self) -> schema.Store:
        raise not_found("store")

    async def retention(self) -> schema.Retention:
        return schema.Retention(rules=())

    async def log(self, after: int, limit: int) -> schema.LogTail:
        return schema.LogTail(lines=self.lines[-limit:])


def fits(subject: str, pattern: str) -> bool:
    """Whether a subject is one of a pattern's."""
    parts, wanted = subject.split("."), pattern.split(".")
    if wanted[-1] == ">":
        return len(parts) >= len(wanted) and parts[: len(wanted) - 1] == wanted[:-1]
    return len(parts) == len(wanted) and all(
        w in ("*", p) for p, w in zip(parts, wanted, strict=False)
    )


SERVED: dict[str, Served] = {}
"""By the URL of their API."""


class Served:
    """A backend behind a server; what touches them runs on their own loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, api: ApiServer) -> None:
        self._loop = loop
        self.api = api
        SERVED[api.url] = self

    @property
    def published(self) -> int:
        """The number of the newest message of the stream."""
        return self.api.backend.feed.n if isinstance(self.api.backend, Recorded) else 0

    def use(self, backend: Recorded | None) -> None:
        """Answer from this one from now on; the streams of the one before end."""

        if backend is not None:
            backend.server = self

        async def swap() -> None:
            if self.api.backend is not None:
                self.api.backend.feed.close()
            self.api.backend = backend  # type checked by the protocol

        self.run(swap())

    def do(self, deed: Callable[[], None]) -> None:
        """Call something on the server's loop and wait for it."""

        async def call() -> None:
            deed()

        self.run(call())

    def run(self, what: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine on the server's loop and wait for it."""
        asyncio.run_coroutine_threadsafe(what, self._loop).result(10)


@contextmanager
def served(port: int = 0) -> Iterator[Served]:
    """A server in a thread, until the block is left."""
    started: Future[Served] = Future()
    stop: list[asyncio.Event] = []

    async def main() -> None:
        async with serve(
            ApiAccess(token=TOKEN, read_token=READ_TOKEN), bind("127.0.0.1", port)
        ) as api:
            stop.append(asyncio.Event())
            started.set_result(Served(asyncio.get_running_loop(), api))
            await stop[0].wait()

    thread = threading.Thread(target=lambda: asyncio.run(main()), daemon=True)
    thread.start()
    found = started.result(10)
    try:
        yield found
    finally:
        found.do(stop[0].set)
        thread.join(10)
