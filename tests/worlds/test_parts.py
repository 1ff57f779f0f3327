"""The parts of the generator itself: a test of worlds is worth what these are."""

from __future__ import annotations

import asyncio

import pytest

from tests.worlds import clock, truth
from tests.worlds.behaviours import Cap, Negentropy, Refuses, Silent
from tests.worlds.drawing import drawn
from tests.worlds.items import Item, known, made, matches
from tests.worlds.model import Change, RelaySpec, Step, World
from tests.worlds.relays import SimRelay
from tests.worlds.running import ran
from tests.worlds.shrinking import described, shrunk

NOTES = tuple(Item("note", person, -60 * person) for person in range(4))


def test_time_jumps_to_the_next_timer() -> None:
    async def main() -> float:
        loop = asyncio.get_running_loop()
        started = loop.time()
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.sleep(3_600))
            group.create_task(asyncio.sleep(86_400))
        return loop.time() - started

    assert clock.run(main) == pytest.approx(86_400)


def test_a_loop_on_which_nothing_can_happen_says_so() -> None:
    async def main() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(clock.StandsStill):
        clock.run(main)


def test_an_item_is_signed_once_and_found_by_its_id() -> None:
    one = made(NOTES[0])
    assert made(NOTES[0]) is one
    assert known(one.id) is one
    assert not made(Item("bad signature", 1, 0, 0, "note")).valid


@pytest.mark.parametrize(
    ("asked", "number"),
    [
        ({}, 4),
        ({"kinds": [1]}, 4),
        ({"kinds": [7]}, 0),
        ({"authors": [made(NOTES[1]).pubkey]}, 1),
        ({"until": made(NOTES[1]).created_at}, 3),
        ({"since": made(NOTES[1]).created_at}, 2),
        ({"#p": ["x"]}, 0),
    ],
)
def test_filters_in_plain_python(asked: dict[str, object], number: int) -> None:
    assert sum(matches(asked, made(item)) for item in NOTES) == number


def test_a_relay_keeps_the_newest_list_and_takes_deletions() -> None:
    follow, unfollow = Item("follow", 1, 0), Item("unfollow", 1, 5)
    relay = SimRelay("ws://r", (), (unfollow, follow, *NOTES), 0.01)
    relay.take(made(Item("deletion", 0, 9, 0, NOTES[0])))
    assert made(follow).id not in relay.held
    assert made(NOTES[0]).id in relay.gone
    relay.take(made(NOTES[0]))
    assert made(NOTES[0]).id not in relay.held


def test_the_truth_of_several_relays_is_their_union() -> None:
    first, second = RelaySpec(items=NOTES[:3]), RelaySpec(items=NOTES[1:])
    world = World(0, "notes", (first, second), (Step("count"),))
    relays = [
        SimRelay(f"ws://{i}", s.behaviours, s.items, 0.01) for i, s in enumerate(world.relays)
    ]
    right = truth.of_count(world, relays, ())
    assert right.events == right.authors == frozenset({4})
    assert right.most_events == 4


def test_a_newer_list_elsewhere_takes_a_follower_off() -> None:
    first = RelaySpec(items=(Item("follow", 1, 0), Item("follow", 2, 0)))
    second = RelaySpec(items=(Item("unfollow", 1, 5),))
    world = World(0, "followers", (first, second), (Step("count"),))
    relays = [
        SimRelay(f"ws://{i}", s.behaviours, s.items, 0.01) for i, s in enumerate(world.relays)
    ]
    assert truth.of_count(world, relays, ()).authors == {1}


def test_an_honest_world_has_no_violation() -> None:
    honest = RelaySpec((Cap(13), Negentropy()), NOTES)
    steps = (Step("count"), Step("count", changes=(Change(0, (Item("note", 9, -30),)),)))
    report = ran(World(0, "notes", (honest,), steps))
    assert not report.violations
    assert report.tally["count: exact"] == report.tally["count: proof was to be had"] == 2


def test_shrinking_keeps_what_matters_and_moves_steps() -> None:
    wanted = Silent(step=2)
    relays = (RelaySpec((Cap(50), wanted), NOTES), RelaySpec((Refuses("REQ", "", 1),), NOTES))
    world = World(7, "notes", relays, (Step("count"), Step("count"), Step("count")))

    def fails(one: World) -> bool:
        return any(
            isinstance(b, Silent) and b.step == len(one.steps) - 1
            for relay in one.relays
            for b in relay.behaviours
        )

    small = shrunk(world, fails)
    assert (len(small.relays), len(small.steps), small.relays[0].items) == (1, 1, ())
    assert small.relays[0].behaviours == (Silent(step=0),)


def test_a_world_prints_as_the_python_that_makes_it() -> None:
    from tests.worlds import behaviours

    names = {**vars(behaviours), "World": World, "RelaySpec": RelaySpec, "Step": Step}
    for seed in range(40):
        world = drawn(seed)
        again = eval(described(world), {**names, "Change": Change, "Item": Item})
        assert again == world
