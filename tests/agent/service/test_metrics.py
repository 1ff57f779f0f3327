"""What `/metrics` says of each watch, sync and the store; its names follow Prometheus' rules."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from prometheus_client.parser import text_string_to_metric_families

from agent.api import schema
from agent.service.metrics import MOST_WATCHES, Metrics
from nostr_client import __version__
from tests.agent.service.kit import an_agent
from tests.agent.states import watch_state
from tests.faulty_relay import FaultyRelay
from tests.worlds import TARGET, follow

if TYPE_CHECKING:
    from pathlib import Path


def samples(text: str) -> dict[tuple[str, str], float]:
    """Values by name and the value of their only label."""
    return {
        (sample.name, next(iter(sample.labels.values()), "")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_each_watch_has_its_number_and_how_sure_it_is() -> None:
    bound = schema.Figure(value=12, low=10, high=None, exact=False, lower_bound=True)
    exact = schema.Figure(value=3, low=3, high=3, exact=True, lower_bound=False)
    watches = {
        "a": watch_state(bound, "a", answered=2, updated_at=100.0, answered_at=99.5),
        "b": watch_state(exact, "b", answered=1, updated_at=100.0, answered_at=100.0),
        "c": watch_state(None, "c", updated_at=100.0),
    }
    found = samples(Metrics(dict, tuple, lambda: watches, lambda: {"s": 7.5}).text())
    assert found["nostr_agent_watch_value", "a"] == 12
    assert found["nostr_agent_watch_low", "a"] == 10
    assert ("nostr_agent_watch_high", "a") not in found
    assert found["nostr_agent_watch_high", "b"] == 3
    assert [found["nostr_agent_watch_exact", one] for one in "ab"] == [0, 1]
    assert [found["nostr_agent_watch_relays_answered", one] for one in "abc"] == [2, 1, 0]
    assert found["nostr_agent_watch_last_success_timestamp_seconds", "a"] == 99.5
    assert not {name for name, one in found if one == "c"} - {"nostr_agent_watch_relays_answered"}
    assert found["nostr_agent_sync_last_success_timestamp_seconds", "s"] == 7.5
    assert found["nostr_agent_build_info", __version__] == 1
    assert any(name.startswith("process_") for name, _ in found)


def test_watches_beyond_the_bound_are_counted() -> None:
    one = schema.Figure(value=1, low=1, high=1, exact=True, lower_bound=False)
    watches = {f"w{n:05}": watch_state(one, f"w{n:05}") for n in range(MOST_WATCHES + 5)}
    found = samples(Metrics(dict, tuple, lambda: watches).text())
    assert sum(name == "nostr_agent_watch_value" for name, _ in found) == MOST_WATCHES
    assert found["nostr_agent_watches_without_gauges", ""] == 5


async def test_an_agent_tells_of_its_watches_and_its_store(tmp_path: Path) -> None:
    events = [follow(n) for n in range(4)]
    config = f"""
[[watches]]
name = "w"
query = "followers"
target = "{TARGET}"
[[syncs]]
name = "s"
filters = [{{ kinds = [3] }}]
direction = "down"
"""
    async with (
        FaultyRelay(events=events) as relay,
        an_agent(tmp_path, [relay.url], config) as agent,
    ):
        found: dict[tuple[str, str], float] = {}
        wanted = {
            ("nostr_agent_watch_value", "w"): 4.0,
            ("nostr_agent_store_events", ""): 4.0,
        }
        last = ("nostr_agent_sync_last_success_timestamp_seconds", "s")
        while last not in found or not wanted.items() <= found.items():
            found = samples(await agent.client.metrics())
        assert found["nostr_agent_watch_relays_answered", "w"] == 1
        stats = await agent.service.agent.parts.store.stats()
        assert stats.events == 4
        names_are_prometheus(await agent.client.metrics())


async def test_a_merge_without_an_answer_is_no_success(tmp_path: Path) -> None:
    """Not of a relay that never answered, nor of one that went away."""
    config = "".join(
        f'[[watches]]\nname = "{name}"\nquery = "followers"\ntarget = "{TARGET}"\n{relays}'
        for name, relays in (("w", ""), ("dead", 'relays = ["ws://127.0.0.1:1"]\n'))
    )
    async with (
        FaultyRelay(events=[follow(1)]) as relay,
        an_agent(tmp_path, [relay.url], config) as agent,
    ):
        last = "nostr_agent_watch_last_success_timestamp_seconds"
        await agent.until(lambda one: one.updated_at is not None, "dead")
        before = await agent.until(lambda one: one.answered_at is not None, "w")
        found = samples(await agent.client.metrics())
        assert found["nostr_agent_watch_relays_answered", "dead"] == 0
        assert (last, "dead") not in found
        await relay.stop()
        await agent.client.ask_watch("w")
        await agent.until(lambda one: one.answered == 0 and one.updated_at > before.updated_at, "w")
        found = samples(await agent.client.metrics())
        assert found[last, "w"] == before.answered_at


def names_are_prometheus(text: str) -> None:
    """Base units at the end, `_total` for counters alone, and help for each."""
    for family in text_string_to_metric_families(text):
        assert re.fullmatch(r"[a-z][a-z0-9_]*", family.name)
        assert family.documentation
        assert not re.search(r"_(ms|milliseconds|minutes|kilobytes|mb|percent)(_|$)", family.name)
        if "haracter" in family.documentation:
            assert "bytes" not in family.name
        if family.type == "counter":
            assert "counter" not in family.name.split("_")
            assert all(s.name.endswith(("_total", "_created")) for s in family.samples)
        else:
            assert not family.name.endswith("_total")
