"""`agent.json`, by which commands find the agent: the first one's until it ends."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
from typing import TYPE_CHECKING

import pytest

from agent.api.address import addresses, reach
from agent.cli import run
from agent.service.process.runfile import runfile
from nostr_client.errors import InvalidInput, NetworkError
from nostr_client.paths import addresses_path, token_path
from nostr_client.store.file.connect import WriterLock
from tests import forks
from tests.agent.service.kit import an_agent, config_text
from tests.commands import COMMANDS
from tests.rights import secret_file

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def folder(parent: Path, name: str) -> Path:
    made = parent / name
    made.mkdir()
    return made


async def test_a_second_agent_leaves_the_file_to_the_first(tmp_path: Path) -> None:
    one, two = folder(tmp_path, "one"), folder(tmp_path, "two")
    async with an_agent(one) as first:
        found = addresses()
        assert found.api == first.service.api.url
        async with an_agent(two) as second:
            assert addresses() == found
            url = second.service.api.url
            assert f"--api {url} --token-file {two / 'token'}" in second.log.getvalue()
            assert str(os.getpid()) in second.log.getvalue()
            assert reach(url, two / "token") == (url, second.service.token)
        assert addresses() == found
        assert reach(None, None) == (found.api, first.service.token)
    with pytest.raises(NetworkError, match="no agent is running"):
        addresses()
    async with an_agent(two) as second:  # what an ended agent had is free again
        assert addresses().api == second.service.api.url


async def test_of_several_agents_the_configuration_names_the_one_that_is_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, two = folder(tmp_path, "one"), folder(tmp_path, "two")
    async with an_agent(one) as first, an_agent(two) as second:
        for agent, place in ((first, one), (second, two)):
            listen = agent.service.api.url.removeprefix("http://")
            free, taken = (f'[api]\nlisten = "{each}"' for each in ("127.0.0.1:0", listen))
            file = place / "agent.toml"
            file.write_text(config_text(place, []).replace(free, taken))
            code = await asyncio.to_thread(run, ["status", "--json", "-c", str(file)])
            assert code == 0
            assert json.loads(capsys.readouterr().out)["store"] == str(place / "store.db")
        file.write_text(config_text(two, []))
        assert await asyncio.to_thread(run, ["reload", "-c", str(file)]) == 2
        assert "--api" in capsys.readouterr().err
        both = ["reload", "-c", str(file), "--api", second.service.api.url]
        assert await asyncio.to_thread(run, both) == 2


def test_every_command_that_asks_an_agent_can_name_it_by_its_configuration() -> None:
    asking = {
        name: {option for one in command.params for option in one.opts}
        for name, command in COMMANDS.items()
        if name.startswith("nostr-agent ")
    }
    found = {name: options for name, options in asking.items() if "--api" in options}
    assert {"nostr-agent status", "nostr-agent reload", "nostr-agent logs"} <= found.keys()
    assert all({"--config", "-c", "--token-file"} <= options for options in found.values())


async def test_a_file_that_a_killed_agent_left_is_replaced(tmp_path: Path) -> None:
    addresses_path().parent.mkdir(parents=True)
    dead = {"pid": os.getpid(), "api": "http://127.0.0.1:1", "relay": "", "token": "x"}
    addresses_path().write_text(json.dumps(dead))
    async with an_agent(tmp_path) as agent:
        assert addresses().api == agent.service.api.url


def test_a_second_agent_of_one_store_says_how_to_look_at_the_first(tmp_path: Path) -> None:
    config = tmp_path / "agent.toml"
    config.write_text(config_text(tmp_path, []))
    lock = WriterLock(tmp_path / "store.db")
    try:
        command = [*forks.command("agent"), "run", "--config", str(config)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    finally:
        lock.release()
    said = done.stderr
    assert done.returncode == 1
    assert f"is being written by process {os.getpid()}" in said
    assert "it runs already" in said
    assert "`nostr-agent status`" in said
    assert "no command for this" not in said


def test_a_url_alone_goes_with_no_other_agents_token(tmp_path: Path) -> None:
    addresses_path().parent.mkdir(parents=True)
    secret_file(tmp_path / "theirs", "theirs")
    there = {"pid": 1, "api": "http://127.0.0.1:11", "relay": "", "token": str(tmp_path / "theirs")}
    addresses_path().write_text(json.dumps(there))
    mine = "http://127.0.0.1:12"
    with pytest.raises(InvalidInput, match="--token-file"):
        reach(mine, None)
    token_path().parent.mkdir(parents=True, exist_ok=True)
    secret_file(token_path(), "mine\n")
    assert reach(mine, None) == (mine, "mine")
    for elsewhere in (
        "http://agent.example:11",
        "https://192.0.2.1",
        "http://localhost.example:11",
    ):
        with pytest.raises(InvalidInput, match="another machine"):
            reach(elsewhere, None)
        assert reach(elsewhere, token_path()) == (elsewhere, "mine")
    assert reach("http://localhost:11", None) == ("http://localhost:11", "theirs")
    addresses_path().write_text("{")
    assert reach(mine, None) == (mine, "mine")


@pytest.fixture
def listening() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        yield f"127.0.0.1:{taken.getsockname()[1]}"


def test_an_address_in_use_is_told_with_the_agent_that_has_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], listening: str
) -> None:
    from agent.config import parse
    from agent.log import Log

    file = tmp_path / "agent.toml"
    file.write_text(config_text(tmp_path, []))
    command = ["run", "-c", str(file), "--set", f"api.listen={listening}"]
    assert run(command) == 1
    assert "an agent runs there" not in capsys.readouterr().err
    section = parse(file.read_text()).api
    with runfile(f"http://{listening}", "", section, Log(lambda: 0.0)):
        assert run(command) == 1
        said = capsys.readouterr().err
        assert f"an agent runs there already, process {os.getpid()}" in said
        assert "--set api.listen" in said
    relay = ["relay", "--listen", listening, "--store", str(tmp_path / "other.db")]
    assert run(relay) == 1
    assert "--listen HOST:PORT" in capsys.readouterr().err
