"""Connections that only connect: `python -m tests.agent.relay.idle_crowd HOST PORT COUNT MUTE`.

Opens COUNT WebSockets and MUTE sockets that say nothing, prints how many were let in and refused,
and holds them until its stdin ends.
"""

from __future__ import annotations

import asyncio
import resource
import sys

AT_ONCE = 200
DEADLINE_S = 60
REQUEST = (
    "GET / HTTP/1.1\r\nHost: {host}:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)


async def enter(host: str, port: int, gate: asyncio.Semaphore, *, mute: bool) -> tuple[str, object]:
    """One connection and the status that it got; the writer keeps it open."""
    async with gate, asyncio.timeout(DEADLINE_S):
        reader, writer = await asyncio.open_connection(host, port)
        if mute:
            return "mute", writer
        writer.write(REQUEST.format(host=host, port=port).encode())
        head = await reader.readuntil(b"\r\n\r\n")
    return head.split(b" ", 2)[1].decode(), writer


async def main(host: str, port: int, count: int, mute: int) -> None:
    """Hold the crowd until stdin ends; the descriptors that the relay may not have are for it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    gate = asyncio.Semaphore(AT_ONCE)
    entries = [enter(host, port, gate, mute=n < mute) for n in range(count + mute)]
    crowd = await asyncio.gather(*entries)
    statuses = [status for status, _ in crowd]
    print({status: statuses.count(status) for status in set(statuses)}, flush=True)  # noqa: T201
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], *map(int, sys.argv[2:])))
