"""The programs as processes, the way a user runs them."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from tests import forks

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


SOON = {"NOSTR_TALLY_TEST_RECONNECT_S": "0.01"}
"""A variable with which a forked program tries a relay that is away again at once, not in 1 s."""


class Done(NamedTuple):
    """What a run left: exit code, stdout, stderr."""

    code: int
    out: str
    err: str


async def start(
    *args: str, module: str = "nostr_client", fresh: bool = False, **env: str
) -> asyncio.subprocess.Process:
    """Start `python -m module` with these arguments; stdout and stderr are pipes.

    `fresh`: what is started is the program itself, which SIGKILL then ends before anything else.
    """
    return await asyncio.create_subprocess_exec(
        *(forks.fresh(module) if fresh else forks.command(module, **env)),
        *args,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=os.environ | env,
        preexec_fn=as_on_a_terminal,
    )


def as_on_a_terminal() -> None:
    """Hear SIGINT: a shell's background jobs, such as a whole test run, hand on that it is not."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@asynccontextmanager
async def started(
    *args: str, within: float = 40.0, **env: str
) -> AsyncIterator[asyncio.subprocess.Process]:
    """A run of `nostr-client` that the block talks to or kills, for so many seconds."""
    process = await start(*args, fresh=True, **env)
    try:
        async with asyncio.timeout(within):
            yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


@asynccontextmanager
async def running_agent(config: Path, cwd: Path, **env: str) -> AsyncIterator[str]:
    """A whole agent in a process of its own; gives the URL of its API once it has started."""
    process = await asyncio.create_subprocess_exec(
        *(*forks.command("agent", **env), "run", "--config", str(config), "--json"),
        env=os.environ | env,
        cwd=cwd,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    draining = None
    try:
        async with asyncio.timeout(60):
            line: dict[str, Any] = {}
            while line.get("event") != "started":
                line = json.loads(await process.stderr.readline())
        draining = asyncio.create_task(process.stderr.read())
        yield line["api"]
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
        if draining is not None:
            await draining


async def nostr_client(*args: str, within: float = 40.0, **env: str) -> Done:
    """Run `nostr-client` to its end; a traceback is a failure of the test."""
    process = await start(*args, **env)
    async with asyncio.timeout(within):
        out, err = await process.communicate()
    assert b"Traceback" not in err, err.decode()
    return Done(process.returncode or 0, out.decode(), err.decode())
