"""The service as a whole: alerts, retention, reload, drain, backup, and its commands."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from agent.api import schema
from agent.api.client import AgentClient, ApiError
from agent.cli import run
from agent.commands.run import ConfigReader
from agent.config import InvalidConfig, parse
from agent.config.load import draft
from agent.config.model import RelaysSection
from agent.maintenance.backup import back_up, restore
from agent.service.relay_state import DOUBTED_AFTER_S, RELAY_BOOK, RelayBook
from agent.service.run import once
from nostr_client.codecs.event import EventTemplate
from nostr_client.codecs.keys import verify
from nostr_client.errors import InvalidInput, StoreCorrupt, StoreError, StoreLocked
from nostr_client.network.pool import RelayPool
from nostr_client.network.relay_state import Capabilities
from nostr_client.paths import config_path
from nostr_client.store.file.database import Database
from nostr_client.store.sqlite import SqliteStore
from nostr_client.watch import WATCHES, points
from nostr_client.watch.definition import Watch
from tests import forks
from tests.agent.service.kit import an_agent, config_text, eventually
from tests.faulty_relay import FaultyRelay
from tests.worlds import TARGET, follow, signer

ROOT = Path(__file__).parents[3]


def watch_text(alerts: str = "", interval: str = "1h") -> str:
    return f"""
[[watches]]
name = "followers"
query = "followers"
target = "{TARGET}"
interval = "{interval}"
{alerts}
"""


# Alerts.


class Hook:
    """A webhook on a port of its own, which refuses the first `refuse` calls."""

    def __init__(self, refuse: int = 0) -> None:
        self.got: list[dict[str, Any]] = []
        self.refuse = refuse
        self.url = ""

    async def __aenter__(self) -> Hook:
        self._runner = web.ServerRunner(web.Server(self._take))
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}/"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def _take(self, request: web.BaseRequest) -> web.Response:
        if self.refuse:
            self.refuse -= 1
            return web.Response(status=500)
        self.got.append(json.loads(await request.read()))
        return web.Response()


async def test_a_crossing_is_told_once_by_webhook_and_command(tmp_path: Path) -> None:
    told = tmp_path / "told"
    async with Hook() as hook, FaultyRelay(events=[follow(i) for i in range(3)]) as relay:
        command = json.dumps([sys.executable, "-c", f"open({str(told)!r}, 'a').write(input())"])
        lines = (
            f'{{ when = "> 2", webhook = "{hook.url}" }}',
            f'{{ when = "> 1", command = {command} }}',
            f'{{ when = "> 100", webhook = "{hook.url}" }}',
        )
        more = watch_text(f"alerts = [{', '.join(lines)}]")
        async with an_agent(tmp_path, [relay.url], more) as agent:
            alerts = agent.service.agent.alerts

            async def both() -> bool:
                return alerts.delivered == 2

            await eventually(both)
            await agent.client.recount("followers")
            await agent.until(lambda w: w.answered == 1, "followers")
        async with an_agent(tmp_path, [relay.url], more) as agent:
            await agent.client.recount("followers")
            await agent.until(lambda w: w.answered == 1, "followers")
            relay.events.clear()
            relay.events.append(follow(1))
            await agent.client.recount("followers")
            await agent.until(lambda w: w.figure is not None and w.figure.value == 1, "followers")
            relay.events.extend(follow(i) for i in (2, 3))
            await agent.client.recount("followers")
            await agent.until(lambda w: w.figure is not None and w.figure.value == 3, "followers")

            async def again() -> bool:
                return len(hook.got) == 2

            await eventually(again)
    assert [one["when"] for one in hook.got] == ["> 2", "> 2"]
    assert hook.got[0]["value"] == 3
    assert json.loads(told.read_text().split("}{")[0].rstrip("}") + "}")["watch"] == "followers"


async def test_what_fails_is_tried_again_and_then_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.alerts.dispatcher.DELAYS_S", (0.0, 0.01, 0.01))
    async with Hook(refuse=2) as hook, FaultyRelay(events=[follow(1)]) as relay:
        more = watch_text(
            f'alerts = [{{ when = ">= 1", webhook = "{hook.url}" }},'
            ' { when = "< 5", command = ["/nowhere/at/all"] }]'
        )
        async with an_agent(tmp_path, [relay.url], more) as agent:
            alerts = agent.service.agent.alerts

            async def settled() -> bool:
                return (alerts.delivered, alerts.given_up) == (1, 1)

            await eventually(settled)
        assert "alert_given_up" in agent.log.getvalue()
        assert alerts.failed == 5
        said = agent.log.getvalue()
        assert said.count('"alert_failed"') == 2  # one for each alert, the later ones are debug
        assert "alerts_failed_total 5.0" in agent.service.agent.metrics.text()
    assert len(hook.got) == 1


async def test_the_first_failure_is_told_with_what_and_when_and_no_secret(tmp_path: Path) -> None:
    async with Hook(refuse=9) as hook, FaultyRelay(events=[follow(1)]) as relay:
        more = watch_text(
            f'alerts = [{{ when = ">= 1", webhook = "{hook.url}T0ken?key=s3cret" }},'
            ' { when = "< 5", webhook = "http://user:s3cret@127.0.0.1:1/T0ken" }]'
        )
        async with an_agent(tmp_path, [relay.url], more) as agent:

            async def both() -> bool:
                return agent.service.agent.alerts.failed >= 2

            await eventually(both)
            lines = [one for one in agent.service.agent.log.lines if one.event == "alert_failed"]
        found = {one.fields["when"]: one for one in lines if one.level == "warning"}
        host = hook.url.removeprefix("http://").strip("/")
        assert found[">= 1"].fields == {
            "watch": "followers",
            "when": ">= 1",
            "channel": "webhook",
            "why": f"webhook at {host}: HTTP 500",
            "again_in_s": 5.0,
        }
        assert set(found) == {">= 1", "< 5"}
        for secret in ("T0ken", "s3cret"):
            assert secret not in agent.log.getvalue()


async def test_an_alert_that_waits_outlives_the_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.alerts.dispatcher.DELAYS_S", (0.0, 3600.0, 0.0))
    async with Hook(refuse=1) as hook, FaultyRelay(events=[follow(1)]) as relay:
        more = watch_text(f'alerts = [{{ when = ">= 1", webhook = "{hook.url}" }}]')
        async with an_agent(tmp_path, [relay.url], more):

            async def refused() -> bool:
                return hook.refuse == 0

            await eventually(refused)
        assert not hook.got
        monkeypatch.setattr("agent.alerts.dispatcher.DELAYS_S", (0.0, 0.0, 0.0))
        for _ in range(2):
            async with an_agent(tmp_path, [relay.url], more) as agent:
                await agent.client.recount("followers")
                await agent.until(lambda w: w.answered == 1, "followers")

                async def told() -> bool:
                    return bool(hook.got)

                await eventually(told)
    assert [one["when"] for one in hook.got] == [">= 1"]
    assert len(hook.got[0]["id"]) == 16


# What relays can do.


async def test_what_relays_can_do_is_known_after_a_restart(tmp_path: Path) -> None:
    async with FaultyRelay(events=[follow(1)]) as relay:
        async with an_agent(tmp_path, [relay.url], watch_text()) as agent:
            await agent.until(lambda w: w.answered == 1, "followers")
            (shown,) = (await agent.client.relays()).relays
            assert shown.capabilities.count is True
        async with an_agent(tmp_path, [relay.url], watch_text()) as agent:
            pool = agent.service.agent.parts.pool
            assert pool.relay(relay.url).capabilities.count is True


async def test_what_a_relay_could_not_do_is_doubted_after_a_week(tmp_path: Path) -> None:
    able = Capabilities(count=True, negentropy=False, max_subscriptions=20)
    async with (
        await Database.open(tmp_path / "s.db", migrations=[RELAY_BOOK]) as database,
        RelayPool(known={"ws://relay.example": able}) as pool,
    ):
        book = await RelayBook.open(database, 0.0)
        assert await book.save(pool, 0.0) == 0
        pool.relay("ws://relay.example")
        assert await book.save(pool, 0.0) == 1
        assert await book.save(pool, 1.0) == 0
        fresh = await RelayBook.open(database, DOUBTED_AFTER_S - 1)
        assert fresh.known == {"ws://relay.example": able}
        old = await RelayBook.open(database, DOUBTED_AFTER_S)
        assert old.known == {"ws://relay.example": Capabilities(count=True, max_subscriptions=20)}


# Retention.


async def test_retention_removes_in_steps_what_the_rules_say(tmp_path: Path) -> None:
    now = int(time.time())
    old, fresh = now - 40 * 86_400, now - 86_400
    notes = [signed(i, 1, old + i) for i in range(1, 50)]
    kept = [signed(0, 1, old), signed(1, 5, old), signed(2, 1, fresh), signed(3, 7, old)]
    async with await SqliteStore.open(tmp_path / "store.db") as store:
        await store.save([verify(event) for event in [*notes, *kept]])
    rule = f'older_than = "30d"\nkinds = [1, 5]\nkeep_authors = ["{signer(0).pubkey}"]'
    more = f"[retention]\nstep = 7\n[[retention.rules]]\n{rule}"
    async with an_agent(tmp_path, (), more) as agent:

        async def ran() -> bool:
            return (await agent.client.retention()).ran_at is not None

        await eventually(ran)
        found = await agent.client.retention()
        assert found.removed == 49
        assert found.rules[0].kinds == (1, 5)
        assert (await agent.client.store()).events == len(kept)


def signed(person: int, kind: int, at: int) -> Any:
    template = EventTemplate(kind=kind, content=str(at), created_at=at)
    return signer(person).sign_now(template).event


# Reload.


async def test_a_reload_takes_new_watches_and_refuses_mistakes(tmp_path: Path) -> None:
    async with (
        FaultyRelay(events=[follow(1)]) as relay,
        an_agent(tmp_path, [relay.url], watch_text()) as agent,
    ):
        await agent.until(lambda w: w.answered == 1, "followers")
        changed = config_text(tmp_path, [relay.url], watch_text().replace("followers", "f", 1))
        await agent.service.reload(lambda: draft(changed, "config"))
        watch = await agent.until(lambda w: w.answered == 1, "f")
        assert watch.origin == "file"
        assert [w.spec.name for w in (await agent.client.watches()).watches] == ["f"]
        refused = await agent.service.reload(lambda: draft("[stor]", "config"))
        assert refused.mistakes == ("config: stor: unknown key; did you mean store?",)
        assert not refused.ok
        assert [w.spec.name for w in (await agent.client.watches()).watches] == ["f"]
        assert "reload_refused" in agent.log.getvalue()


async def test_a_reload_says_what_it_changed_and_what_waits_for_a_restart(tmp_path: Path) -> None:
    async with an_agent(tmp_path) as agent:
        with pytest.raises(ApiError, match="without a file"):
            await agent.client.reload()
        text = config_text(
            tmp_path,
            ["ws://relay.example"],
            '[service]\ndrain = "5s"\n[counters]\ningest = true\n'
            '[network]\nproxy = "http://127.0.0.1:1"',
            {
                "relays": "read = false",
                "api": 'cors_origins = ["https://app.example"]\nconnections = 99',
            },
        ).replace("store.db", "other.db")
        agent.service.backend.reloader = lambda: agent.service.reload(lambda: draft(text, "config"))
        (tmp_path / "token").write_text("another")
        found = await agent.client.reload()
        waits = ("store.path", "network.proxy", "api.connections")
        assert found.restart == waits
        applied = ["relays.default", "relays.read", "service.drain", "api.cors_origins"]
        assert found.applied == (*applied, "counters.ingest")
        assert agent.service.agent.engine.options.read is False
        with pytest.raises(ApiError, match="token is wrong"):
            await agent.client.status()
        async with AgentClient(agent.service.api.url, "another") as client:
            assert (await client.status()).restart_for == waits
            assert (await client.reload()).applied == ()
            assert "INGEST" in {one.name for one in (await client.streams()).streams}
        assert agent.service.api.access.origins == {"https://app.example"}
        assert "restart_needed" in agent.log.getvalue()


async def test_nothing_is_left_when_it_ends(tmp_path: Path) -> None:
    before = asyncio.all_tasks()
    async with (
        FaultyRelay(events=[follow(1)]) as relay,
        an_agent(tmp_path, [relay.url], watch_text()) as agent,
    ):
        await agent.until(lambda w: w.answered == 1, "followers")
        assert (tmp_path / "home/nostr-tally/agent.json").exists()
    assert asyncio.all_tasks() == before
    assert not (tmp_path / "home/nostr-tally/agent.json").exists()
    async with await SqliteStore.open(tmp_path / "store.db"):
        pass


async def test_two_agents_of_one_store_are_refused(tmp_path: Path) -> None:
    async with an_agent(tmp_path):
        with pytest.raises(StoreLocked, match=str(os.getpid())):
            async with an_agent(tmp_path):
                pass


# Backup.


async def test_a_backup_beside_the_running_agent_is_whole(tmp_path: Path) -> None:
    target = tmp_path / "copy.db"
    async with an_agent(tmp_path) as agent:
        await agent.client.add("app", "app.x", "7")
        size = await asyncio.to_thread(back_up, tmp_path / "store.db", target, lambda *_: None)
        assert size == target.stat().st_size
        with pytest.raises(InvalidInput, match="exists"):
            back_up(tmp_path / "store.db", target, lambda *_: None)
        with pytest.raises(StoreLocked):
            restore(target, tmp_path / "store.db", force=True)
        await agent.client.add("app", "app.x", "1")
    assert (tmp_path / "store.index-0.db").exists()
    with pytest.raises(InvalidInput, match="--force"):
        restore(target, tmp_path / "store.db", force=False)
    restore(target, tmp_path / "store.db", force=True)
    assert (tmp_path / "store.db.before").exists()
    assert not (tmp_path / "store.index-0.db").exists()
    async with an_agent(tmp_path) as agent:
        assert [c.value for c in (await agent.client.counters("app")).counters] == ["7"]
    assert not [name for name in os.listdir(tmp_path) if ".part" in name]


async def test_a_damaged_backup_is_refused(tmp_path: Path) -> None:
    async with an_agent(tmp_path):
        pass
    target = tmp_path / "copy.db"
    back_up(tmp_path / "store.db", target, lambda *_: None)
    raw = bytearray(target.read_bytes())
    raw[8192:40_000] = bytes(31_808)
    target.write_bytes(raw)
    with pytest.raises(StoreError):
        restore(target, tmp_path / "store.db", force=True)
    (tmp_path / "text").write_text("no database, and long enough to be read as one" * 100)
    with pytest.raises(StoreCorrupt):
        restore(tmp_path / "text", tmp_path / "store.db", force=True, sums=False)
    with pytest.raises(StoreError):
        back_up(tmp_path / "none.db", tmp_path / "copy2.db", lambda *_: None)


# Commands.


async def test_once_does_what_is_due_and_ends(tmp_path: Path) -> None:
    async with FaultyRelay(events=[follow(i) for i in range(3)]) as relay:
        sync = '[[syncs]]\nname = "s"\nfilters = [{ kinds = [3] }]\n'
        config = parse(config_text(tmp_path, [relay.url], watch_text() + sync))
        assert await once(config, "") == 0
        asked = len([m for m in relay.received if m[0] == "COUNT"])
        assert asked
        assert await once(config, "") == 0
        assert len([m for m in relay.received if m[0] == "COUNT"]) == asked
        async with await SqliteStore.open(tmp_path / "store.db", migrations=[WATCHES]) as store:
            kept = await store.database.read(lambda c: points.series(c, "followers", most=9))
        assert {point.value for point in kept} == {3}  # two, where a step of the history ends
    async with an_agent(tmp_path, [relay.url], watch_text()) as agent:
        assert (await agent.client.store()).events == 3
    async with FaultyRelay(events=[follow(1)]) as relay:
        command = json.dumps(["sh", "-c", f"cat > {tmp_path}/told"])
        more = watch_text(f'alerts = [{{ when = "> 0", command = {command} }}]')
        assert await once(parse(config_text(tmp_path / "c", [relay.url], more)), "") == 0
    assert json.loads((tmp_path / "told").read_text())["value"] == 1
    dead = parse(config_text(tmp_path / "b", ["ws://127.0.0.1:1"], watch_text()))
    assert await once(dead, "") == 1


async def commanded(*args: str) -> Any:
    """What a command prints as JSON, run in a thread of its own."""
    process = await asyncio.create_subprocess_exec(
        *forks.command("agent"),
        *args,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    said, talk = await process.communicate()
    lines = [json.loads(line) for line in said.splitlines()]
    return process.returncode, lines[0] if len(lines) == 1 else lines, talk.decode()


async def test_commands_talk_to_the_running_agent(tmp_path: Path) -> None:
    async with (
        FaultyRelay(events=[follow(i) for i in range(3)]) as relay,
        an_agent(tmp_path, [relay.url], watch_text()) as agent,
    ):
        await agent.until(lambda w: w.answered == 1, "followers")
        code, told, _ = await commanded("status", "--json")
        assert (code, told["ready"], told["watches"]) == (0, True, 1)
        code, told, _ = await commanded("logs", "--newest", "1", "--json")
        assert (code, told["n"] > 0) == (0, True)
    code, told, talk = await commanded("status")
    assert code == 3
    assert "no agent is running" in talk


TABLES = [["status"], ["retention", "show"], ["retention", "run"], ["logs"]]


async def test_tables_for_people(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with an_agent(tmp_path):
        for words in TABLES:
            assert await asyncio.to_thread(run, words) == 0, words
    said = capsys.readouterr().out
    for text in ("nostr-agent", "no rules", "removing what is old", "started"):
        assert text in said


async def test_run_stops_in_order_on_sigterm_and_reads_again_on_sighup(tmp_path: Path) -> None:
    file = tmp_path / "agent.toml"
    file.write_text(config_text(tmp_path, []))
    async with spawned(file) as process:
        assert process.stderr is not None
        assert await said(process.stderr, "started")
        file.write_text(config_text(tmp_path, [], '[[watches]]\nname = "n"\nfilters = [{}]\n'))
        process.send_signal(signal.SIGHUP)
        assert await said(process.stderr, "reloaded")
        process.terminate()
        assert await said(process.stderr, "stopped")
        assert await process.wait() == 0


def a_source(settings: tuple[str, ...] = ()) -> tuple[ConfigReader, Path]:
    """What a run without --config reads, and where the user's file is."""
    file = config_path()
    file.parent.mkdir(parents=True, exist_ok=True)
    return ConfigReader(None, settings), file


async def test_a_file_that_is_gone_is_not_taken_as_no_file(tmp_path: Path) -> None:
    source, file = a_source()
    text = config_text(tmp_path, (), '[[watches]]\nname = "mine"\nfilters = [{}]\n')
    file.write_text(text)
    async with an_agent(tmp_path, text=source.read() and text) as agent:
        file.rename(tmp_path / "elsewhere")
        refused = await agent.service.reload(source.read)
        assert not refused.ok
        assert f"cannot read {file}" in refused.mistakes[0]
        assert "reload_refused" in agent.log.getvalue()
        assert [w.spec.name for w in (await agent.client.watches()).watches] == ["mine"]
        (tmp_path / "elsewhere").rename(file)
        assert (await agent.service.reload(source.read)).ok


def test_a_run_without_a_file_takes_one_that_comes_and_then_misses_it() -> None:
    source, file = a_source(("service.drain=5s",))
    assert source.read().config.relays == RelaysSection()
    file.write_text("[relay")
    with pytest.raises(InvalidConfig):
        source.read()
    file.unlink()
    assert source.read().config.service.drain == "5s"  # what was never read is not missed
    file.write_text('[relays]\ndefault = ["ws://relay.example"]\n')
    assert source.read().config.relays.default == ("ws://relay.example",)
    file.unlink()
    with pytest.raises(InvalidInput, match=f"cannot read {re.escape(str(file))}"):
        source.read()


async def test_run_says_what_is_wrong_with_its_configuration(tmp_path: Path) -> None:
    file = tmp_path / "agent.toml"
    for wrong in ("[stor]\nx = 1\n", '[[watches]]\nname = "n"\n'):
        file.write_text(config_text(tmp_path, [], wrong))
        async with spawned(file) as process:
            assert process.stderr is not None
            talk = await process.stderr.read()
            assert await process.wait() == 2
        assert b"agent.toml:" in talk


class spawned:
    """`nostr-agent run` as a process, ended when the block is left."""

    def __init__(self, file: Path) -> None:
        self._file = file

    async def __aenter__(self) -> asyncio.subprocess.Process:
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "agent", "run", "--config", str(self._file)),
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            stderr=asyncio.subprocess.PIPE,
        )
        return self._process

    async def __aexit__(self, *_: object) -> None:
        if self._process.returncode is None:
            self._process.kill()
            await self._process.wait()


async def said(stream: asyncio.StreamReader, event: str) -> dict[str, Any]:
    """The first line of the log about an event."""
    async with asyncio.timeout(30):
        async for line in stream:
            found: dict[str, Any] = json.loads(line)
            if found["event"] == event:
                return found
    raise AssertionError(f"it never said {event}")


# Relays by NIP-65.


async def test_a_watch_without_relays_asks_those_of_its_target(tmp_path: Path) -> None:
    author = signer(7)
    tags = tuple(("r", url) for url in ("wss://relay.invalid", "ws://127.0.0.1:9", "ws://10.0.0.1"))
    template = EventTemplate(kind=10_002, tags=tags, created_at=int(time.time()) - 10)
    relay_list = author.sign_now(template).event
    more = f'[[watches]]\nname = "them"\nquery = "followers"\ntarget = "{author.pubkey}"\n'
    async with FaultyRelay(events=[relay_list]) as indexer, FaultyRelay() as default:
        text = config_text(tmp_path, [default.url], more)
        text = text.replace("indexers = []", f'indexers = ["{indexer.url}"]')
        async with an_agent(tmp_path, text=text) as agent:
            watch = await agent.until(lambda w: w.failing == ("wss://relay.invalid",), "them")
            assert watch.asked == 1
            known = {relay.url for relay in (await agent.client.relays()).relays}
            assert not known & {"ws://127.0.0.1:9", "ws://10.0.0.1"}


async def test_a_watch_without_relays_and_a_count_say_which_step_failed(tmp_path: Path) -> None:
    """The sentences of `nostr-client count`: the event is unknown, its author has no list, …"""
    private = EventTemplate(kind=10_002, tags=(("r", "ws://10.0.0.1"),), created_at=1)
    listed = signer(7).sign_now(private).event
    asked = {
        "the event was not found": ("reactions", "ab" * 32),
        "author was found on the indexers": ("followers", signer(8).pubkey),
        "only relays that are not asked": ("followers", listed.pubkey),
    }
    async with FaultyRelay(events=[listed]) as indexer:
        text = config_text(tmp_path, [])
        text = text.replace("indexers = []", f'indexers = ["{indexer.url}"]')
        async with an_agent(tmp_path, text=text) as agent:
            for n, (words, (query, target)) in enumerate(asked.items()):
                spec = Watch(name=f"w{n}", query=query, target=target)
                await agent.client.add_watch(spec)
                await agent.until(
                    lambda w, words=words: any(words in t for t in w.warnings), f"w{n}"
                )
                with pytest.raises(ApiError, match=f"no relay to ask: .*{words}"):
                    await agent.client.count(schema.CountBody(query=query, target=target))
