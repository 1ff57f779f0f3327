"""An agent pushes its counters to a nats-server: offline first, and every link says how it does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from agent.api.client import ApiError
from agent.config import InvalidConfig, parse
from nostr_client.counters.jetstream import JetStreamCounterStore
from tests.agent.service.kit import an_agent, config_text, eventually
from tests.nats_peer import NatsServer, nats_server

if TYPE_CHECKING:
    from pathlib import Path

    from agent.api import schema
    from tests.agent.service.kit import Running

__all__ = ["nats_server"]

LINK = "nats:hub"


def push(url: str, more: str = "") -> str:
    return f"""
[[counters.streams]]
name = "app"
subjects = ["app.>"]
[[counters.push]]
name = "hub"
stream = "app"
servers = ["{url}"]
agent = "es"
total = "TOTAL"
interval = "1s"
{more}
"""


async def link(agent: Running) -> schema.CounterLink:
    (found,) = (await agent.client.links()).links
    return found


async def reaches(agent: Running, state: str, **wanted: object) -> schema.CounterLink:
    """The link in this state; every look runs it again at once."""

    async def there() -> bool:
        found = await link(agent)
        if found.state == state and all(getattr(found, k) == v for k, v in wanted.items()):
            return True
        await agent.client.run_link(LINK)
        return False

    await eventually(there, 40)
    return await link(agent)


@pytest.mark.interop
async def test_what_is_counted_offline_arrives_once(
    tmp_path: Path, nats_server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nostr_client.counters.jetstream.dial.CONNECT_S", 1)
    nats_server.kill()
    async with an_agent(tmp_path, more=push(nats_server.url)) as agent:
        assert (await agent.client.add("app", "app.a", "40")).value == "40"
        failing = await reaches(agent, "failing")
        assert "no nats-server could be reached" in failing.why
        assert failing.direction == "out"
        assert failing.via == "nats"
        await agent.client.add("app", "app.a", "2")
        nats_server.start()
        even = await reaches(agent, "ok", lag=0, moved=1)
        assert (even.last_subject, even.last_value) == ("count.es.app.a", "42")
        assert (even.seq, even.last_seq, even.subjects, even.why) == (2, 2, 1, "")
        async with await JetStreamCounterStore.connect(nats_server.url) as server:
            total = await server.counters("TOTAL")

            async def summed() -> bool:
                return {s: v async for s, v in total.load_many()} == {"total.app.a": 42}

            await eventually(summed)
            await (await server.counters("AGENTS")).add("count.es.app.a", 100)
        stopped = await reaches(agent, "stopped")
        assert "142 there" in stopped.why
        assert stopped.confirmable
        await agent.client.confirm_link(LINK)
        assert not (await reaches(agent, "ok", moved=2)).confirmable
        metrics = await agent.service.backend.metrics()
        assert "nostr_agent_pushed_changes_total 2.0" in metrics
        with pytest.raises(ApiError, match="waits for no confirmation"):
            await agent.client.confirm_link(LINK)


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ('subjects = ["a..b"]', "not a subject or pattern"),
        ('into = "TOTAL"', "another stream than"),
        ("credentials = 5", "str"),
    ],
)
def test_what_is_wrong_with_a_push_is_told(tmp_path: Path, more: str, told: str) -> None:
    with pytest.raises(InvalidConfig, match=told):
        parse(config_text(tmp_path, [], push("nats://127.0.0.1:1", more)))


def test_what_is_wrong_with_the_place_of_a_push_is_told(tmp_path: Path) -> None:
    text = config_text(tmp_path, [], push("http://127.0.0.1:1"))
    with pytest.raises(InvalidConfig, match="is not a nats://"):
        parse(text)
    with pytest.raises(InvalidConfig, match="one token"):
        parse(text.replace("http:", "nats:").replace('"es"', '"es.madrid"'))
    with pytest.raises(InvalidConfig, match="has no APP"):
        parse(text.replace("http:", "nats:").replace('stream = "app"', 'stream = "APP"'))
