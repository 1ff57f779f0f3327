"""Agents that source each other: over their APIs, over Nostr, and what stops them."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from agent.api.client import AgentClient, ApiError
from agent.config.load import draft
from agent.maintenance.backup import back_up, restore
from agent.relay.server import serve
from nostr_client.cli.app import run
from nostr_client.counters.sqlite.store import SqliteCounterStore
from nostr_client.store.sqlite import SqliteStore
from tests.agent.service.kit import Running, an_agent, config_text, eventually
from tests.proxied import unused_port
from tests.rights import secret_file
from tests.worlds import signer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from agent.api import schema


def stream(name: str, *subjects: str) -> str:
    listed = ", ".join(f'"{one}"' for one in subjects)
    return f'[[counters.streams]]\nname = "{name}"\nsubjects = [{listed}]\n'


def of_agent(name: str, into: str, other: Running, folder: Path, src: str, dest: str) -> str:
    return f"""
[[counters.sources]]
name = "{name}"
stream = "{into}"
of = "app"
agent = "{other.service.api.url}"
token_file = "{folder / "token"}"
transforms = [{{ src = "{src}", dest = "{dest}" }}]
interval = "200ms"
"""


@asynccontextmanager
async def agent_of(
    folder: Path, more: str, relays: tuple[str, ...] = (), key: int | None = None
) -> AsyncIterator[Running]:
    async with an_agent(folder, text=text_of(folder, more, relays, key)) as agent:
        yield agent


def text_of(folder: Path, more: str, relays: tuple[str, ...], key: int | None) -> str:
    folder.mkdir(exist_ok=True)
    identity = ""
    if key is not None:
        (folder / "key").write_text(signer(key).nsec())
        (folder / "key").chmod(0o600)
        identity = f'[identity]\nkey_file = "{folder / "key"}"\n'
    return config_text(folder, relays, identity + more)


async def link(client: AgentClient, name: str) -> schema.CounterLink:
    return next(one for one in (await client.links()).links if one.name == name)


async def value(client: AgentClient, of: str, subject: str) -> str:
    found = (await client.counters(of, subject)).counters
    return found[0].value if found else ""


async def until_value(client: AgentClient, of: str, subject: str, wanted: str) -> None:
    async def good() -> bool:
        return await value(client, of, subject) == wanted

    try:
        await eventually(good)
    except TimeoutError:
        found = await value(client, of, subject)
        raise AssertionError(f"{subject} is {found}: {(await client.links()).links}") from None


async def until_state(client: AgentClient, name: str, state: str) -> schema.CounterLink:
    async def good() -> bool:
        return (await link(client, name)).state == state

    try:
        await eventually(good)
    except TimeoutError:
        raise AssertionError(str(await link(client, name))) from None
    return await link(client, name)


async def test_two_tiers_over_http_each_read_their_total(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        leaf = await stack.enter_async_context(
            agent_of(tmp_path / "es", stream("app", "count.es.>"))
        )
        await leaf.client.add("app", "count.es.hits", "5")
        middle = await stack.enter_async_context(
            agent_of(
                tmp_path / "eu",
                stream("app", "count.eu.>")
                + of_agent("es", "app", leaf, tmp_path / "es", "count.es.*", "count.eu.$1"),
            )
        )
        await middle.client.add("app", "count.eu.hits", "10")
        top = await stack.enter_async_context(
            agent_of(
                tmp_path / "top",
                stream("total")
                + of_agent("eu", "total", middle, tmp_path / "eu", "count.eu.*", "count.$1"),
            )
        )
        await until_value(top.client, "total", "count.hits", "15")
        await leaf.client.add("app", "count.es.hits", "1")
        await until_value(top.client, "total", "count.hits", "16")
        assert await value(middle.client, "app", "count.eu.hits") == "16"
        assert await value(leaf.client, "app", "count.es.hits") == "6"
        found = await until_state(top.client, "eu", "ok")
        assert (found.direction, found.via, found.lag, found.subjects) == ("in", "agent", 0, 1)
        assert (found.last_subject, found.last_value) == ("count.eu.hits", "16")
        (counter,) = (await top.client.counters("total")).counters
        assert counter.sources == {"eu": {"count.eu.hits": "16"}}
        metrics = top.service.agent.metrics.text()
        assert 'counter_link_state{direction="in",link="eu",state="ok",via="agent"} 1.0' in metrics


async def test_a_cycle_of_agents_is_refused_with_its_path(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        one = await stack.enter_async_context(agent_of(tmp_path / "a", stream("app", "a.>")))
        two = await stack.enter_async_context(
            agent_of(
                tmp_path / "b",
                stream("app", "b.>") + of_agent("a", "app", one, tmp_path / "a", ">", ">"),
            )
        )
        await one.client.add("app", "a.hits", "1")
        await until_value(two.client, "app", "a.hits", "1")
        more = stream("app", "a.>") + of_agent("b", "app", two, tmp_path / "b", ">", ">")
        text = config_text(tmp_path / "a", (), more)
        await one.service.reload(lambda: draft(text, "config"))
        found = await until_state(one.client, "b", "stopped")
        assert "cycle" in found.why
        assert len(found.path) == 3
        assert not found.confirmable
        with pytest.raises(ApiError, match="no confirmation"):
            await one.client.confirm_link("b")
        assert await value(one.client, "app", "a.hits") == "1"


async def test_an_agent_that_is_away_is_failing_and_comes_back(tmp_path: Path) -> None:
    folder = tmp_path / "leaf"
    async with AsyncExitStack() as stack:
        async with agent_of(folder, stream("app", "x.>")) as leaf:
            await leaf.client.add("app", "x.y", "3")
            top = await stack.enter_async_context(
                agent_of(
                    tmp_path / "top",
                    stream("total") + of_agent("leaf", "total", leaf, folder, ">", ">"),
                )
            )
            await until_value(top.client, "total", "x.y", "3")
            port = leaf.service.api.port
        await until_state(top.client, "leaf", "failing")
        text = config_text(folder, (), stream("app", "x.>")).replace(
            'listen = "127.0.0.1:0"\ntoken_file', f'listen = "127.0.0.1:{port}"\ntoken_file'
        )
        async with an_agent(folder, text=text) as leaf:
            await leaf.client.add("app", "x.y", "4")
            await top.client.run_link("leaf")
            await until_value(top.client, "total", "x.y", "7")
            assert (await until_state(top.client, "leaf", "ok")).why == ""


async def test_a_wrong_token_is_told(tmp_path: Path) -> None:
    async with agent_of(tmp_path / "leaf", stream("app", "x.>")) as leaf:
        (tmp_path / "other").mkdir()
        secret_file(tmp_path / "other" / "token", "wrong")
        more = stream("total") + of_agent("leaf", "total", leaf, tmp_path / "other", ">", ">")
        async with agent_of(tmp_path / "top", more) as top:
            found = await until_state(top.client, "leaf", "failing")
            assert "token" in found.why
            (tmp_path / "other" / "token").write_text(leaf.service.token)
            await leaf.client.add("app", "x.y", "4")
            await top.client.run_link("leaf")
            await until_value(top.client, "total", "x.y", "4")


async def test_a_token_for_sources_reads_streams_and_nothing_else(tmp_path: Path) -> None:
    folder = tmp_path / "leaf"
    token = tmp_path / "source.token"
    text = text_of(folder, stream("app", "x.>"), (), None).replace(
        "[api]\n", f'[api]\nsource_token_file = "{token}"\n'
    )
    async with an_agent(folder, text=text) as leaf:
        await leaf.client.add("app", "x.y", "3")
        more = stream("total") + of_agent("leaf", "total", leaf, folder, ">", ">").replace(
            str(folder / "token"), str(token)
        )
        async with agent_of(tmp_path / "top", more) as top:
            await until_value(top.client, "total", "x.y", "3")
        limited = await asyncio.to_thread(token.read_text)
        async with AgentClient(leaf.service.api.url, limited.strip()) as client:
            assert (await client.messages("app")).last_seq == 1
            for ask in (client.status, client.links, client.streams):
                with pytest.raises(ApiError, match="nothing else"):
                    await ask()
            with pytest.raises(ApiError, match="nothing else"):
                await client.add("app", "x.y", "1")


PUBLISH = """
[[counters.publish]]
stream = "app"
interval = "200ms"
{readers}
"""


def over_nostr(name: str, key: int, src: str = ">", dest: str = ">") -> str:
    return f"""
[[counters.sources]]
name = "{name}"
stream = "total"
of = "app"
pubkey = "{signer(key).pubkey}"
transforms = [{{ src = "{src}", dest = "{dest}" }}]
interval = "200ms"
"""


@asynccontextmanager
async def a_relay() -> AsyncIterator[str]:
    async with await SqliteStore.open(":memory:") as store, serve(store, port=0) as server:
        yield server.url


@pytest.mark.parametrize("sealed", [False, True], ids=["open", "encrypted"])
async def test_over_nostr_values_flow_and_restarts_add_nothing(
    tmp_path: Path, sealed: bool
) -> None:
    readers = f'readers = ["{signer(92).pubkey}"]' if sealed else ""
    publishing = stream("app", "x.>") + PUBLISH.format(readers=readers)
    async with a_relay() as url:
        async with agent_of(tmp_path / "leaf", publishing, (url,), key=91) as leaf:
            await leaf.client.add("app", "x.y", "5")
            async with agent_of(
                tmp_path / "top", stream("total") + over_nostr("leaf", 91), (url,), key=92
            ) as top:
                await until_value(top.client, "total", "x.y", "5")
                await leaf.client.add("app", "x.y", "2")
                await until_value(top.client, "total", "x.y", "7")
                out = await until_state(leaf.client, "nostr:app", "ok")
                assert (out.peer, out.last_value) == ("1 of 1 relay", "7")
        async with (
            agent_of(tmp_path / "leaf", publishing, (url,), key=91) as leaf,
            agent_of(
                tmp_path / "top", stream("total") + over_nostr("leaf", 91), (url,), key=92
            ) as top,
        ):
            await leaf.client.add("app", "x.y", "1")
            await until_value(top.client, "total", "x.y", "8")
            found = await until_state(top.client, "leaf", "ok")
            assert (found.via, found.subjects, found.gaps) == ("nostr", 1, 0)


async def test_what_is_encrypted_to_others_is_not_read(tmp_path: Path) -> None:
    publishing = stream("app", "x.>") + PUBLISH.format(readers=f'readers = ["{signer(93).pubkey}"]')
    async with (
        a_relay() as url,
        agent_of(tmp_path / "leaf", publishing, (url,), key=91) as leaf,
        agent_of(tmp_path / "top", stream("total") + over_nostr("leaf", 91), (url,), key=92) as top,
    ):
        await leaf.client.add("app", "x.y", "5")
        found = await until_state(top.client, "leaf", "failing")
        assert "not to this agent's key" in found.why
        assert await value(top.client, "total", "x.y") == ""


async def test_a_sync_brings_what_is_sourced(tmp_path: Path) -> None:
    """The sourcing agent asks no relay for it: its own store has the event."""
    sync = f"""
[[syncs]]
name = "counters"
filters = [{{ kinds = [30078], authors = ["{signer(91).pubkey}"] }}]
relays = ["RELAY"]
interval = "10s"
"""
    publishing = stream("app", "x.>") + PUBLISH.format(readers="")
    async with a_relay() as url, a_relay() as elsewhere:
        more = stream("total") + over_nostr("leaf", 91) + sync.replace("RELAY", url)
        more = more.replace('interval = "200ms"', 'interval = "1h"')  # its arrival is noticed
        async with (
            agent_of(tmp_path / "leaf", publishing, (url,), key=91) as leaf,
            agent_of(tmp_path / "top", more, (elsewhere,)) as top,
        ):
            await leaf.client.add("app", "x.y", "5")
            await until_value(top.client, "total", "x.y", "5")


async def test_a_restored_agent_is_noticed_and_waits_for_a_word(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Even where the restored store has counted further than was read, without an agent."""
    folder, port = tmp_path / "leaf", unused_port()
    text = text_of(folder, stream("app", "x.>"), (), None).replace(
        'listen = "127.0.0.1:0"\ntoken_file', f'listen = "127.0.0.1:{port}"\ntoken_file'
    )
    backup, store = tmp_path / "backup.db", folder / "store.db"
    async with AsyncExitStack() as stack:
        async with an_agent(folder, text=text) as leaf:
            await leaf.client.add("app", "x.y", "10")
            await asyncio.to_thread(back_up, store, backup, lambda done, of: None)
            await leaf.client.add("app", "x.y", "10")
            more = stream("total") + of_agent("leaf", "total", leaf, folder, ">", ">")
            top = await stack.enter_async_context(agent_of(tmp_path / "top", more))
            await until_value(top.client, "total", "x.y", "20")
        await asyncio.to_thread(restore, backup, store, force=True)
        async with await SqliteCounterStore.open(store) as alone:
            for _ in range(5):
                await (await alone.counters("app")).add("x.y", 1)
        async with an_agent(folder, text=text):
            found = await until_state(top.client, "leaf", "stopped")
            assert "x.y from 20 to 15" in found.why
            assert found.confirmable
            assert await value(top.client, "total", "x.y") == "20"
            token = str(tmp_path / "top" / "token")
            where = ("--api", top.service.api.url, "--token-file", token)
            assert await asyncio.to_thread(run, ["counter", "link", "list", *where]) == 0
            assert "stopped" in capsys.readouterr().out
            assert await asyncio.to_thread(run, ["counter", "link", "confirm", "leaf", *where]) == 0
            await until_value(top.client, "total", "x.y", "15")
            assert await asyncio.to_thread(run, ["counter", "link", "run", "leaf", *where]) == 0
            assert await asyncio.to_thread(run, ["counter", "link", "run", "none", *where]) == 2
            assert await asyncio.to_thread(run, ["counter", "link", "list", "--json", *where]) == 0
            assert '"state":"ok"' in capsys.readouterr().out.replace(" ", "")
