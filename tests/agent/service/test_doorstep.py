"""What a supervisor hears while the agent's code is still being loaded."""

from __future__ import annotations

import json
import socket
import urllib.error
import urllib.request
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any

import pytest

from agent.api.client import AgentClient
from agent.config.model import ApiSection
from agent.service.doorstep import AT_ONCE, answering
from agent.service.front import front_door
from nostr_client.errors import InvalidInput, NetworkError
from nostr_client.places import token_path

if TYPE_CHECKING:
    from pathlib import Path

SECTION = ApiSection(listen="127.0.0.1:0", hosts=("agent.example",))


def asked(port: int, path: str, host: str = "", method: str = "GET") -> tuple[int, Any]:
    url = f"http://127.0.0.1:{port}{path}"
    request = urllib.request.Request(url, headers={"Host": host} if host else {}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=5) as response:
            return response.status, json.loads(response.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


def test_health_is_told_and_everything_else_is_starting() -> None:
    with answering(SECTION) as step, closing(step.listener):
        port = step.listener.getsockname()[1]
        code, told = asked(port, "/healthz")
        assert (code, told["alive"]) == (200, True)
        assert token_path().stat().st_mode & 0o777 == 0o600
        assert asked(port, "/healthz", "Agent.Example:80")[0] == 200
        assert asked(port, "/healthz", "evil.example")[1]["code"] == "foreign_host"
        assert asked(port, "/readyz") == (503, {"ready": False, "reasons": ["starting"]})
        for method in ("GET", "POST", "DELETE"):
            code, told = asked(port, "/v1/watches", method=method)
            assert (code, told["code"]) == (503, "starting")


def test_a_crowd_that_says_nothing_does_not_hold_threads() -> None:
    with answering(SECTION) as step, closing(step.listener), ExitStack() as stack:
        address = step.listener.getsockname()
        mute = [stack.enter_context(socket.create_connection(address)) for _ in range(3 * AT_ONCE)]
        turned_away = 0
        for one in mute[AT_ONCE:]:
            one.settimeout(5)
            turned_away += one.recv(1) == b""
        assert turned_away == 2 * AT_ONCE


async def test_the_api_takes_over_who_is_already_connected(tmp_path: Path) -> None:
    section = ApiSection(listen="127.0.0.1:0", token_file=str(tmp_path / "token"))
    with answering(section) as step:
        began = step.since
    with socket.create_connection(step.listener.getsockname()) as early:
        async with front_door(section, step) as door:
            assert door.api.port == step.listener.getsockname()[1]
            early.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            async with AgentClient(door.api.url, door.token) as client:
                assert (await client.ready()).reasons == ("starting",)
            assert began == step.since
            early.settimeout(5)
            assert early.recv(100).startswith(b"HTTP/1.1 200 OK")


def test_an_address_in_use_is_told() -> None:
    with answering(SECTION) as step, closing(step.listener):
        port = step.listener.getsockname()[1]
        with pytest.raises(NetworkError), answering(ApiSection(listen=f"127.0.0.1:{port}")):
            pass
    with pytest.raises(InvalidInput), answering(ApiSection(listen="127.0.0.1:99999")):
        pass
