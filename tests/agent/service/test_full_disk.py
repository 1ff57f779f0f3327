"""An agent whose disk is full says so once, refuses what it cannot keep, and recovers by itself."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from agent.service import ticker
from nostr_client.errors import StoreFull
from nostr_client.filters import Filter
from tests.agent.relay.client import connect
from tests.agent.relay.kit import numbered
from tests.agent.service.kit import Running, an_agent, eventually

if TYPE_CHECKING:
    import sqlite3
    from pathlib import Path


@pytest.fixture(autouse=True)
def _beats_are_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ticker, "BEAT_S", 0.02)


async def limit(agent: Running, more: int) -> None:
    """Let SQLite itself find the store full: at its size now, and `more` pages."""

    def work(conn: sqlite3.Connection) -> None:
        (size,) = conn.execute("PRAGMA page_count").fetchone()
        conn.execute(f"PRAGMA max_page_count = {size + more}").fetchall()

    await agent.service.agent.parts.store.database.maintain(work)


def logged(agent: Running, event: str) -> int:
    lines = [json.loads(line) for line in agent.log.getvalue().splitlines()]
    return sum(line["event"] == event for line in lines)


def gauge(agent: Running, name: str) -> float:
    lines = agent.service.agent.metrics.text().decode().splitlines()
    (value,) = (line.split()[1] for line in lines if line.startswith(f"nostr_agent_{name} "))
    return float(value)


async def test_a_full_disk_is_reported_once_and_recovered_from(tmp_path: Path) -> None:
    events = numbered(60, tags=[["x", "y" * 2_000]])
    async with (
        an_agent(tmp_path) as agent,
        connect(agent.service.backend.relay_url) as client,
    ):
        store = agent.service.agent.parts.store
        assert (await agent.client.ready()).ready
        await limit(agent, 20)
        answers = [await client.publish(event) for event in events]
        acknowledged = {e.id for e, a in zip(events, answers, strict=True) if a[2]}
        refused = [e for e, a in zip(events, answers, strict=True) if not a[2]]
        assert acknowledged
        assert refused
        assert {e.id for e in await store.query([Filter()])} == acknowledged

        async def reported() -> bool:
            return logged(agent, "store_full") == 1

        await eventually(reported)
        ready = await agent.client.ready()
        assert not ready.ready
        assert any("takes nothing" in reason for reason in ready.reasons)
        assert gauge(agent, "store_full") == 1
        with pytest.raises(StoreFull):
            await store.database.write(lambda conn: conn.execute(_FILL) and None)
        await limit(agent, 10_000)

        async def recovered() -> bool:
            return (await agent.client.ready()).ready

        await eventually(recovered)
        assert gauge(agent, "store_full") == 0
        assert (logged(agent, "store_full"), logged(agent, "store_has_room")) == (1, 1)
        for event in refused:
            assert (await client.publish(event))[2] is True
        assert (await store.verify()).problems == ()


_FILL = "INSERT INTO meta VALUES ('filled', zeroblob(10000000))"
