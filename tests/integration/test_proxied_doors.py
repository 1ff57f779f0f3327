"""With a proxy set, every door connects to the proxy alone and looks no name up.

Each program is a process whose interpreter reports every connection and look-up (`tests.audited`).
The relay's name is known to the proxy alone.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from typing import TYPE_CHECKING, NamedTuple

import pytest
from aiohttp import web

from nostr_client.codecs.event import EventTemplate
from nostr_client.codecs.nip19 import PublicKey
from tests.audited import Seen, read_audit
from tests.faulty_relay import FaultyRelay
from tests.proxied import PASSWORD, RealProxy, real_proxy, unused_port
from tests.running import as_on_a_terminal
from tests.talking import SIGNER, note

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

NOTES = '{"kinds":[1]}'
SOON = ("count", "publish", "relay show")
"""Doors that say at once that nothing can be reached; a sync tries for some seconds."""
INFO = {"name": "behind the proxy"}


class World(NamedTuple):
    """A proxy, and a relay and a webhook that are behind it."""

    proxy: RealProxy
    relay: FaultyRelay
    folder: Path

    @property
    def port(self) -> str:
        return self.relay.url.rpartition(":")[2]

    @property
    def url(self) -> str:
        return f"ws://relay.test:{self.port}"

    def environment(self, more: Mapping[str, str]) -> dict[str, str]:
        home = str(self.folder)
        kept = {name: os.environ[name] for name in ("PATH",)}
        return {**kept, "HOME": home, "LC_ALL": "C.UTF-8", **more}

    async def start(self, *args: str, **more: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.audited", str(self.folder / "audit"), *args,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            env=self.environment(more), preexec_fn=as_on_a_terminal,
        )  # fmt: skip

    async def run(self, *args: str, **more: str) -> tuple[int | None, str, str]:
        process = await self.start(*args, **more)
        async with asyncio.timeout(40):
            out, err = await process.communicate()
        assert b"Traceback" not in err, err.decode()
        return process.returncode, out.decode(), err.decode()

    def seen(self) -> Seen:
        return read_audit(self.folder / "audit")

    def check_all_by_proxy(self) -> None:
        """Nothing went beside the proxy, and something went through it."""
        assert self.seen() == Seen({("127.0.0.1", self.proxy.port)}, set())
        assert f"relay.test:{self.port}" in self.proxy.asked


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with real_proxy() as proxy, FaultyRelay(events=[note(1)], info=INFO) as relay:
        yield World(proxy, relay, tmp_path)


DOORS = {
    "count": ("count", "--filter", NOTES, "-r", "{url}"),
    "req": ("req", "--kind", "1", "-r", "{url}"),
    "sync": ("sync", "run", "--filter", NOTES, "-r", "{url}", "--store", "{home}/s.db"),
    "mirror": ("mirror", "{url}", "{url}/other", "--filter", NOTES, "--dry-run"),
    "publish": ("publish", "{home}/event.json", "-r", "{url}"),
    "relay show": ("relay", "show", "{url}"),
    "relay lists": ("count", "replies", note(1).id, "--indexer", "{url}"),
}


@pytest.mark.parametrize(
    ("door", "by"),
    [*((door, "option") for door in DOORS), ("count", "environment"), ("sync", "environment")],
)
async def test_a_command_connects_to_the_proxy_alone(world: World, door: str, by: str) -> None:
    (world.folder / "event.json").write_text(note(2).to_json())
    args = [one.format(url=world.url, home=world.folder) if one != NOTES else one
            for one in DOORS[door]]  # fmt: skip
    if by == "option":
        code, out, err = await world.run("nostr_client", *args, "--proxy", world.proxy.socks)
    else:
        code, out, err = await world.run("nostr_client", *args, ALL_PROXY=world.proxy.http)
    assert code == (3 if door == "relay lists" else 0), (out, err)
    world.check_all_by_proxy()


@pytest.mark.parametrize("door", [*SOON, pytest.param("sync", marks=pytest.mark.long)])
async def test_a_command_whose_proxy_is_down_fails_and_goes_nowhere_else(
    tmp_path: Path, door: str
) -> None:
    (tmp_path / "event.json").write_text(note(2).to_json())
    down = RealProxy(unused_port(), credentials=True)
    async with FaultyRelay(events=[note(1)], info=INFO) as relay:
        world = World(down, relay, tmp_path)
        args = [one.format(url=world.url, home=tmp_path) if one != NOTES else one
                for one in DOORS[door]]  # fmt: skip
        more = ("--proxy", down.socks)
        code, out, err = await world.run("nostr_client", *args, *more, COLUMNS="400")
        assert code in (1, 3), (code, out, err)
        assert f"the proxy at 127.0.0.1:{down.port} cannot be reached" in out + err
        assert PASSWORD not in out + err
        assert world.seen() == Seen({("127.0.0.1", down.port)}, set())
        assert relay.connections == 0


async def test_a_watch_connects_to_the_proxy_alone(world: World) -> None:
    given = ("--store", f"{world.folder}/s.db")
    adding = ("watch", "add", "w", "--filter", NOTES, "-r", world.url, *given)
    code, out, err = await world.run("nostr_client", *adding)
    assert code == 0, (out, err)
    running = ("watch", "run", "--once", "--proxy", world.proxy.socks, *given)
    code, out, err = await world.run("nostr_client", *running)
    assert code == 0, (out, err)
    world.check_all_by_proxy()


@pytest.mark.parametrize("allowed", [False, True])
async def test_relays_of_a_strangers_list_wait_for_leave(world: World, allowed: bool) -> None:
    """The list of the target's author names a relay whose name the proxy alone can resolve."""
    tags = (("r", f"ws://stranger.test:{world.port}"),)
    world.relay.events.append(
        SIGNER.sign_now(EventTemplate(kind=10002, tags=tags, created_at=1)).event
    )
    args = ["count", "followers", SIGNER.pubkey, "--indexer", world.url]
    given = ("--proxy", world.proxy.socks, *(("--strangers-by-proxy",) if allowed else ()))
    code, _, err = await world.run("nostr_client", *args, *given)
    world.check_all_by_proxy()
    if allowed:
        assert code == 0, err
        assert f"stranger.test:{world.port}" in world.proxy.asked
    else:
        assert code == 3
        assert "the proxy resolves stranger.test, so its address cannot be checked" in err
        assert not [one for one in world.proxy.asked if one.startswith("stranger")]


COUNTER_ON_NATS = ("counter", "get", "a.b", "--nats", "nats://nats.test:4222")


@pytest.mark.parametrize("said", ["environment", "option"])
async def test_counters_on_nats_do_not_go_beside_the_proxy(world: World, said: str) -> None:
    url = world.proxy.socks
    option = ("--proxy", url) if said == "option" else ()
    environment = {"ALL_PROXY": url} if said == "environment" else {}
    code, _, err = await world.run("nostr_client", *COUNTER_ON_NATS, *option, **environment)
    assert code == 2
    assert "NO_PROXY has to name nats.test" in err
    assert world.seen() == Seen(set(), set())


async def test_counters_on_nats_go_directly_when_the_proxy_is_none(world: World) -> None:
    """Which shows, too, that the audit sees what the refusal above prevents."""
    given = (*COUNTER_ON_NATS, "--proxy", "none")
    code, _, err = await world.run("nostr_client", *given, ALL_PROXY=world.proxy.socks)
    assert code == 3, err
    assert "nats.test" in world.seen().looked_up
    assert not world.proxy.asked


CONFIG = """
[network]
proxy = "{proxy}"
[store]
path = "{home}/store.db"
[relay]
enabled = false
[api]
listen = "127.0.0.1:0"
token_file = "{home}/token"
[relays]
default = ["{url}"]
indexers = []
[[watches]]
name = "w"
filters = [{{ kinds = [1] }}]
alerts = [{{ when = ">= 1", webhook = "http://hook.test:{hook}/T0ken" }}]
[[syncs]]
name = "s"
filters = [{{ kinds = [1] }}]
"""


async def test_the_agent_connects_to_the_proxy_alone(world: World) -> None:
    """Counts, live subscriptions, syncs, NIP-11 and an alert's webhook."""
    called = asyncio.Event()

    async def take(request: web.BaseRequest) -> web.Response:
        called.set()
        return web.Response()

    runner = web.ServerRunner(web.Server(take))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    hook = runner.addresses[0][1]
    file = world.folder / "agent.toml"
    file.write_text(
        CONFIG.format(proxy=world.proxy.socks, home=world.folder, url=world.url, hook=hook)
    )
    process = await world.start("agent", "run", "--config", str(file))
    try:
        async with asyncio.timeout(40):
            await called.wait()
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(40):
            _, err = await process.communicate()
        assert process.returncode == 0, err.decode()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        await runner.cleanup()
    world.check_all_by_proxy()
    assert f"hook.test:{hook}" in world.proxy.asked


async def test_a_name_at_an_onion_service_is_looked_up_through_the_proxy(world: World) -> None:
    async def answer(request: web.BaseRequest) -> web.Response:
        assert request.path == "/.well-known/nostr.json"
        return web.json_response({"names": {"bob": SIGNER.pubkey}})

    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    name = f"bob@abc.onion:{runner.addresses[0][1]}"
    asked = ("count", "followers", name, "-r", world.url, "--json")
    code, out, err = await world.run("nostr_client", *asked, "--proxy", world.proxy.socks)
    assert code == 0, err
    assert f"{name} is {PublicKey(SIGNER.pubkey).encode()}, as {name[4:]} says" in err
    assert json.loads(out)["query"]["target"] == SIGNER.pubkey
    add = ("watch", "add", "w", "followers", name.replace("bob", "eve"), "--store", "s.db")
    code, _, err = await world.run("nostr_client", *add, "--proxy", world.proxy.socks)
    assert code == 2, err
    assert "does not know the name eve" in err
    await runner.cleanup()
    world.check_all_by_proxy()


def test_the_audit_sees_what_goes_beside(tmp_path: Path) -> None:
    """The counter counts: a direct look-up and connection are in its report."""
    row = [["connect", "9.9.9.9", 443], ["look up", "a.example"]]
    (tmp_path / "audit").write_text("\n".join(map(json.dumps, row)))
    assert read_audit(tmp_path / "audit") == Seen({("9.9.9.9", 443)}, {"a.example"})


async def test_a_direct_command_is_seen_to_look_its_relay_up(world: World) -> None:
    args = ("relay", "show", f"ws://localhost:{world.port}")
    code, _, err = await world.run("nostr_client", *args)
    assert code == 0, err
    seen = world.seen()
    assert seen.looked_up == {"localhost"}
    assert int(world.port) in {port for _, port in seen.connected}
