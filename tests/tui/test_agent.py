"""Against a real agent on local relays: numbers move, and it may go and come back."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import time
from contextlib import AsyncExitStack
from tempfile import TemporaryFile
from typing import TYPE_CHECKING
from unittest.mock import Mock

import msgspec
import pytest

from agent.api.address import RunFile, reach
from agent.relay.server import serve
from nostr_client.codecs.event import EventTemplate
from nostr_client.errors import InvalidInput, NetworkError
from nostr_client.network.pool import RelayPool
from nostr_client.paths import addresses_path
from nostr_client.store.sqlite import SqliteStore
from nostr_client.watch.definition import Watch
from tests.agent.service.kit import an_agent, config_text
from tests.rights import secret_file
from tests.tui.driving import driving
from tests.worlds import signer
from tui.cli import _locate, _own_agent
from tui.embedded_agent import DEMO, EmbeddedAgent, embedded_agent

if TYPE_CHECKING:
    from pathlib import Path

    from nostr_client.codecs.keys import VerifiedEvent

PATIENCE = 120
"""Seconds; the next turn of a watch is an hour off."""
REACTIONS = 6
NOTE = "a1" * 32


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "home").mkdir(mode=0o700)
    for name in ("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR"):
        monkeypatch.setenv(name, str(tmp_path / "home"))


def reaction(person: int, note: str) -> VerifiedEvent:
    template = EventTemplate(kind=7, content="+", tags=(("e", note),), created_at=int(time.time()))
    return signer(person).sign_now(template)


async def test_every_reaction_moves_the_number(tmp_path: Path) -> None:
    """One after the other, to the same note; how fast that is, `bench.agent` tells."""
    async with (
        await SqliteStore.open(":memory:") as store,
        serve(store, port=0) as relay,
        an_agent(tmp_path, [relay.url]) as agent,
        RelayPool() as pool,
        driving(
            lambda: (agent.service.api.url, agent.service.token), now=time.time, patience=PATIENCE
        ) as tui,
    ):
        await agent.client.add_watch(Watch(name="r", query="reactions", target=NOTE))
        await tui.until(lambda: any(one.answered for one in tui.app.model.watches.values()))
        tui.app.watched = "r"
        await tui.go("watch")
        for n in range(1, REACTIONS + 1):
            await pool.publish(reaction(n, NOTE), [relay.url])
            await tui.until(
                lambda n=n: tui.app.screen.query_one("#digits").value in (str(n), f"≈{n}")
            )


async def start(folder: Path) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "agent", "run", "--config", str(folder / "agent.toml")),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        env=os.environ,
    )


async def test_an_agent_that_is_killed_is_away_until_it_is_back(tmp_path: Path) -> None:
    """Nobody presses a key or asks for a count, whose next turn is an hour off.

    The port of the new one is another.
    """
    async with await SqliteStore.open(":memory:") as store, serve(store, port=0) as relay:
        await store.save([reaction(1, NOTE)])
        watch = f'[[watches]]\nname = "mine"\nquery = "reactions"\ntarget = "{NOTE}"\n'
        watch += 'interval = "1h"'
        (tmp_path / "agent.toml").write_text(config_text(tmp_path, [relay.url], watch))
        process = await start(tmp_path)
        try:
            async with driving(lambda: reach(None, None), now=time.time, patience=PATIENCE) as tui:
                await tui.until(lambda: "1/1" in tui.text())
                process.kill()
                await process.wait()
                await tui.until(lambda: "agent away" in tui.text())
                assert "mine" in tui.text()
                assert tui.grid("#watches").faded
                await store.save([reaction(2, NOTE)])
                process = await start(tmp_path)
                await tui.until(lambda: "● live" in tui.text())
                await tui.until(lambda: tui.app.model.watches["mine"].figure.value == 2)
                assert not tui.grid("#watches").faded
        finally:
            process.terminate()
            await process.wait()


def test_an_agent_of_our_own_that_has_said_nothing_yet_is_starting() -> None:
    with TemporaryFile() as said, TemporaryFile() as talk:
        one = EmbeddedAgent(Mock(returncode=None), said, talk)
        with pytest.raises(NetworkError, match=r"^the agent is starting$"):
            one.locate()


async def test_an_agent_of_our_own_lives_as_long_as_we_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "nostr-agent-demo-of-one-that-was-killed").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    async with (
        embedded_agent(DEMO) as one,
        driving(one.locate, now=time.time, patience=PATIENCE) as tui,
    ):
        await tui.until(lambda: "author-followers" in tui.text())
        await tui.until(lambda: any(w.figure for w in tui.app.model.watches.values()))
        assert one.process.returncode is None
        assert one.process.stdin is not None
        one.process.stdin.close()
        await tui.until(lambda: "agent away" in tui.text())
        await tui.until(lambda: "has ended" in tui.app.model.why)
    assert one.process.returncode == 0
    assert not [name for name in os.listdir(tmp_path) if name.startswith("nostr-")]


async def test_an_agent_of_our_own_that_ends_at_once_is_reported_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here its configuration is wrong; the form reports that, and nobody waits for a minute."""
    (tmp_path / "agent.toml").write_text('[api]\nlisten = "nowhere"\n')
    monkeypatch.setenv("NOSTR_AGENT_CONFIG", str(tmp_path / "agent.toml"))
    async with AsyncExitStack() as stack:
        with pytest.raises(NetworkError, match=r"has ended: .*api\.listen"):
            await _own_agent(stack, Mock())


@pytest.mark.parametrize("key", ["api", "relay"])
async def test_an_agent_of_our_own_takes_another_port_than_one_in_use_and_says_which(
    key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = {"api": "relay", "relay": "api"}[key]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        (tmp_path / "agent.toml").write_text(
            f'[{key}]\nlisten = "{address}"\n[{other}]\nlisten = "127.0.0.1:0"\n'
            f'[service]\nlog_format = "text"\n[store]\npath = "{tmp_path / "events.db"}"\n'
        )
        monkeypatch.setenv("NOSTR_AGENT_CONFIG", str(tmp_path / "agent.toml"))
        async with AsyncExitStack() as stack:
            started = await _own_agent(stack, Mock())
            (note,) = started.notes()
            async with driving(started.locate, notes=started.notes, patience=PATIENCE) as tui:
                await tui.until(lambda: f"another program uses {address}" in tui.text())
                assert tui.app.messages[0].endswith(note)
                status = tui.app.model.status
                assert status is not None
                url = status.relay_url if key == "relay" else started.locate()[0]
    assert address in note
    assert note.endswith(url.split("//")[1])


async def test_a_start_without_a_port_in_use_says_nothing() -> None:
    with TemporaryFile() as said, TemporaryFile() as talk:
        talk.write(b'{"event":"not_published"}\nno JSON\n{"event":"address_in_use"}\n')
        talk.flush()
        assert EmbeddedAgent(Mock(returncode=None), said, talk).notes() == []


@pytest.mark.parametrize(("read_only", "token"), [(True, "reads"), (False, "manages")])
def test_a_session_that_only_reads_has_no_other_token(
    tmp_path: Path, *, read_only: bool, token: str
) -> None:
    """Of an agent that runs already, and of one that was brought."""
    manage = secret_file(tmp_path / "token", "manages")
    read = secret_file(tmp_path / "token.read", "reads")
    said = RunFile(1, "http://127.0.0.1:1", "", str(manage), str(read))
    addresses_path().parent.mkdir(parents=True, exist_ok=True)
    addresses_path().write_bytes(msgspec.json.encode(said))
    given = {"api": None, "token_file": None, "read_only": read_only}
    assert _locate(given)() == ("http://127.0.0.1:1", token)
    line = {"api": "http://127.0.0.1:2", "token": str(manage), "read_token": str(read)}
    with TemporaryFile() as out, TemporaryFile() as talk:
        out.write(msgspec.json.encode(line) + b"\n")
        out.flush()
        process = Mock(returncode=None, pid=1)
        assert EmbeddedAgent(process, out, talk, read_only=read_only).locate() == (
            line["api"],
            token,
        )


def test_an_agent_of_an_earlier_version_has_no_token_that_only_reads(tmp_path: Path) -> None:
    token = secret_file(tmp_path / "token", "manages")
    said = {"pid": 1, "api": "http://127.0.0.1:1", "relay": "", "token": str(token)}
    addresses_path().parent.mkdir(parents=True, exist_ok=True)
    addresses_path().write_bytes(msgspec.json.encode(said))
    assert reach(None, None) == (said["api"], "manages")
    with pytest.raises(InvalidInput, match="no read token"):
        reach(None, None, read_only=True)
