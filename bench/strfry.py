"""strfry, if STRFRY_PROGRAM names it: its relay with given events, and its own client of syncs."""

from __future__ import annotations

import asyncio
import os
import subprocess
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from bench.fresh import Program
from tests.proxied import unused_port

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from nostr_client.codecs.keys import VerifiedEvent

STRFRY = os.environ.get("STRFRY_PROGRAM", "")

START_S = 30.0

# Its default limit of open files is more than a user may ask for on most machines; 0 asks for none.
# Its defaults refuse events that are large or more than three years old; a benchmark has both.
_CONFIG = """db = "{folder}/strfry-db/"
events {{
    maxEventSize = 1000000
    maxNumTags = 10000
    rejectEventsOlderThanSeconds = 1000000000
}}
relay {{
    bind = "127.0.0.1"
    port = {port}
    nofiles = 0
    maxWebsocketPayloadSize = 2000000
}}
"""


def command(folder: Path, *words: str, port: int = 7777) -> tuple[str, ...]:
    """Return a command of strfry on a database in this folder."""
    (folder / "strfry-db").mkdir(exist_ok=True)
    config = folder / "strfry.conf"
    config.write_text(_CONFIG.format(folder=folder, port=port), "utf-8")
    return (STRFRY, f"--config={config}", *words)


def version() -> str:
    """Return the name and the version of the program."""
    return subprocess.check_output((STRFRY, "--version"), text=True).strip()


def syncing(url: str, folder: Path) -> Program:
    """Return its own client, which downloads everything."""
    return Program(command(folder, "sync", url, "--dir=down"), folder)


def held(folder: Path) -> int:
    """Return how many events its database has."""
    done = subprocess.run(command(folder, "export"), check=True, capture_output=True)
    return done.stdout.count(b"\n")


@asynccontextmanager
async def strfry_relay(events: Iterable[VerifiedEvent]) -> AsyncIterator[str]:
    """Run its relay with these events, and give its URL."""
    with tempfile.TemporaryDirectory() as name:
        folder, port = Path(name), unused_port()
        lines = "".join(f"{one.event.to_json()}\n" for one in events).encode()
        await asyncio.to_thread(_run, command(folder, "import", "--no-verify"), lines)
        process = await asyncio.create_subprocess_exec(
            *command(folder, "relay", port=port), stderr=subprocess.DEVNULL
        )
        try:
            await _listening(port)
            yield f"ws://127.0.0.1:{port}"
        finally:
            process.kill()
            await process.wait()


def _run(words: tuple[str, ...], stdin: bytes) -> None:
    subprocess.run(words, input=stdin, check=True, stderr=subprocess.DEVNULL)


async def _listening(port: int) -> None:
    async with asyncio.timeout(START_S):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.05)
            else:
                writer.close()
                return
