"""Secrets in URLs and arguments: no answer, table, log line or `--json` shows one of them."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
from click.testing import CliRunner

from agent.api.client import AgentClient
from agent.api.contract import ROUTES
from agent.api.routes import STREAM
from agent.cli import cli as agent_cli
from agent.config import parse
from nostr_client.cli import app
from nostr_client.errors import InvalidInput, host_alone
from tests.agent.service.kit import Running, an_agent, config_text, eventually
from tests.agent.service.test_alerts_delivered import watch_text
from tests.faulty_relay import FaultyRelay
from tests.rights import secret_file
from tests.worlds import follow

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import click

    from agent.api.routes import Route

SECRET = re.compile(r"s3cr3t-[a-z-]+")
"""What every secret of this configuration looks like, and nothing else of it."""


def configuration(folder: Path, relay: str) -> str:
    """An agent all of whose URLs carry user, password, a path and a query that are secret.

    Nothing of it works: each thing fails in its own words, which must not name them either.
    """
    hook = "http://s3cr3t-user:s3cr3t-password@127.0.0.1:1/s3cr3t-path?key=s3cr3t-query"
    command = ["/nowhere/at/all", "--header=Authorization: s3cr3t-argument"]
    alerts = [
        {"when": ">= 1", "webhook": hook, "format": "ntfy"},
        {"when": "> 0", "command": command},
        {"when": "< 6", "command": [sys.executable, "-c", "1/0", "s3cr3t-argument"]},
    ]
    token = secret_file(folder / "other", "s3cr3t-token")
    more = f"""
{watch_text(alerts)}
[[counters.streams]]
name = "app"
subjects = ["app.>"]
[[counters.streams]]
name = "total"
subjects = []
[[counters.sources]]
name = "there"
stream = "total"
of = "app"
agent = "http://127.0.0.1:1/s3cr3t-path?key=s3cr3t-query"
token_file = "{token}"
interval = "200ms"
[[counters.push]]
name = "hub"
stream = "app"
servers = ["nats://s3cr3t-user:s3cr3t-password@127.0.0.1:1"]
agent = "me"
interval = "200ms"
"""
    return config_text(folder, [relay], more)


def secrets_in(text: str) -> set[str]:
    return set(SECRET.findall(text))


async def answer(agent: Running, method: str, path: str, **how: Any) -> str:
    headers = {"Authorization": f"Bearer {agent.service.token}"}
    url = agent.service.api.url + path
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.request(method, url, **how) as response,
    ):
        return await response.text()


def paths(route: Route) -> list[str]:
    """The path of a route for each thing of this agent that it may be about."""
    found = [route.path]
    known = {"name": ("my_followers", "there", "hub", "nats:hub"), "stream": ("app", "total")}
    for key, values in known.items():
        found = [one.replace(f"{{{key}}}", value) for one in found for value in values]
    return list(dict.fromkeys(found))


def commands(group: click.Group, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every command with `--json` that asks without being given anything."""
    import click

    context = click.Context(group)
    for name in group.list_commands(context):
        one = group.get_command(context, name)
        if isinstance(one, click.Group):
            yield from commands(one, (*above, name))
        elif one is not None:
            options = {option for p in one.params for option in p.opts}
            needs = any(p.required for p in one.params if isinstance(p, click.Argument))
            if "--json" in options and not needs:
                yield (*above, name)


LOOKING = {"list", "show", "status", "logs", "check"}
"""The last words of commands that only look: others change things, or stay."""


async def test_nothing_that_is_shown_has_a_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.alerts.dispatcher.DELAYS_S", (0.0, 0.01))
    async with FaultyRelay(events=[follow(i) for i in range(3)]) as relay:
        text = configuration(tmp_path, relay.url)
        (tmp_path / "agent.toml").write_text(text)
        assert secrets_in(text), "there is something to find"
        async with an_agent(tmp_path, text=text) as agent:
            alerts = agent.service.agent.alerts

            async def all_failed() -> bool:
                links = {one.name: one.state for one in agent.service.agent.links.all()}
                return alerts.given_up == 3 and "waiting" not in links.values()

            stream = agent.client.events()
            _, snapshot = await anext(stream)
            await eventually(all_failed)
            assert not secrets_in(repr(snapshot))
            asked = 0
            for route in ROUTES:
                if route.path == "/v1/store/rebuild" or route.media == STREAM:
                    continue
                for path in paths(route):
                    if route.method != "DELETE":
                        asked += 1
                        body = {"data": b"{}"} if route.body is not None else {}
                        found = await answer(agent, route.method, path, **body)
                        assert not secrets_in(found), (route.method, path)
            assert asked > 40
            await looked_at(tmp_path, text)
        assert not secrets_in(agent.log.getvalue())
        assert "alert_given_up" in agent.log.getvalue()


async def looked_at(folder: Path, text: str) -> None:
    """Run every command that looks, for people and with --json, while the agent runs."""
    asked = answered = 0
    for module, group in (("agent", agent_cli), ("nostr_client", app.cli)):
        for words in commands(group):
            if words[-1] not in LOOKING:
                continue
            options = ["--store", str(folder / "store.db")] if module == "nostr_client" else []
            if words == ("check",):
                options = ["--config", str(folder / "agent.toml")]
            for form in ([], ["--json"]):
                asked += 1
                arguments = [*words, *options, *form]
                done = await asyncio.to_thread(CliRunner().invoke, group, arguments)
                answered += done.exit_code == 0
                said = f"{done.output} {done.exception!r}"
                assert not secrets_in(said), (module, words, form)
    assert answered > 0.8 * asked >= 16


MISTAKES = [
    'default = ["wss://s3cr3t-user:s3cr3t-password@relay.example/"]',
    'trusted = ["wss://s3cr3t-user@relay.example/"]',
    'proxy = "ftp://s3cr3t-user:s3cr3t-password@127.0.0.1:1/s3cr3t-path"',
]


SOURCE = """
[[counters.sources]]
name = "there"
stream = "app"
token_file = "token"
agent = "http://s3cr3t-user:s3cr3t-password@127.0.0.1:1/s3cr3t-path"
"""


async def test_the_url_of_another_agent_with_a_user_is_refused() -> None:
    url = "http://s3cr3t-user:s3cr3t-password@127.0.0.1:1/s3cr3t-path"
    for make in (lambda: parse(SOURCE), lambda: AgentClient(url, "token")):
        with pytest.raises(InvalidInput, match="has a user or password") as refused:
            make()
        assert not secrets_in(str(refused.value))


@pytest.mark.parametrize("line", MISTAKES)
async def test_a_mistake_in_a_url_is_told_without_its_secrets(tmp_path: Path, line: str) -> None:
    """Relays' URLs with a user are refused; a proxy that cannot be used is not repeated."""
    path = tmp_path / "agent.toml"
    path.write_text(f"[relays]\n{line}\n")
    for form in ([], ["--json"]):
        arguments = ["check", "--config", str(path), *form]
        done = await asyncio.to_thread(CliRunner().invoke, agent_cli, arguments)
        assert done.exit_code == 2, done.output
        assert "relays." in done.output
        assert not secrets_in(done.output)


async def test_a_relay_with_a_user_is_refused_by_the_api_without_repeating_it(
    tmp_path: Path,
) -> None:
    url = "wss://s3cr3t-user:s3cr3t-password@relay.example"
    async with an_agent(tmp_path) as agent:
        watch = {"name": "a", "filters": [{"kinds": [1]}], "relays": [url]}
        sync = {"name": "a", "filters": [{"kinds": [1]}], "relays": [url]}
        for path, body in (("/v1/watches", watch), ("/v1/syncs", sync), ("/v1/counts", sync)):
            found = await answer(agent, "POST", path, data=json.dumps(body))
            assert json.loads(found)["code"] == "invalid"
            assert not secrets_in(found)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://user:pass@Hook.example/T0ken?key=1#x", "hook.example"),
        ("http://127.0.0.1:8080/hook", "127.0.0.1:8080"),
        ("http://[::1]:80/hook", "[::1]:80"),
        ("socks5h://user:pass@proxy:1080", "proxy:1080"),
        ("http://[T0ken]/x", "…"),
        ("http://host:T0ken/x", "…"),
        ("T0ken", "…"),
        ("", "…"),
    ],
)
def test_the_host_alone(url: str, shown: str) -> None:
    assert host_alone(url) == shown
