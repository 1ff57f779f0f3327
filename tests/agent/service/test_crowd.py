"""Crowds and slow readers at the API: thousands of connections, and a stream that nobody reads."""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import time
from typing import TYPE_CHECKING

from nostr_client.errors import NetworkError
from tests.agent.service.kit import an_agent, eventually
from tests.conftest import missing

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

CROWD = """
import resource, socket, sys, time
port, n = int(sys.argv[1]), int(sys.argv[2])
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, n + 100), hard))
held = []
for _ in range(n):
    one = socket.socket()
    one.settimeout(5)
    try:
        one.connect(("127.0.0.1", port))
        held.append(one)
    except OSError:
        one.close()
print("OPEN", flush=True)
sys.stdin.read()
"""


async def test_ten_thousand_connections_are_turned_away(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """From a second process; the agent lives on, logs nothing, and answers when they have gone."""
    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < 12_000:
        missing("12,000 open files (ulimit -Hn)")
    async with an_agent(tmp_path) as agent:
        before = resident_mb()
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", CROWD, str(agent.service.api.port), "10000"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            assert process.stdout is not None
            assert await process.stdout.readline() == b"OPEN\n"
            assert resident_mb() < before + 100
        finally:
            process.kill()
            await process.wait()

        async def answers() -> bool:
            try:
                return (await agent.client.status()).pid > 0
            except NetworkError:
                return False

        await eventually(answers)
        levels = {json.loads(line)["level"] for line in agent.log.getvalue().splitlines()}
        assert levels == {"info"}
    assert caplog.records == []


async def test_a_stream_that_nobody_reads_is_cut_and_holds_up_nothing(tmp_path: Path) -> None:
    async with an_agent(tmp_path, sections={"api": "stream_backlog = 50"}) as agent:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", agent.service.api.port, limit=1024
        )
        writer.write(
            b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n"
            b"Authorization: Bearer " + agent.service.token.encode() + b"\r\n\r\n"
        )
        assert b"200" in await reader.readline()
        feed = agent.service.agent.feed
        began = time.monotonic()
        while not feed.cut and time.monotonic() - began < 20:
            for _ in range(20):
                feed.publish(removed_watch="x" * 50_000)
            await asyncio.sleep(0)
        assert feed.cut == 1
        assert (await agent.client.status()).pid
        said = b""
        async with asyncio.timeout(20):
            while b"too slow" not in said:
                said = said[-200:] + await reader.read(1 << 20)
        writer.close()


def resident_mb() -> float:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 2**20
