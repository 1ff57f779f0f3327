"""What a relay said before it fell silent: the agent's list and the TUI do not call it exact."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from nostr_client.codecs.display import said
from tests.agent.service.kit import an_agent
from tests.faults import COUNT_REFUSALS, RefusesCount
from tests.faulty_relay import Behaviour, FaultyRelay
from tests.worlds import TARGET, Sketches, follow
from tui import format

if TYPE_CHECKING:
    from pathlib import Path

    from agent.api import schema

PEOPLE = [follow(i) for i in range(40)]
WATCH = f"""
[[watches]]
name = "w"
query = "followers"
target = "{TARGET}"
interval = "1h"
"""
BEHAVIOURS = {
    "count": Behaviour(),
    "hll": Sketches(),
    "events": RefusesCount(COUNT_REFUSALS["notice, rnostr"]),
}


def is_sure(watch: schema.WatchState) -> bool:
    return watch.figure is not None and (watch.figure.exact or watch.figure.as_said)


def stands_in(watch: schema.WatchState) -> bool:
    return watch.figure is not None and watch.answered == 0


@pytest.mark.parametrize("name", BEHAVIOURS)
async def test_a_relay_that_fell_silent_is_not_exact_in_list_and_tui(
    name: str, tmp_path: Path
) -> None:
    async with (
        FaultyRelay(BEHAVIOURS[name], events=PEOPLE) as relay,
        an_agent(tmp_path, [relay.url], WATCH) as agent,
    ):
        first = await agent.until(is_sure, "w")
        assert first.figure is not None
        assert format.certainty(first.figure) == ("claimed" if name == "hll" else "exact")
        await relay.stop()
        await agent.client.recount("w")
        later = await agent.until(stands_in, "w")
        (listed,) = (await agent.client.watches()).watches
    for watch in (later, listed):
        assert watch.figure is not None
        assert watch.figure.value == first.figure.value
        assert not watch.figure.exact
        assert not watch.figure.as_said
        assert watch.figure.high is None or watch.figure.low < watch.figure.high
        assert watch.failing
        assert any("not exact now" in text for text in watch.warnings)
        assert format.certainty(watch.figure) not in ("exact", "claimed")
        assert "exact" not in said(watch.figure)
