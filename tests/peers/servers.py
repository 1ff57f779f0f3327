"""Relays that we did not write, each as a process on a port of its own.

async with local_relay() as url: ...
async with python_nostr_relay(folder) as url: ...
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp

from tests.peers.install import environment

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from nostr_client.codecs.keys import VerifiedEvent

HERE = Path(__file__).parent
START_SECONDS = 45
STOP_SECONDS = 10


@asynccontextmanager
async def local_relay(*, newest: bool = False, auth: bool = False) -> AsyncIterator[str]:
    """The URL of rust-nostr's LocalRelay: 0.44 of `[dev]`, or the newest from its environment."""
    python = environment("nostr-sdk") if newest else Path(sys.executable)
    flags = ["--auth"] if auth else []
    async with serving(python, HERE / "run_local_relay.py", *flags) as url:
        yield url


@asynccontextmanager
async def python_nostr_relay(folder: Path, *, writer: str = "") -> AsyncIterator[str]:
    """The URL of PyPI nostr-relay with its data in `folder`; `writer`: the only key it serves."""
    python = environment("nostr-relay")
    flags = [writer] if writer else []
    async with serving(python, HERE / "run_nostr_relay.py", str(folder), *flags) as url:
        yield url


async def load(url: str, events: Sequence[VerifiedEvent]) -> None:
    """Publish events to a relay, as fast as it takes them, and wait until it has accepted all."""
    async with aiohttp.ClientSession() as session, session.ws_connect(url) as socket:

        async def send() -> None:
            for one in events:
                await socket.send_str(f'["EVENT",{one.event.to_json()}]')

        sending = asyncio.create_task(send())
        left = len(events)
        while left:
            answer = (await socket.receive(timeout=60)).data
            if '"OK"' in answer:
                assert ",true," in answer, answer
                left -= 1
        await sending


@asynccontextmanager
async def serving(python: Path, script: Path, *args: str) -> AsyncIterator[str]:
    """Run a script that prints `LISTENING url`; it is stopped, by its id, at the end."""
    process = await asyncio.create_subprocess_exec(
        str(python),
        str(script),
        *args,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        url, said = await _listening(process)
        assert url, f"{script.name} did not start: {said[-2000:]}"
        drain = asyncio.create_task(_drain(process))
        try:
            yield url
        finally:
            await _stop(process)
            await drain
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def _listening(process: asyncio.subprocess.Process) -> tuple[str, str]:
    assert process.stdout is not None
    said = ""
    async with asyncio.timeout(START_SECONDS):
        async for line in process.stdout:
            text = line.decode("utf-8", "replace")
            if text.startswith("LISTENING "):
                return text.split()[1], said
            said += text
    return "", said


async def _drain(process: asyncio.subprocess.Process) -> None:
    """Read what it says, so that it never waits for us."""
    assert process.stdout is not None
    while await process.stdout.read(65536):
        pass


async def _stop(process: asyncio.subprocess.Process) -> None:
    if process.stdin is not None:
        process.stdin.close()
    if process.returncode is None:
        process.terminate()
    async with asyncio.timeout(STOP_SECONDS):
        await process.wait()
