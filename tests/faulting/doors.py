"""Every way of writing to a store, as the programs that a user runs, on a disk that fails."""

from __future__ import annotations

import asyncio
import copy
import json
import os
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

import aiohttp

from agent.api.client import AgentClient, ApiError
from agent.maintenance import backup
from agent.relay.server import serve
from agent.service.parts import open_for_reindex
from nostr_client.codecs.filters import Filter
from nostr_client.codecs.keys import verify
from nostr_client.counters.config import StreamConfig
from nostr_client.counters.sqlite.store import SqliteCounterStore
from nostr_client.errors import DeadlineExceeded, NetworkError
from nostr_client.store.index.keeper import Index
from nostr_client.store.index.schema import HOT
from nostr_client.store.sqlite import SqliteStore
from tests.agent.relay.client import Client, connect
from tests.agent.relay.kit import signed
from tests.faulting.disk import FailingDisk, Fault, Kind, draw
from tests.faulting.truth import STREAM, SUBJECT, Truth
from tests.running import Done, start

if TYPE_CHECKING:
    import random
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
    from pathlib import Path

    from nostr_client.codecs.event import Event

PATIENCE_S: Final = 60.0
KILLED: Final = -9
TARGET: Final = "ab" * 32
GONE = (aiohttp.ClientError, ConnectionError, AssertionError, TypeError, TimeoutError)
CONFIG: Final = """
[store]
path = "{store}"
[relay]
listen = "127.0.0.1:0"
[api]
listen = "127.0.0.1:0"
token_file = "{token}"
[relays]
default = []
indexers = []
"""


class Snapshot(NamedTuple):
    """The files of a store, and what was known of it."""

    files: dict[str, bytes]
    truth: Truth


class Doors:
    """One store, and what is known of it; `one` sends a random write through a random door."""

    def __init__(self, folder: Path, shim: Path, rng: random.Random) -> None:
        self.folder = folder
        self.path = folder / "disk" / "store.db"
        self.path.parent.mkdir()
        self.disk = FailingDisk(shim, self.path.parent, folder / "control")
        self.rng = rng
        self.truth = Truth()
        self.fired: dict[str, int] = {}
        self._events = 0
        self._calls: dict[str, int] = {}

    async def begin(self) -> None:
        """A store that the agent made: an index with a hot target, and a stream of counters."""
        async with await open_for_reindex(self.path) as store:
            await Index.open(store)
            await store.save([verify(event) for event in self.some(HOT, of=TARGET)])
            self.truth.acknowledged([event.id for event in await store.query([Filter()])])
            counters = await SqliteCounterStore.over(store.database)
            await counters.create_stream(
                StreamConfig(name=STREAM, subjects=(f"{STREAM}.>",), allow_msg_counter=True)
            )

    def snapshot(self) -> Snapshot:
        """All files as they are, to go back to; no program may run."""
        files = {one.name: one.read_bytes() for one in self.path.parent.iterdir()}
        return Snapshot(files, copy.deepcopy(self.truth))

    def go_back_to(self, then: Snapshot) -> None:
        """Make all files what they were."""
        for one in self.path.parent.iterdir():
            one.unlink()
        for name, content in then.files.items():
            self.path.with_name(name).write_bytes(content)
        self.truth = copy.deepcopy(then.truth)

    def some(self, number: int, *, of: str = "") -> list[Event]:
        """New events: notes of many sizes, and reactions of which many are to one target."""
        made = []
        for _ in range(number):
            self._events += 1
            size = 1 if of else self.rng.choice([10, 3_000, 60_000])
            target = of or self.rng.choice([TARGET, f"{self._events:064x}"])
            made.append(
                signed(
                    self.rng.randrange(9),
                    7 if of else self.rng.choice([1, 7]),
                    [["e", target]],
                    f"{self._events} ".ljust(size, "x"),
                    created_at=1_700_000_000 + self._events,
                )
            )
        return made

    # Programs.

    async def run(
        self, door: str, module: str, *args: str, calm: bool = False, fault: Fault | None = None
    ) -> Done:
        """Run a program to its end under a fault; what fails says so in a line, not a traceback."""
        fault = None if calm else fault or self.draw(door)
        before = self.disk.calls
        async with self.faulty(door, fault):
            process = await start(*args, module=module, fresh=True, **self.environ())
            async with asyncio.timeout(PATIENCE_S):
                out, err = await process.communicate()
        self._calls[door] = max(self._calls.get(door, 30), self.disk.calls - before)
        assert b"Traceback" not in err, f"{door} {fault}: {err.decode()}"
        assert process.returncode is not None
        if not fault:
            assert process.returncode == 0, f"{door} of a good disk: {err.decode()}"
        return Done(process.returncode, out.decode(), err.decode())

    def draw(self, door: str) -> Fault:
        return draw(self.rng, self._calls.get(door, 30))

    @asynccontextmanager
    async def faulty(self, door: str, fault: Fault | None) -> AsyncIterator[None]:
        """The block meets a fault."""
        fired = self.disk.fired
        if fault:
            self.disk.arm(fault)
        try:
            yield
        finally:
            self.disk.calm()
            self.fired[door] = self.fired.get(door, 0) + (self.disk.fired > fired)

    def environ(self) -> dict[str, str]:
        """A user of one's own, on the failing disk."""
        home = str(self.folder / "home")
        names = ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR")
        return {**dict.fromkeys(names, home), **self.disk.environ}

    # Doors.

    async def importing(self) -> None:
        """What fails is imported again: it is then there, and once."""
        events = self.some(self.rng.randint(1, 8))
        file = self.folder / "events.jsonl"
        file.write_text("".join(event.to_json() + "\n" for event in events), "utf-8")
        command = ("store", "import", str(file), "--store", str(self.path))
        await self._until_done("import", events, "nostr_client", *command)

    async def sync(self) -> None:
        """As an import, of what a relay has."""
        events = self.some(self.rng.randint(1, 8))
        async with await SqliteStore.open(":memory:") as there, serve(there, port=0) as relay:
            await there.save([verify(event) for event in events])
            command = ("sync", "run", "--store", str(self.path), "-r", relay.url, "--filter", "{}")
            await self._until_done("sync", events, "nostr_client", *command)

    async def _until_done(self, door: str, events: list[Event], module: str, *args: str) -> None:
        ids = [event.id for event in events]
        done = await self.run(door, module, *args)
        if done.code:
            self.truth.unanswered(ids)
            await self.truth.check(self.path)
            await self.run(door, module, *args, calm=True)
        self.truth.acknowledged(ids)

    async def counter(self) -> None:
        command = ("counter", "add", SUBJECT, "1", "--store", str(self.path))
        done = await self.run("counter", "nostr_client", *command)
        self.truth.counted += done.code == 0
        self.truth.uncounted += done.code == KILLED

    async def reindex(self) -> None:
        """The child builds the file, the parent adopts it."""
        await self.run("reindex", "agent", "reindex", "--store", str(self.path))

    async def backing_up(self) -> None:
        """A backup is whole, or not there."""
        target = self.path.with_name("backup.db")
        command = ("backup", str(target), "--store", str(self.path))
        done = await self.run("backup", "agent", *command)
        assert target.exists() or done.code
        assert done.code in (0, KILLED) or not target.exists()
        if target.exists():
            backup.check_sum(target)
            assert await ids_of(target) >= self.truth.held
        target.unlink(missing_ok=True)

    async def restoring(self, fault: Fault | None = None) -> None:
        """The store is the old one, or the new one, and the old one is kept."""
        target = self.path.with_name("backup.db")
        backup.back_up(self.path, target, lambda *_: None)
        then, counted = await ids_of(target), self.truth.counted
        await self._grow()
        now = await ids_of(self.path)
        command = ("restore", str(target), "--store", str(self.path), "--force", "--json")
        done = await self.run("restore", "agent", *command, fault=fault)
        assert self.path.exists()
        found = await ids_of(self.path)
        assert found in ((then,) if done.code == 0 else (now, then))
        assert done.code in (0, KILLED) or found == now
        if done.code == 0:
            kept = self.path.with_name(os.path.basename(json.loads(done.out)["kept"]))
            assert await ids_of(kept) == now
            assert list(self.path.parent.glob("*.part*")) == []
        if found == then:
            self.truth = Truth()
            self.truth.acknowledged(then)
            self.truth.counted = counted
        for one in self.path.parent.glob("*.before*"):
            one.unlink()
        target.unlink()

    async def _grow(self) -> None:
        events = self.some(3)
        async with await open_for_reindex(self.path) as store:
            await store.save([verify(event) for event in events])
        self.truth.acknowledged([event.id for event in events])

    async def one(self) -> None:
        """A random door but the agent's, and a check of everything."""
        doors: Sequence[Callable[[], Awaitable[None]]] = (
            self.importing, self.sync, self.counter, self.reindex, self.backing_up, self.restoring,
        )  # fmt: skip
        for door in self.rng.sample(doors, len(doors)):
            await door()
            await self.truth.check(self.path)

    # The agent.

    async def life_of_an_agent(self, faults: int) -> None:
        """An agent that meets faults until it is killed or stopped; then everything is checked."""
        async with AsyncExitStack() as stack:
            agent = await stack.enter_async_context(Agent.running(self))
            for _ in range(faults):
                await agent.some(self.rng.randint(0, 3))
                kinds = list(Kind) if self.rng.random() < 0.2 else [k for k in Kind if k < 4]
                fault = draw(self.rng, 12, kinds)
                async with self.faulty("agent", fault):
                    await agent.some(self.rng.randint(1, 6))
                if agent.is_dead:
                    break
                await agent.retry()
            await agent.end(kill=self.rng.random() < 0.5)
        await self.truth.check(self.path)


class Agent:
    """A running agent: events over its local relay's socket, increments over its API."""

    def __init__(
        self,
        doors: Doors,
        process: asyncio.subprocess.Process,
        relay: Client,
        api: AgentClient,
    ) -> None:
        self._doors = doors
        self._truth = doors.truth
        self._process = process
        self._relay = relay
        self._api = api
        self._refused: list[Event] = []
        self.is_dead = False

    @classmethod
    @asynccontextmanager
    async def running(cls, doors: Doors, *settings: str) -> AsyncIterator[Agent]:
        """Start `nostr-agent run` on a good disk."""
        config, token = doors.folder / "agent.toml", doors.folder / "token"
        config.write_text(CONFIG.format(store=doors.path, token=token), "utf-8")
        command = ("run", "-c", str(config), "--json", *settings)
        process = await start(*command, module="agent", fresh=True, **doors.environ())
        assert process.stderr is not None
        log: list[bytes] = []
        try:
            async with asyncio.timeout(PATIENCE_S):
                while not log or b'"started"' not in log[-1]:
                    log.append(await process.stderr.readline())
                    assert log[-1], b"".join(log)
            drain = asyncio.create_task(_drain(process.stderr, log))
            told = json.loads(log[-1])
            async with (
                connect(told["local_relay"]) as relay,
                AgentClient(told["api"], token.read_text("utf-8").strip()) as api,
            ):
                yield cls(doors, process, relay, api)
            await drain
            assert b"Traceback" not in b"".join(log), b"".join(log).decode()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()

    async def some(self, number: int) -> None:
        """Writes of random kinds, one after the other, until the agent is dead."""
        for _ in range(number):
            if not self.is_dead:
                await self._doors.rng.choice([self.publish, self.publish, self.remove, self.add])()

    async def publish(self) -> None:
        for event in self._doors.some(self._doors.rng.randint(1, 3)):
            await self._hand_over(event)

    async def _hand_over(self, event: Event) -> bool:
        """Whether the agent took an event; False too where nobody knows."""
        try:
            answer = await self._relay.publish(event)
        except GONE:
            self.is_dead = True
            self._truth.unanswered([event.id])
            return False
        if answer[2]:
            self._truth.acknowledged([event.id])
        else:
            self._truth.refused([event.id])
            self._refused.append(event)
        return bool(answer[2])

    async def remove(self) -> None:
        """A request for deletion of one of its author's events."""
        (old,) = self._doors.some(1)
        if not await self._hand_over(old):
            return
        seed = next(n for n in range(9) if signed(n).pubkey == old.pubkey)
        request = signed(seed, 5, [["e", old.id]], created_at=old.created_at + 1)
        if await self._hand_over(request):
            self._truth.removed([old.id])
        elif self.is_dead:
            self._truth.unanswered([old.id])
        else:
            self._refused.remove(request)  # nobody asks again: what it would have removed stays

    async def add(self) -> None:
        try:
            await self._api.add(STREAM, SUBJECT, 1)
        except ApiError:
            return
        except (NetworkError, DeadlineExceeded):
            self._truth.uncounted += 1
            self.is_dead = True
            return
        self._truth.counted += 1

    async def retry(self) -> None:
        """On a good disk again, everything that was refused is taken."""
        refused, self._refused = self._refused, []
        for event in self._doors.rng.sample(refused, len(refused) // 2):
            assert await self._hand_over(event), "refused on a good disk"

    async def end(self, *, kill: bool) -> None:
        if self._process.returncode is None:
            if kill:
                self._process.kill()
            else:
                self._process.terminate()
        async with asyncio.timeout(PATIENCE_S):
            await self._process.wait()


async def _drain(stream: asyncio.StreamReader, log: list[bytes]) -> None:
    while line := await stream.readline():
        log.append(line)


async def ids_of(path: Path) -> set[str]:
    """The ids in a store."""
    async with await SqliteStore.open(path, read_only=True) as store:
        return {event.id for event in await store.query([Filter()])}
