"""An agent whose disk is full says so once, refuses what it cannot keep, and recovers by itself."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest

from agent.service.tasks import ticker
from nostr_client.codecs.filters import Filter
from nostr_client.codecs.relay_url import normalize
from nostr_client.errors import StoreFull
from nostr_client.store.file import disk_budget
from tests.agent.relay.client import connect
from tests.agent.relay.kit import numbered
from tests.agent.service.kit import Running, an_agent, eventually
from tests.faulty_relay import FaultyRelay
from tests.worlds import TARGET, Sketches, follow

if TYPE_CHECKING:
    import sqlite3
    from pathlib import Path


WATCH_AND_SYNC = f"""
[[watches]]
name = "followers"
query = "followers"
target = "{TARGET}"
live = false
[[syncs]]
name = "notes"
filters = [{{kinds = [1]}}]
interval = "1d"
"""


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
    lines = agent.service.agent.metrics.text().splitlines()
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


async def test_a_spent_disk_budget_stops_taking_and_not_serving(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_budget, "CHECK_S", 0.0)
    free = [10**12]
    disk = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: disk._replace(total=10**13, free=free[-1]))
    old, new, other = numbered(3)
    async with (
        FaultyRelay(Sketches(), events=[follow(1)]) as relay,
        an_agent(tmp_path, [relay.url], WATCH_AND_SYNC) as agent,
        connect(agent.service.backend.relay_url) as client,
    ):
        worker = agent.service.agent.worker
        await agent.until(lambda w: w.answered == 1, "followers")
        assert (await client.publish(old))[2] is True

        async def synced() -> bool:
            return worker.schedule.turns["sync notes"].turns > 0 and not worker.running

        await eventually(synced)
        free.append(10**8)

        async def reported() -> bool:
            return logged(agent, "store_full") == 1 and gauge(agent, "store_left_bytes") == 0

        await eventually(reported)
        answer = await client.publish(new)
        assert answer[2] is False
        assert answer[3].startswith("error: not stored: no room left for events")
        assert await client.stored({"ids": [old.id]}) == [old.id]
        ready = await agent.client.ready()
        assert any("left to other programs" in reason for reason in ready.reasons)
        before = len(relay.received)
        turns = worker.schedule.turns["sync notes"].turns
        worker.nudge("sync notes")
        worker.nudge(f"watch followers {normalize(relay.url)}")

        async def went_on() -> bool:
            verbs = {one[0] for one in relay.received[before:]}
            return "COUNT" in verbs and worker.schedule.turns["sync notes"].turns > turns

        await eventually(went_on)
        assert not {"NEG-OPEN", "REQ"} & {one[0] for one in relay.received[before:]}
        free.append(10**12)

        async def recovered() -> bool:
            return logged(agent, "store_has_room") == 1 and gauge(agent, "store_full") == 0

        await eventually(recovered)
        assert logged(agent, "store_full") == 1
        for event in (new, other):
            assert (await client.publish(event))[2] is True


_FILL = "INSERT INTO meta VALUES ('filled', zeroblob(10000000))"
