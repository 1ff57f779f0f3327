"""Cards signed by a bunker that we did not write (NIP-46, NDK), over our relay."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from agent.api.client import AgentClient
from agent.relay.server import serve
from nostr_client.codecs.event import EventTemplate
from nostr_client.codecs.filters import Filter
from nostr_client.codecs.keys import KeySigner
from nostr_client.errors import DeadlineExceeded, RelayError
from nostr_client.network.bunker import BunkerRequests, BunkerSigner, read_link
from nostr_client.options import ConnectionOptions
from nostr_client.store.sqlite import SqliteStore
from tests.agent.service.kit import config_text, eventually
from tests.peers.bunker import bunker
from tests.peers.install import environment
from tests.running import nostr_client, running_agent

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = [pytest.mark.interop, pytest.mark.timeout(400)]

ME, PROVIDER, CLIENT = (KeySigner(bytes([n]) * 32) for n in (1, 3, 6))
SECRET = "a secret for one client"
NOTE = ME.sign_now(EventTemplate(kind=1, created_at=1_700_000_000))
DIRECT = ConnectionOptions()


@pytest.fixture
async def relay(tmp_path: Path) -> AsyncIterator[tuple[str, SqliteStore]]:
    """Our relay, which the bunker and its clients use, and its store."""
    async with (
        await SqliteStore.open(tmp_path / "relay.db") as opened,
        serve(opened, port=0) as serving,
    ):
        yield serving.url, opened


async def cards(store: SqliteStore) -> list[tuple[int, str]]:
    found = await store.query([Filter(kinds=[30382, 30383])])
    return [(one.kind, one.pubkey) for one in found]


async def test_the_command_publishes_and_its_link_works_more_than_once(
    relay: tuple[str, SqliteStore], tmp_path: Path
) -> None:
    url, published = relay
    store, file = tmp_path / "store.db", tmp_path / "bunker.link"
    async with await SqliteStore.open(store) as opened:
        await opened.save([NOTE])
    async with bunker(url, PROVIDER, SECRET) as link:
        file.write_text(link)
        file.chmod(0o600)
        args = ("--all", "--store", str(store), "--key-file", str(file), "-r", url, "--json")
        for signed in (2, 0):
            run = await nostr_client("assertions", "publish", *args)
            assert run.code == 0, run.err
            assert json.loads(run.out)["signed"] == signed
            assert SECRET not in run.out + run.err
    assert sorted(await cards(published)) == [(30382, PROVIDER.pubkey), (30383, PROVIDER.pubkey)]
    beside = tmp_path / "bunker.link.client"
    assert beside.stat().st_mode & 0o777 == 0o600
    assert SECRET not in beside.read_text()


async def test_the_agent_publishes_by_a_bunker_and_never_by_its_identity(
    relay: tuple[str, SqliteStore], tmp_path: Path
) -> None:
    url, published = relay
    folder = tmp_path / "agent"
    folder.mkdir()
    async with await SqliteStore.open(folder / "store.db") as opened:
        await opened.save([NOTE])
    section = f'[assertions]\nkey_file = "{folder / "link"}"\nall_subjects = true\n'
    own = f'[identity]\nkey_file = "{folder / "own.key"}"\n'
    (folder / "own.key").write_text(PROVIDER.nsec())
    async with bunker(url, PROVIDER, SECRET) as link:
        (folder / "link").write_text(link)
        for file in folder.iterdir():
            file.chmod(0o600)
        for more, wanted in ((own + section, "cards need one of their own"), (section, "")):
            async with an_agent_process(folder, config_text(folder, [url], more)) as agent:

                async def ran() -> bool:
                    found = await agent.assertions()
                    return found.ran_at is not None and not found.running

                await eventually(ran)
                assert wanted in (await agent.assertions()).why
            assert len(await cards(published)) == (0 if wanted else 2)


@asynccontextmanager
async def an_agent_process(folder: Path, text: str) -> AsyncIterator[AgentClient]:
    """An agent in a process of its own, as nostr-sdk keeps state for its whole process."""
    (folder / "agent.toml").write_text(text)
    async with (
        running_agent(folder / "agent.toml", Path(__file__).parents[2]) as url,
        AgentClient(url, (folder / "token").read_text().strip()) as client,
    ):
        yield client


NEWEST = """
import asyncio, sys
from importlib.metadata import version

from nostr_client.codecs.event import EventTemplate
from nostr_client.codecs.keys import KeySigner
from nostr_client.network.bunker import BunkerRequests, BunkerSigner, read_link
from nostr_client.options import ConnectionOptions


async def main():
    link = read_link(sys.stdin.read())
    signer = await BunkerSigner.connect(link, KeySigner.generate(), ConnectionOptions())
    signed = await signer.sign(EventTemplate(kind=1, content="hello", created_at=1))
    print(version("nostr-sdk"), signed.pubkey)


asyncio.run(main())
"""


async def test_the_newest_line_of_nostr_sdk_signs_too(relay: tuple[str, SqliteStore]) -> None:
    (newest,) = environment("nostr-sdk").parents[1].glob("lib/python*/site-packages")
    async with bunker(relay[0], PROVIDER, SECRET) as link:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", NEWEST,
            env=os.environ | {"PYTHONPATH": str(newest)},
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        out, _ = await process.communicate(link.encode())
    used, pubkey = out.decode().split()
    assert used.split(".")[:2] != version("nostr-sdk").split(".")[:2]
    assert pubkey == PROVIDER.pubkey


async def test_a_bunker_that_is_silent_or_refuses_is_an_error_without_secrets(
    relay: tuple[str, SqliteStore],
) -> None:
    url, _ = relay
    async with bunker(url, PROVIDER, SECRET, mute=True) as link:
        wrong = read_link(link.replace("secret=", "secret=not%20"))
        with pytest.raises(RelayError) as refused:
            await BunkerSigner.connect(wrong, CLIENT, DIRECT, seconds=3)
        assert SECRET not in str(refused.value)
        signer = await BunkerSigner.connect(read_link(link), CLIENT, DIRECT)
        assert signer.pubkey == PROVIDER.pubkey
        silent = BunkerSigner(
            BunkerRequests(read_link(link), CLIENT, 3, paired=True), signer.pubkey
        )
        with pytest.raises(DeadlineExceeded, match="sign_event"):
            await silent.sign(EventTemplate(kind=1, created_at=1))
