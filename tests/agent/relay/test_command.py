"""`nostr-agent relay` as a person starts it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from agent.cli import run
from agent.relay.listen import parse_address
from nostr_client.errors import InvalidInput
from tests import forks
from tests.agent.relay.client import connect
from tests.agent.relay.kit import key, signed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

DEADLINE_S = 30
PLUG_IN = """
def short(event, context):
    return "" if len(event.content) < 5 else "blocked: too long"

def careless(event, context):
    return {"none": None, "no": False, "yes": True, "bare": "too bare"}[event.content]
"""


@asynccontextmanager
async def started(*args: str) -> AsyncIterator[tuple[asyncio.subprocess.Process, Any]]:
    """The running command and what it printed; interrupted at the end."""
    command = [*forks.fresh("agent"), "relay", "--listen", "127.0.0.1:0", "--json", *args]
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(DEADLINE_S):
            line = await process.stdout.readline()
        assert line, (await process.communicate())[1].decode()
        yield process, json.loads(line)
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGINT)
        async with asyncio.timeout(DEADLINE_S):
            await process.communicate()


async def test_serves_until_interrupted_and_keeps_what_it_took(tmp_path: Path) -> None:
    store = str(tmp_path / "store.db")
    event = signed()
    for number in (signal.SIGINT, signal.SIGTERM):
        async with started("--store", store) as (process, said):
            assert said["store"] == store
            assert 45 in said["supported_nips"]
            async with connect(said["url"]) as client:
                assert (await client.publish(event))[2] is True
                assert await client.stored({}) == [event.id]
                process.send_signal(number)
                assert await client.closed() == 1001
            async with asyncio.timeout(DEADLINE_S):
                assert await process.wait() == 0


async def test_a_second_one_on_the_same_store_names_the_first(tmp_path: Path) -> None:
    store = str(tmp_path / "store.db")
    async with started("--store", store) as (first, _):
        command = [sys.executable, "-m", "agent", "relay", "--listen", ":0", "--store", store]
        second = await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        async with asyncio.timeout(DEADLINE_S):
            out, err = await second.communicate()
        assert (second.returncode, out) == (1, b"")
        assert str(first.pid) in err.decode()
        assert len(err.decode().strip().splitlines()) == 1


async def test_features_and_policies_from_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.py").write_text(PLUG_IN, "utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    plug_in = ["--store", ":memory:", "--policy", "mine:short"]
    async with started(*plug_in) as (_, said), connect(said["url"]) as client:
        assert (await client.publish(signed(content="+")))[2] is True
        assert (await client.publish(signed(content="too long")))[3] == "blocked: too long"
    careless = ["--store", ":memory:", "--policy", "mine:careless"]
    async with started(*careless) as (_, said), connect(said["url"]) as client:
        for content, reason in [("none", "error: the write policy gave NoneType, not a reason"),
                                ("no", "error: the write policy gave bool, not a reason"),
                                ("yes", "error: the write policy gave bool, not a reason"),
                                ("bare", "blocked: too bare")]:  # fmt: skip
            assert (await client.publish(signed(content=content)))[2:] == [False, reason]
    options = ["--store", ":memory:", "--no-count", "--hello", "--write-key", key(1).pubkey]
    async with started(*options) as (_, said), connect(said["url"]) as client:
        assert await client.receive() == ["HELLO", {"count": False}]
        assert (await client.ask("COUNT", "q", {}))[2].startswith("unsupported:")
        assert (await client.publish(signed(1)))[2] is True
        assert (await client.ask("EVENT", signed(2)))[0] == "AUTH"
        assert (await client.receive())[3].startswith("auth-required:")


@pytest.mark.parametrize(
    "args",
    [
        ["--listen", "nonsense"],
        ["--listen", "127.0.0.1:99999"],
        ["--listen", "::1:80"],
        ["--listen", "0.0.0.0:0"],
        ["--write-key", "npub1nonsense"],
        ["--policy", "no_such_module:f"],
        ["--policy", "json:no_such_name"],
        ["--policy", "json"],
        ["--policy", "json:__name__"],
        ["--neg-reasons", "other"],
        ["--url", "ftp://relay.example"],
        ["--url", "foo"],
        ["--allow-origin", "foo"],
        ["--allow-origin", "https://app.example/path"],
        ["--allow-origin", "https://*"],
        ["--tls-cert", "/nowhere"],
    ],
)
def test_wrong_usage_is_one_line(args: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["relay", "--store", ":memory:", *args]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert len(captured.err.strip().splitlines()) == 1
    assert captured.err.startswith("nostr-agent: ")


def test_addresses() -> None:
    assert parse_address("127.0.0.1:4869") == ("127.0.0.1", 4869)
    assert parse_address(":0") == ("127.0.0.1", 0)
    assert parse_address("[::1]:80") == ("::1", 80)
    with pytest.raises(InvalidInput):
        parse_address("localhost")


def test_help_imports_no_server(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    assert "relay" in capsys.readouterr().out
