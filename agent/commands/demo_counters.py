"""`nostr-agent demo counters`: three agents count, and there is one total, whatever happens."""

from __future__ import annotations

import asyncio
import random
import time
from contextlib import AsyncExitStack
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

import click

from agent.commands.demo_parts import DemoAgent, NatsHub, nats_server, wire
from agent.scratch import temporary
from nostr_client.cli.output import json_option, print_json, say
from nostr_client.cli.runner import run_async_until_sigterm
from nostr_client.errors import NostrTallyError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from agent.commands.demo_parts import Wire

SEED: Final = 9
LEAVES: Final = ("es", "fr", "it")
"""The first two are sourced by HTTP, the third over Nostr."""

PATIENCE_S: Final = 60.0

_BASE: Final = """
[store]
path = "{folder}/store.db"
[relay]
enabled = false
[api]
listen = "127.0.0.1:0"
token_file = "{folder}/token"
[relays]
default = ["{relay}"]
indexers = []
[service]
log = "error"
"""

_NOSTR: Final = """
[identity]
key_file = "{folder}/key"
[[counters.publish]]
stream = "app"
interval = "500ms"
"""

_PUSH: Final = """
[[counters.push]]
name = "hub"
stream = "app"
servers = ["{url}"]
agent = "{name}"
total = "WORLD"
interval = "500ms"
"""

_SOURCE: Final = """
[[counters.sources]]
name = "{name}"
stream = "world"
of = "app"
{how}
transforms = [{{ src = "app.*", dest = "world.$1" }}]
interval = "500ms"
"""


@click.command()
@click.option(
    "--seconds", type=click.IntRange(5, 600), default=20, show_default=True, help="Time it has."
)
@json_option
@click.pass_context
def counters(ctx: click.Context, seconds: int, as_json: bool) -> None:
    """Three agents count, cut off, restarted and put back in between; one total, and the truth.

    Two are sourced by HTTP, one over Nostr; with a nats-server there, all push to it as well.
    Everything is local, in a folder that is removed. Exit code 1 when a total ends up wrong.
    """
    ended = run_async_until_sigterm(_counters(seconds, quiet=as_json))
    if as_json:
        print_json(ended)
    else:
        _tell_end(ended)
    ctx.exit(0 if ended["right"] else 1)


async def _counters(seconds: int, *, quiet: bool) -> dict[str, Any]:
    async with AsyncExitStack() as stack:
        fleet = Fleet(stack, quiet=quiet)
        await fleet.start()
        await fleet.live(seconds)
        return await fleet.ended()


class Fleet:
    """Three agents that count, one that has the total, a relay, and maybe a nats-server."""

    def __init__(self, stack: AsyncExitStack, *, quiet: bool) -> None:
        self.truth = 0
        self._stack = stack
        self._quiet = quiet
        self._rng = random.Random(SEED)
        self._root = stack.enter_context(temporary("nostr-fleet-"))
        self._agents: dict[str, DemoAgent] = {}
        self._wires: dict[str, Wire] = {}
        self._nats: NatsHub | None = None
        self._began = time.monotonic()

    async def start(self) -> None:
        """Start everything, the agent with the total last: it knows where the others listen."""
        for name in (*LEAVES, "relay", "world"):
            self._wires[name] = await self._stack.enter_async_context(wire())
        await self._start_relay()
        await self._start_nats()
        for name in (*LEAVES, "world"):
            await asyncio.to_thread(self._prepare, name)
            await self._agents[name].start()
            self._stack.push_async_callback(self._agents[name].stop)
        where = (
            f"nats-server at {self._nats.url}"
            if self._nats
            else "no nats-server here, or no extra nats: no hub"
        )
        self._say(f"agents {', '.join(LEAVES)} count; agent world has the total; {where}\n")

    async def _start_relay(self) -> None:
        from agent.relay.server import serve
        from nostr_client.store.sqlite import SqliteStore

        store = await self._stack.enter_async_context(await SqliteStore.open(":memory:"))
        server = await self._stack.enter_async_context(serve(store, port=0))
        self._wires["relay"].target = int(server.url.rpartition(":")[2].strip("/"))

    async def _start_nats(self) -> None:
        program = nats_server()
        if program is None:
            return
        self._nats = NatsHub(program, self._root / "nats")
        await self._nats.start()
        self._stack.push_async_callback(self._nats.kill)

    def _prepare(self, name: str) -> None:
        folder = self._root / name
        folder.mkdir()
        text = _BASE.format(
            folder=folder.as_posix(), relay=f"ws://127.0.0.1:{self._wires['relay'].port}"
        )
        text += self._leaf(name, folder) if name in LEAVES else self._total()
        self._agents[name] = DemoAgent(folder, text, self._wires[name])

    def _leaf(self, name: str, folder: Path) -> str:
        text = ""
        if name == "it":
            (folder / "key").write_text(self._secret().hex(), "ascii")
            (folder / "key").chmod(0o600)
            text += _NOSTR.format(folder=folder.as_posix())
        if self._nats is not None:
            text += _PUSH.format(url=self._nats.url, name=name)
        return text

    def _total(self) -> str:
        from nostr_client.keys import KeySigner

        text = '[[counters.streams]]\nname = "world"\nsubjects = []\n'
        for name in LEAVES:
            how = f'pubkey = "{KeySigner(self._secret()).pubkey}"'
            if name != "it":
                token = (self._root / name / "token").as_posix()
                how = f'agent = "http://127.0.0.1:{self._wires[name].port}"\ntoken_file = "{token}"'
            text += _SOURCE.format(name=name, how=how)
        return text

    def _secret(self) -> bytes:
        return sha256(f"demo {SEED} it".encode()).digest()

    async def live(self, seconds: int) -> None:
        """People are counted everywhere, all the time, while things happen."""
        happens = self._what_happens()
        ends = time.monotonic() + seconds
        step = seconds / (len(happens) + 1)
        for number, (what, do) in enumerate(happens, 1):
            await self._count_until(ends - seconds + number * step)
            self._say(f"{self._time()} {what}")
            await do()
        await self._count_until(ends)

    def _what_happens(self) -> list[tuple[str, Callable[[], Awaitable[None]]]]:
        found: list[tuple[str, Callable[[], Awaitable[None]]]] = [
            ("fr is cut off, and goes on counting", lambda: self._cut("fr", True)),
            ("the relay of it is cut off", lambda: self._cut("relay", True)),
            ("es is restarted", lambda: self._restart("es")),
            ("fr is back", lambda: self._cut("fr", False)),
            ("world is backed up", self._back_up),
            ("the relay is back", lambda: self._cut("relay", False)),
            (
                "world is put back from its backup, and reads all since then once more",
                self._put_back,
            ),
        ]
        if self._nats is not None:
            found.insert(4, ("the nats-server is killed", self._nats.kill))
            found.insert(6, ("the nats-server is started again", self._nats.start))
        return found

    async def _count_until(self, end: float) -> None:
        """At least once; every agent that runs takes part, however cut off."""
        told = time.monotonic()
        while True:
            name, n = self._rng.choice(LEAVES), self._rng.choice((1, 1, 2, 3, -1))
            await self._agents[name].client.add("app", "app.hits", n)
            self.truth += n
            if time.monotonic() - told > 1:
                told = time.monotonic()
                await self._show()
            if time.monotonic() >= end:
                return
            await asyncio.sleep(0.03)

    async def _cut(self, name: str, cut: bool) -> None:
        self._wires[name].set_cut(cut)

    async def _restart(self, name: str) -> None:
        await self._agents[name].stop()
        await self._agents[name].start()

    async def _back_up(self) -> None:
        from agent.backup import back_up

        store = self._agents["world"].store
        await asyncio.to_thread(back_up, store, self._root / "backup.db", lambda done, of: None)

    async def _put_back(self) -> None:
        from agent.backup import restore

        world = self._agents["world"]
        await world.stop()
        await asyncio.to_thread(restore, self._root / "backup.db", world.store, force=True)
        await world.start()

    async def _show(self) -> None:
        parts = [f"{name} {await self._value(name, 'app', 'app.hits')}" for name in LEAVES]
        total = await self._value("world", "world", "world.hits")
        self._say(f"{self._time()}   {', '.join(parts)}; total {total}, truth {self.truth}")

    async def _value(self, name: str, stream: str, subject: str) -> int:
        found = (await self._agents[name].client.counters(stream, subject)).counters
        return int(found[0].value) if found else 0

    async def _hub(self) -> int | None:
        """The total on the nats-server; None where it has none, or there is no server."""
        if self._nats is None:
            return None
        from nostr_client.counters.jetstream import JetStreamCounterStore

        try:
            async with await JetStreamCounterStore.connect(self._nats.url) as server:
                return await (await server.counters("WORLD")).load("total.app.hits")
        except NostrTallyError:
            return None

    async def ended(self) -> dict[str, Any]:
        """Wait, not for ever, until nothing is on its way; then every number."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            total = await self._value("world", "world", "world.hits")
            hub = await self._hub()
            right = total == self.truth and (self._nats is None or hub == self.truth)
            if right or time.monotonic() > deadline:
                break
            await asyncio.sleep(0.25)
        links = (await self._agents["world"].client.links()).links
        return {
            "right": right,
            "truth": self.truth,
            "total": total,
            "hub": hub,
            "agents": {name: await self._value(name, "app", "app.hits") for name in LEAVES},
            "sources": {one.name: [one.state, one.last_value, one.gaps] for one in links},
        }

    def _time(self) -> str:
        return f"{time.monotonic() - self._began:5.1f} s"

    def _say(self, line: str) -> None:
        if not self._quiet:
            click.echo(line)


def _tell_end(ended: dict[str, Any]) -> None:
    click.echo("")
    for name, value in ended["agents"].items():
        click.echo(f"agent {name} has counted {value}")
    click.echo(f"total at world {ended['total']}; in truth {ended['truth']}")
    if ended["hub"] is not None:
        click.echo(f"total on the nats-server {ended['hub']}")
    say("all right" if ended["right"] else "NOT right")
    say("what to look at next: docs/how-to/fleet.md, nostr-agent counter sources")
