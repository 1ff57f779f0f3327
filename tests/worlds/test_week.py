"""A week of a watch over six relays, one that lies and one that dies, and who did what in it.

The people are named by a plain script over the events that each relay held, day by day.
"""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from nostr_client.watch import WatchRepository, digest_rows, people_rows
from tests.worlds import clock
from tests.worlds.behaviours import Away, Cap, Counts, LiesCount, Negentropy, Sketches
from tests.worlds.items import Item, made
from tests.worlds.model import Change, RelaySpec, Step, World
from tests.worlds.people import START
from tests.worlds.running import BEGINNING, Run

if TYPE_CHECKING:
    from nostr_client.watch.digest import WatchDigest
    from nostr_client.watch.people import People
    from tests.worlds.relays import SimRelay

DAY = 86_400
DAYS = 7
DIES = 4
MIDDAY = 3
MIDDLE = int(BEGINNING + (MIDDAY + 0.5) * DAY)


@dataclass(frozen=True)
class Dead(Away):
    """Takes no connection from this step of the world on."""

    def is_away(self, relay: SimRelay) -> bool:
        return relay.step >= self.step


BEHAVIOURS = (
    (Cap(30),),
    (Negentropy(),),
    (Sketches(),),
    (Counts(), LiesCount(plus=10_000)),
    (Dead(4),),
    (),
)


class Deed(NamedTuple):
    """What a person does on a day, and on which relays it arrives."""

    day: int
    item: Item
    relays: tuple[int, ...]


def drawn_week(seed: int) -> list[Deed]:
    """Follows before the week, and on each day follows, unfollows and lists that stay."""
    rng = random.Random(seed)
    deeds = [Deed(0, Item("follow", n, -1000 - n), some(rng)) for n in range(40)]
    following, fresh = set(range(40)), 40
    gone: set[int] = set()
    for day in range(1, DAYS + 1):
        at = BEGINNING - START + (day - 1) * DAY + DAY // 2
        for n in range(rng.randint(1, 4)):
            deeds.append(Deed(day, Item("follow", fresh, at + n), some(rng)))
            fresh += 1
        for person in rng.sample(sorted(following - gone), 2):
            deeds.append(Deed(day, Item("unfollow", person, at + 100), tuple(range(6))))
            gone.add(person)
        stay = rng.sample(sorted(following - gone), 3)
        deeds += [Deed(day, Item("follow", person, at + 200), some(rng)) for person in stay]
        following |= set(range(40, fresh))
    return deeds


def some(rng: random.Random) -> tuple[int, ...]:
    """At least one relay that lives, and others."""
    return tuple({rng.choice((0, 1, 3, 5)), *rng.sample(range(6), rng.randint(0, 4))})


def week_world(seed: int, deeds: list[Deed]) -> World:
    first: list[list[Item]] = [[] for _ in BEHAVIOURS]
    changes: list[list[Change]] = [[] for _ in range(DAYS + 1)]
    for deed in deeds:
        for relay in deed.relays:
            if deed.day:
                changes[deed.day].append(Change(relay, adds=(deed.item,)))
            else:
                first[relay].append(deed.item)
    steps = [Step("watch", changes=tuple(changes[0]))]
    steps += [
        Step("watch", gap=DAY, changes=tuple(changes[day]), restart=day % 2 == 0)
        for day in range(1, DAYS + 1)
    ]
    relays = tuple(
        RelaySpec(behaviours, tuple(items))
        for behaviours, items in zip(BEHAVIOURS, first, strict=True)
    )
    return World(seed, "followers", relays, tuple(steps))


def told(world: World) -> tuple[People, WatchDigest]:
    """What the store says of the week's people, and of what changed since its middle."""

    async def go() -> tuple[People, WatchDigest]:
        with tempfile.TemporaryDirectory(prefix="week") as folder:
            run = Run(world, Path(folder))
            report = await run.run()
            assert report.violations == []
            now, since = int(run.clock.now()), int(BEGINNING + 60)
            path = Path(folder) / f"world-{world.seed}"
            async with await WatchRepository.open(path, read_only=True) as book:
                people = await book.database.read(
                    lambda conn: people_rows.read(conn, world.query, since, now, limit=1000)
                )
                digest = await book.database.read(
                    lambda conn: digest_rows.read(conn, "w", world.query, MIDDLE, now)
                )
                return people, digest

    return clock.run(go)


def expected(deeds: list[Deed]) -> dict[tuple[str, str], int]:
    """Who did what on which day: a script that knows all deeds."""
    known: set[int] = set()
    acts: dict[tuple[str, str], int] = {}
    for deed in sorted(deeds, key=lambda one: (one.day, one.item.at)):
        person, key = deed.item.person, made(deed.item).pubkey
        if deed.item.sort == "unfollow":
            acts.pop(("followed", key), None)
            acts["unfollowed", key] = deed.day
        elif person not in known and deed.day:
            acts["followed", key] = deed.day
        known.add(person)
    return acts


@pytest.mark.parametrize("seed", range(1, 5))
def test_the_people_of_a_week_are_those_of_a_script_over_its_events(seed: int) -> None:
    deeds = drawn_week(seed)
    people, digest = told(week_world(seed, deeds))
    wanted = expected(deeds)
    assert {(one.act, one.pubkey) for one in people.people} == set(wanted)
    times = [one.seen_at for one in people.people]
    assert times == sorted(times, reverse=True)
    days = {(one.act, one.pubkey): one.seen_at - BEGINNING for one in people.people}
    assert all(abs(days[act] / DAY - day) < 0.1 for act, day in wanted.items())
    late = Counter(act for (act, _), day in wanted.items() if day > MIDDAY)
    assert digest.acts == late
    assert (digest.came, digest.went) == ((), (f"ws://r{DIES}.test",))
    assert digest.new is not None
    assert digest.new.low <= late["followed"] <= digest.new.high
