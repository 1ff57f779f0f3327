"""Tries readers that take nothing: a store of large events, and a relay whose memory is read."""

from __future__ import annotations

import asyncio
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from nostr_client.codecs.keys import verify
from nostr_client.store.sqlite import SqliteStore
from tests.agent.relay.kit import signed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

LARGE = 1_000_000
MOST_BYTES = 300_000_000


class Process:
    """A relay in a process of its own."""

    def __init__(self, process: asyncio.subprocess.Process, url: str) -> None:
        self._process = process
        self.url = url

    async def memory(self) -> int:
        """Bytes resident now."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(b"\n")
        return int(await self._process.stdout.readline())


@asynccontextmanager
async def relay_over(path: Path) -> AsyncIterator[Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.agent.relay.memory_relay",
        str(path),
        cwd=Path(__file__).parents[3],
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield Process(process, (await process.stdout.readline()).decode().strip())
    finally:
        process.stdin.close()
        await process.wait()


async def large_store(path: Path, events: int) -> str:
    """A store of large events, in several shapes, and a small one, whose id is returned."""
    small = signed(kind=7, content="small")
    async with await SqliteStore.open(path) as store:
        for n in range(events):
            tags = [["x", f"{n}".ljust(LARGE, "y")]] if n % 3 == 0 else []
            text = "" if tags else f"{n} ".ljust(LARGE, "é" if n % 3 == 1 else "x")[: LARGE - n]
            await store.save(
                [verify(signed(kind=1, content=text, tags=tags, created_at=1_000 + n // 4))]
            )
        await store.save([verify(small)])
    return small.id
