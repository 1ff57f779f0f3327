"""Worlds that showed a fault once, made small: each holds now, and names the rule that it broke."""

from __future__ import annotations

import pytest

from tests.worlds.behaviours import (
    Cap,
    Chokes,
    Counts,
    LiesCount,
    Negentropy,
    Omits,
    Refuses,
    Sketches,
    Unordered,
    Unreadable,
    Withholds,
)
from tests.worlds.items import Item
from tests.worlds.model import Change, RelaySpec, Step, World
from tests.worlds.running import ran

ZAPS = (Item("zap", 0, 0), Item("zap", 2, -120))
NOTE = Item("note", 0, -1, 1)
NOTES = tuple(Item("note", person, -60 * person) for person in range(24))
FOREIGN = tuple(Item("foreign", 577 + i, -1_923 + i, 77 + i) for i in range(13))
DELETION = Item("deletion", 3, -150, of=Item("message", 3, -180))
LATE = (
    Item("note", 0, -1),
    Item("note", 114, -6_860, 2),
    Item("note", 114, -6_880, 4),
    Item("note", 120, -7_201),
    Item("note", 121, -7_290, 3),
    Item("note", 122, -7_361, 4),
    Item("note", 123, -7_410, 3),
)
JUNK = tuple(Item("bad signature", 527 + i, 28 + i, 27 + i, "note") for i in range(7))
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
    "an event that does not hold is asked for once in a run": World(
        1_525,
        "notes",
        (
            RelaySpec(
                (Counts(), Negentropy(), Withholds(5), Unreadable("too big")),
                (*LATE, Item("bad signature", 500, -2_000, of="note")),
            ),
        ),
        (Step("both"),),
        local=(
            LATE[0],
            Item("note", 114, -6_840),
            Item("note", 114, -6_870, 3),
            Item("note", 122, -7_361, 4),
        ),
    ),
    "an upload whose OK was not read waits before it is sent again": World(
        1_087,
        "reactions",
        (
            RelaySpec(
                (Negentropy(40), Unreadable("too big"), Refuses("EVENT", "invalid: no", 999)),
                (Item("reaction", 85, -5_100),),
            ),
        ),
        (Step("both"),) * 3,
        local=(Item("reaction", 84, -5_040), Item("reaction", 85, -5_100)),
    ),
    "a refusal without a reason doubles its wait": World(
        2_900,
        "notes",
        (RelaySpec((Refuses("EVENT", "", 999),)),),
        (Step("both"),) * 8,
        local=(Item("note", 9, -540),),
    ),
    "auth-required doubles its wait": World(
        2_514,
        "followers",
        (RelaySpec((Refuses("EVENT", "auth-required: who are you?", 3),)),),
        AGAIN,
        local=(Item("follow", 13, -780),),
    ),
    "an event that breaks the connection keeps no other from arriving": World(
        25,
        "notes",
        (RelaySpec((Negentropy(), Chokes())),),
        AGAIN,
        local=NOTES,
    ),
    "uploads that end with the run are remembered": World(
        575,
        "notes",
        (RelaySpec((Sketches(), Chokes())),),
        (Step("both"),) * 6,
        local=NOTES,
    ),
    "what a deletion proved stays proven": World(
        26,
        "messages",
        (
            RelaySpec(items=(DELETION,)),
            RelaySpec(items=(Item("message", 3, -180),)),
        ),
        (
            Step("count", gap=3_600),
            Step("count", gap=21_600, changes=(Change(0, (), (DELETION,)),)),
        ),
    ),
    "a later list of ids leaves out what was named before": World(
        3_158,
        "notes+reactions",
        (
            RelaySpec(),
            RelaySpec((Unordered(True), Negentropy(), Omits(1)), NOTES[:2]),
        ),
        (
            Step("count", gap=21_600),
            Step("count", changes=(Change(1, (Item("note", 321, 151), Item("note", 322, 152))),)),
        ),
    ),
    "made-up ids are no number, even where every relay names some": World(
        3_529,
        "notes+reactions",
        (
            RelaySpec((Negentropy(),), (Item("reaction", 4, -240), *JUNK)),
            RelaySpec((Negentropy(),), (Item("reaction", 4, -240), JUNK[0])),
        ),
        (Step("count", gap=21_600),),
    ),
    "receipts of an event that nobody gives are not judged": World(
        1_232,
        "zaps",
        (
            RelaySpec(
                (Refuses("REQ", "rate-limited: slow down", 3),),
                tuple(Item("astray zap", 500 + i, i, i) for i in range(8)),
            ),
        ),
        (Step("count"), Step("count")),
    ),
    "an id whose REQ was cut off doubles its wait": World(
        3_538,
        "messages",
        (
            RelaySpec(items=(Item("message", 5, -300), Item("message", 33, -1_980))),
            RelaySpec(
                (Negentropy(), Chokes()),
                (Item("bad signature", 529, -1_971, 29, "message"),),
            ),
        ),
        (Step("both"), Step("both"), Step("down")),
    ),
}


@pytest.mark.parametrize("world", FOUND.values(), ids=FOUND)
def test_a_world_that_failed_once_holds(world: World) -> None:
    assert ran(world).violations == []
