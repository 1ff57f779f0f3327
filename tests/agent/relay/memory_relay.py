"""A relay process over a store, which prints its URL, and its memory for every line that it reads.

Run as `python -m tests.agent.relay.memory_relay STORE`.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from agent.relay.server import serve
from nostr_client.store.sqlite import SqliteStore


def resident() -> int:
    """Bytes of memory of this process."""
    status = Path("/proc/self/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) * 1024


async def main(path: str) -> None:
    async with await SqliteStore.open(path) as store, serve(store, port=0) as server:
        sys.stdout.write(server.url + "\n")
        sys.stdout.flush()
        while await asyncio.to_thread(sys.stdin.readline):
            sys.stdout.write(f"{resident()}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
