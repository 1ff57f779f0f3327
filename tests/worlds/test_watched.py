"""The first result of a watch is what a count of the same relays gives.

Worlds are left out whose relays answer otherwise when they are asked in another order or at another
time: those that refuse something once, or break a connection.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from nostr_client.count.procedure import needs_others
from tests.worlds import clock
from tests.worlds.behaviours import Refuses, Unreadable
from tests.worlds.drawing import drawn
from tests.worlds.items import Item
from tests.worlds.model import RelaySpec, Step, World
from tests.worlds.running import Run

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nostr_client.count.result import CountResult


def first_result(world: World, action: str) -> tuple[CountResult, Run]:
    step = replace(world.steps[0], action=action, live=())
    with tempfile.TemporaryDirectory(prefix="watched") as folder:
        run = Run(replace(world, steps=(step,), local=()), Path(folder))

        async def go() -> None:
            await run.run()

        clock.run(go)
    return run.results[0], run


def suitable() -> Iterator[World]:
    """Worlds of relays that differ, by their seeds."""
    for seed in range(1_000):
        world = drawn(seed)
        odd = [b for r in world.relays for b in r.behaviours if isinstance(b, Refuses | Unreadable)]
        several = len({relay.items for relay in world.relays}) > 1
        if world.question != "mentions" and several and not odd and needs_others(world.query):
            yield world


NOTES = tuple(Item("note", person, -60 * person) for person in range(3))
DELETED = World(
    0,
    "notes",
    (RelaySpec(items=NOTES), RelaySpec(items=(Item("deletion", 0, 30, 0, NOTES[0]),))),
    (Step("count"),),
)
LEFT = World(
    1,
    "followers",
    (
        RelaySpec(items=(Item("follow", 1, -60), Item("follow", 2, -120))),
        RelaySpec(items=(Item("unfollow", 2, -30),)),
    ),
    (Step("count"),),
)


@pytest.mark.parametrize("world", [DELETED, LEFT, *islice(suitable(), 12)], ids=lambda w: w.seed)
def test_the_first_result_of_a_watch_is_that_of_a_count(world: World) -> None:
    counted, _ = first_result(world, "count")
    watched, run = first_result(world, "watch")
    assert counted.merged.figure is not None
    assert watched.merged.figure == counted.merged.figure
    assert watched.authors == counted.authors
    assert watched.events == counted.events
    assert run.report.violations == []


@pytest.mark.parametrize("world", [DELETED, LEFT])
def test_what_differs_is_judged_and_exact_at_once(world: World) -> None:
    watched, _ = first_result(world, "watch")
    assert watched.merged.figure is not None
    assert watched.merged.figure.exact
    assert watched.value == (2 if world is DELETED else 1)
