"""A world of relays, and a month in minutes: clocks that the test moves, everything else real."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Any

from agent.relay.options import RelayLimits, RelayOptions
from agent.relay.server import serve
from nostr_client.codecs.event import Event, EventTemplate
from nostr_client.codecs.keys import verify
from nostr_client.store.sqlite import SqliteStore
from nostr_client.watch.scheduler import Moment
from tests.faulty_relay import Behaviour, FaultyRelay, Peer
from tests.worlds import START, Sketches, signer

if TYPE_CHECKING:
    from contextlib import AsyncExitStack

    from nostr_client.watch.worker import Worker

DAY = 86_400.0


class WarpClock:
    """Stands still until it is moved; whoever waits is woken when its time has come."""

    def __init__(self, wall: float) -> None:
        self._wall = wall
        self._mono = 1000.0
        self._sleepers: dict[asyncio.Timeout, float] = {}

    def moment(self) -> Moment:
        return Moment(self._wall, self._mono)

    def wall(self) -> float:
        return self._wall

    async def wait(self, event: asyncio.Event, seconds: float) -> bool:
        if event.is_set():
            return True
        try:
            async with asyncio.timeout(None) as limit:
                self._sleepers[limit] = self._mono + seconds
                try:
                    await event.wait()
                finally:
                    del self._sleepers[limit]
        except TimeoutError:
            return event.is_set()
        return True

    async def sleep(self, seconds: float) -> None:
        await self.wait(asyncio.Event(), seconds)

    def advance(self, seconds: float, *, asleep: float = 0.0, step: float = 0.0) -> None:
        """Let time pass; for the wall clock `asleep` more of it, and `step` by which it is set.

        After a sleep or a step everybody who waits is woken, as when a machine wakes up.
        """
        self._mono += seconds
        self._wall += seconds + asleep + step
        now = asyncio.get_running_loop().time()
        for limit, at in list(self._sleepers.items()):
            if at <= self._mono or asleep or step:
                limit.reschedule(now)


class Refusing(Behaviour):
    """Refuses every question."""

    async def on_count(self, peer: Peer, message: list[Any]) -> None:
        await peer.send("CLOSED", message[1], "restricted: not for you")

    async def on_req(self, peer: Peer, message: list[Any]) -> None:
        await peer.send("CLOSED", message[1], "restricted: not for you")


class Mute(Behaviour):
    """Takes every question, and says nothing."""

    async def on_count(self, peer: Peer, message: list[Any]) -> None:
        return

    async def on_req(self, peer: Peer, message: list[Any]) -> None:
        return


class Dropping(Behaviour):
    """Cuts the connection at every seventh question, and spams notices before."""

    def __init__(self) -> None:
        self.asked = 0

    async def on_count(self, peer: Peer, message: list[Any]) -> None:
        self.asked += 1
        if self.asked % 7 == 0:
            for _ in range(5):
                await peer.send("NOTICE", "going away \x1b[31m" + "x" * 2000)
            peer.abort()
            return
        await super().on_count(peer, message)


def topic(n: int) -> str:
    """The pubkey that watch `n` asks the followers of."""
    return signer(10_000 + n).pubkey


class World:
    """Twelve relays: six of our own, six others; a few people follow some topics on each day."""

    def __init__(self, topics: int, seed: int = 1) -> None:
        self.rng = random.Random(seed)
        self.topics = topics
        self.followers: dict[tuple[int, str], set[int]] = {}
        """Who follows a topic on a relay."""
        self.stores: dict[str, SqliteStore] = {}
        self.faulty: dict[str, FaultyRelay] = {}
        self.good: list[str] = []
        self.bad: list[str] = []
        self.events = 0

    async def open(self, stack: AsyncExitStack) -> None:
        """Start the relays; they end with the stack."""
        for n in range(6):
            store = await stack.enter_async_context(await SqliteStore.open(":memory:"))
            options = RelayOptions(hll=n % 2 == 0, limits=RelayLimits(heartbeat_s=3600.0))
            server = await stack.enter_async_context(serve(store, port=0, options=options))
            self.stores[server.url] = store
            self.good.append(server.url)
        for behaviour in (Sketches(), Behaviour(), Behaviour(), Refusing(), Mute(), Dropping()):
            relay = await stack.enter_async_context(FaultyRelay(behaviour))
            self.faulty[relay.url] = relay
            steady = not isinstance(behaviour, (Refusing, Mute, Dropping))
            (self.good if steady else self.bad).append(relay.url)

    def relays(self, n: int) -> list[str]:
        """Whom watch `n` asks: a good relay, and for every second watch some other one."""
        first = self.good[n % len(self.good)]
        every = [*self.good, *self.bad]
        return [first] if n % 2 else list(dict.fromkeys([first, every[(n * 5 + 1) % len(every)]]))

    async def grow(self, day: int, now: float, most: int) -> None:
        """A day's new followers, a few for each of `most` topics that are chosen by chance."""
        for n in self.rng.sample(range(self.topics), most):
            person = self.rng.randrange(10**6)
            event = follow(person, n, int(now) - 60)
            self.events += 1
            for url in self.relays(n):
                self.followers.setdefault((n, url), set()).add(person)
                if url in self.stores:
                    await self.stores[url].save([verify(event)])
                else:
                    self.faulty[url].events.append(event)

    def truth(self, n: int) -> int:
        """How many follow topic `n` on the relays that answer."""
        silent = set(self.bad[:2])
        urls = [url for url in self.relays(n) if url not in silent]
        return len(set().union(*(self.followers.get((n, url), set()) for url in urls)))

    def forget(self) -> None:
        """Throw away what the faulty relays noted: the test must not leak either."""
        for relay in self.faulty.values():
            relay.received.clear()
            relay.accepts.clear()


def follow(person: int, n: int, at: int) -> Event:
    """Somebody follows topic `n`."""
    template = EventTemplate(kind=3, tags=(("p", topic(n)),), created_at=max(at, START))
    return signer(person).sign_now(template).event


def config(world: World, watches: int, syncs: int, interval: str) -> str:
    """A hundred watches and ten syncs, as TOML."""
    parts = []
    for n in range(watches):
        relays = ", ".join(f'"{url}"' for url in world.relays(n))
        parts.append(
            f'[[watches]]\nname = "w{n}"\nquery = "followers"\ntarget = "{topic(n)}"\n'
            f'relays = [{relays}]\ninterval = "{interval}"\n'
        )
    own = list(world.stores)
    for n in range(syncs):
        urls = ", ".join(f'"{url}"' for url in (own[n % 6], own[(n + 1) % 6]))
        parts.append(
            f'[[syncs]]\nname = "s{n}"\nfilters = [{{ kinds = [3] }}]\nrelays = [{urls}]\n'
            f'interval = "1d"\n'
        )
    return "".join(parts)


async def settle(worker: Worker) -> None:
    """Until everything that is due has been done."""
    async with asyncio.timeout(60):
        while True:
            for _ in range(5):
                await asyncio.sleep(0)
            if not worker.running and not worker.overdue:
                return
            await asyncio.sleep(0.002)


def until_next(worker: Worker, now: float) -> float:
    """Seconds until the next task is due."""
    dues = [turn.due for turn in worker.schedule.turns.values() if not turn.running]
    return max(0.05, min(dues, default=now + DAY) - now)
