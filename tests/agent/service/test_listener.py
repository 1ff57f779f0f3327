"""The API before the store is open: it lives, and says that the agent is starting."""

from __future__ import annotations

from typing import TYPE_CHECKING

import aiohttp
import pytest

from agent.api.client import AgentClient, ApiError
from agent.config.model import ApiSection
from agent.service.run import front_door
from nostr_client.errors import InvalidInput, NetworkError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def section(tmp_path: Path) -> ApiSection:
    token = str(tmp_path / "token")
    return ApiSection(listen="127.0.0.1:0", hosts=("agent.example",), token_file=token)


async def test_health_is_reported_and_everything_else_is_starting(section: ApiSection) -> None:
    async with (
        front_door(section) as door,
        AgentClient(door.api.url, door.tokens.manage) as client,
        aiohttp.ClientSession(door.api.url) as http,
    ):
        assert (await client.ready()).reasons == ("starting",)
        with pytest.raises(ApiError, match="starting") as refused:
            await client.watches()
        assert refused.value.code == "starting"
        for host, status in (("Agent.Example:80", 200), ("evil.example", 403)):
            async with http.get("/healthz", headers={"Host": host}) as answer:
                assert answer.status == status
        async with http.get("/readyz") as answer:
            assert answer.status == 503


async def test_the_token_is_readable_by_its_owner_alone(
    section: ApiSection, tmp_path: Path
) -> None:
    async with front_door(section):
        assert (tmp_path / "token").stat().st_mode & 0o777 == 0o600


async def test_an_address_in_use_is_an_error(section: ApiSection) -> None:
    async with front_door(section) as door:
        with pytest.raises(NetworkError):
            async with front_door(ApiSection(listen=f"127.0.0.1:{door.api.port}")):
                pass
    with pytest.raises(InvalidInput):
        async with front_door(ApiSection(listen="127.0.0.1:99999")):
            pass
