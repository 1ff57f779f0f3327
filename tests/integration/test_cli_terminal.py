"""What a person sees: a table that fits the terminal, colours, and none with NO_COLOR."""

from __future__ import annotations

import asyncio
import os
import pty
import re
import sys

import pytest

from nostr_client.codecs.nip19 import PublicKey
from tests.faulty_relay import FaultyRelay
from tests.worlds import TARGET, Sketches, follow

COLOUR = re.compile(r"\x1b\[[0-9;]*3[0-7]m")


async def on_terminal(*args: str, **env: str) -> str:
    """What the program writes to a terminal of 100 columns."""
    ours, theirs = pty.openpty()
    clean = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR", "CI")}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "nostr_client",
        *args,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
        env=clean | {"TERM": "xterm-256color", "COLUMNS": "100"} | env,
    )
    os.close(theirs)
    async with asyncio.timeout(40):
        read = asyncio.create_task(asyncio.to_thread(read_all, ours))
        await process.wait()
        said = await read
    assert process.returncode == 0, said
    return said


def read_all(terminal: int) -> str:
    parts = []
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:  # the other end is closed
            part = b""
        if not part:
            os.close(terminal)
            return b"".join(parts).decode("utf-8", "replace")
        parts.append(part)


@pytest.mark.parametrize("no_colour", [False, True])
async def test_colours_are_for_terminals_and_can_be_turned_off(no_colour: bool) -> None:
    env = {"NO_COLOR": "1"} if no_colour else {}
    async with FaultyRelay(Sketches(), events=[follow(i) for i in range(9)]) as relay:
        npub = PublicKey(TARGET).encode()
        said = await on_terminal("count", "followers", npub, "--relay", relay.url, **env)
    assert "about 9 (8 to 10) distinct authors" in said
    assert relay.url in said
    assert bool(COLOUR.search(said)) is not no_colour
