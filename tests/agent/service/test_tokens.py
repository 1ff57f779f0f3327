"""The API's tokens: what each scope may do, in which files they stand, how they are replaced."""

from __future__ import annotations

import asyncio
import re
import stat
from typing import TYPE_CHECKING

import aiohttp
import pytest

from agent.api import schema
from agent.api.address import reach
from agent.api.client import AgentClient, ApiError
from agent.api.contract import ROUTES
from agent.api.routes import JSON
from agent.api.schema import Scope
from agent.config.load import draft
from nostr_client.errors import InvalidInput
from tests.agent.service.kit import Running, an_agent, config_text

if TYPE_CHECKING:
    from pathlib import Path

    from agent.api.routes import Route

METHODS = ("GET", "POST", "PUT", "DELETE")


async def asked(agent: Running, method: str, path: str, token: str) -> tuple[int, str]:
    """Status, and the word of a refusal."""
    headers = {"Authorization": f"Bearer {token}"}
    url = agent.service.api.url + path
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.request(method, url) as response,
    ):
        if response.content_type != "application/json":
            return response.status, ""
        found = await response.json()
        return response.status, found.get("code", "") if isinstance(found, dict) else ""


def example(route: Route) -> str:
    """A path of a route; what it names is not there."""
    return re.sub(r"\{\w+\}", "nothing", route.path)


async def test_every_route_is_open_to_its_scope_and_those_above(tmp_path: Path) -> None:
    api = {"api": f'source_token_file = "{tmp_path / "sources"}"'}
    async with an_agent(tmp_path, sections=api) as agent:
        tokens = agent.service.tokens
        held = {
            Scope.SOURCE: tokens.source,
            Scope.READ: tokens.read,
            Scope.MANAGE: tokens.manage,
        }
        assert len(set(held.values())) == 3
        for route in (one for one in ROUTES if one.media == JSON):
            for scope, token in held.items():
                status, code = await asked(agent, route.method, example(route), token)
                is_refused = (status, code) == (403, "limited_token")
                assert is_refused is (scope < route.scope), (route.method, route.path, scope)
                assert status not in (401, 500), (route.method, route.path, scope)


def test_what_changes_something_needs_the_manage_token() -> None:
    """A route that is not a GET says so where it reads; none that is a GET manages."""
    others = [route for route in ROUTES if route.method != "GET"]
    readers = [route.path for route in others if route.scope < Scope.MANAGE]
    assert readers == ["/v1/streams/{stream}/recount"]
    assert all(route.scope <= Scope.READ for route in ROUTES if route.method == "GET")
    assert {route.scope for route in ROUTES} == set(Scope)


async def test_what_no_route_answers_needs_a_token_that_reads(tmp_path: Path) -> None:
    api = {"api": f'source_token_file = "{tmp_path / "sources"}"'}
    async with an_agent(tmp_path, sections=api) as agent:
        tokens = agent.service.tokens
        for path in ("/metrics", "/v1/openapi.json", "/v1/nothing", "/v1/watches/a/b/c"):
            assert await asked(agent, "GET", path, tokens.source) == (403, "limited_token")
            assert (await asked(agent, "GET", path, tokens.read))[0] in (200, 404)
        assert (await asked(agent, "PATCH", "/v1/watches", tokens.read))[0] == 405
        for path in ("/healthz", "/readyz"):
            assert (await asked(agent, "GET", path, "none"))[0] in (200, 503)


async def test_a_token_says_what_it_may_do(tmp_path: Path) -> None:
    async with an_agent(tmp_path) as agent:
        assert (await agent.client.access()).scope == "manage"
        async with AgentClient(agent.service.api.url, agent.service.tokens.read) as reader:
            assert (await reader.access()).scope == "read"
            assert (await reader.watches()).watches == ()
            with pytest.raises(ApiError, match="use the manage token"):
                await reader.run_retention()


async def test_the_tokens_stand_in_files_for_their_owner_alone(tmp_path: Path) -> None:
    async with an_agent(tmp_path) as agent:
        for name, token in (
            ("token", agent.service.tokens.manage),
            ("token.read", agent.service.tokens.read),
        ):
            assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
            assert (tmp_path / name).read_text().strip() == token
        url = agent.service.api.url
        assert reach(None, None) == (url, agent.service.tokens.manage)
        for api in (None, url):
            assert reach(api, None, read_only=True) == (url, agent.service.tokens.read)


@pytest.mark.parametrize("name", ["token", "token.read", "sources"])
async def test_a_token_that_others_can_read_is_refused(tmp_path: Path, name: str) -> None:
    api = {"api": f'source_token_file = "{tmp_path / "sources"}"'}
    (tmp_path / name).write_text("secret")
    (tmp_path / name).chmod(0o640)
    with pytest.raises(InvalidInput, match="can be read by others"):
        async with an_agent(tmp_path, sections=api):
            pass


async def reloaded(agent: Running, folder: Path) -> schema.Reloaded:
    """What SIGHUP does."""
    return await agent.service.reload(lambda: draft(config_text(folder, ()), "config"))


@pytest.mark.parametrize(("name", "key"), [("token", "manage"), ("token.read", "read")])
async def test_a_removed_file_is_a_new_token_at_the_next_reload(
    tmp_path: Path, name: str, key: str
) -> None:
    """What came in by the old one ends, the open event stream too; other tokens stay."""
    async with an_agent(tmp_path) as agent:
        old = agent.service.tokens
        url = agent.service.api.url
        async with AgentClient(url, getattr(old, key)) as client:
            stream = client.events()
            await anext(stream)
            (tmp_path / name).unlink()
            assert (await reloaded(agent, tmp_path)).ok
            async with asyncio.timeout(10):
                last = [message async for _, message in stream][-1]
            assert isinstance(last, schema.StreamEnd)
            assert "tokens have changed" in last.reason
            with pytest.raises(ApiError, match="wrong"):
                await client.status()
        new = agent.service.tokens
        changed = {field for field in old._fields if getattr(old, field) != getattr(new, field)}
        assert changed == {key}
        async with AgentClient(*reach(None, None, read_only=key == "read")) as client:
            assert (await client.status()).pid


async def test_a_reload_that_finds_an_open_file_changes_nothing(tmp_path: Path) -> None:
    async with an_agent(tmp_path) as agent:
        (tmp_path / "token.read").chmod(0o644)
        found = await reloaded(agent, tmp_path)
        assert not found.ok
        assert "can be read by others" in found.mistakes[0]
        assert (await agent.client.status()).pid
