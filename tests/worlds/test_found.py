"""Worlds that showed a fault once, made small: each holds now, and names the rule that it broke."""

from __future__ import annotations

import pytest

from tests.worlds.behaviours import Cap, Counts, LiesCount, Negentropy, Omits, Unreadable
from tests.worlds.items import Item
from tests.worlds.model import Change, RelaySpec, Step, World
from tests.worlds.running import ran

ZAPS = (Item("zap", 0, 0), Item("zap", 2, -120))
NOTE = Item("note", 0, -1, 1)
NOTES = tuple(Item("note", person, -60 * person) for person in range(24))
FOREIGN = tuple(Item("foreign", 577 + i, -1_923 + i, 77 + i) for i in range(13))
AGAIN = tuple(Step(action) for action in ("both", "down") * 4)

FOUND = {
    "a frame that cannot be read proves no floor": World(
        554,
        "zaps",
        (RelaySpec((Negentropy(), Omits(5), Unreadable("deep")), ZAPS),),
        (Step("count", gap=3_600), Step("count", gap=21_600)),
    ),
    "an id that was named for another question does not count": World(
        4_765,
        "notes+reactions",
        (RelaySpec((Cap(13), Negentropy()), (NOTE, *FOREIGN)),),
        (Step("count", gap=21_600), Step("count", gap=3_600)),
    ),
    "negentropy does not fill the hole of a frame that could not be read": World(
        3_834,
        "notes",
        (RelaySpec((Negentropy(), Omits(1), Unreadable("deep")), NOTES),),
        (Step("count", gap=3_600), Step("count", gap=21_600)),
    ),
    "a list of ids is proven at its upper end too": World(
        742,
        "notes+reactions",
        (RelaySpec(), RelaySpec((Negentropy(), Omits(1)), (Item("reaction", 0, 0),))),
        (Step("count", changes=(Change(1, (Item("note", 422, -210),)),)),),
        kept=False,
    ),
    "the authors of deleted events may be fewer": World(
        61,
        "notes+reactions",
        (
            RelaySpec(items=(NOTE, Item("deletion", 0, 30, 0, NOTE))),
            RelaySpec(items=(*NOTES[1:], NOTE)),
        ),
        (Step("count"),),
    ),
    "a deletion that cannot be read is an open question": World(
        1_489,
        "notes+reactions",
        (
            RelaySpec(items=(Item("note", 115, -6_900),)),
            RelaySpec(
                (Unreadable("lone surrogate"),),
                (Item("deletion", 115, -6_870, 0, Item("note", 115, -6_900)),),
            ),
        ),
        (Step("count", gap=172_800),),
    ),
    "an equal count does not fill the hole of a frame that could not be read": World(
        2_170,
        "notes+reactions",
        (
            RelaySpec(
                (Counts(), LiesCount(0.9), Unreadable("lone surrogate")),
                (Item("reaction", 7, -420),),
            ),
            RelaySpec(),
        ),
        (
            Step("watch", gap=3_600, live=(Change(0, (Item("note", 302, 52),)),)),
            Step("count"),
        ),
        kept=False,
    ),
    "an event that breaks the connection is not asked for in every run": World(
        4_678,
        "notes",
        (RelaySpec((Negentropy(), Unreadable("too big")), (Item("note", 9, -540),)),),
        AGAIN,
    ),
}


@pytest.mark.parametrize("world", FOUND.values(), ids=FOUND)
def test_a_world_that_failed_once_holds(world: World) -> None:
    assert ran(world).violations == []
