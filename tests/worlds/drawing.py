"""Worlds from seeds: every choice is made here, by one `random.Random`."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Final

from tests.worlds.behaviours import (
    Approximates,
    Away,
    Behaviour,
    Cap,
    Chokes,
    Counts,
    Drops,
    FalseZero,
    Finishes,
    FinishesAtTheLimit,
    FinishesEarly,
    Invents,
    LiesCount,
    Limits,
    MinedKeys,
    Negentropy,
    OddHint,
    OldestFirst,
    Omits,
    Refuses,
    Silent,
    Sketches,
    Unordered,
    Unreadable,
    Withholds,
    WorksThrough,
)
from tests.worlds.items import Item
from tests.worlds.model import QUESTIONS, SORTS, Change, RelaySpec, Step, World

if TYPE_CHECKING:
    from collections.abc import Sequence

HOUR: Final = 3_600
DAY: Final = 86_400

PREFIXES: Final = (
    "",
    "error: out of order",
    "restricted: members only",
    "rate-limited: slow down",
    "auth-required: who are you?",
    "blocked: not here",
    "invalid: no",
    "pow: 30 bits",
    "no prefix at all",
)
"""Reasons of refusals: every prefix of NIP-01, none, and nothing."""


MOODS: Final = ("wild", "calm", "hasty", "patient", "large", "stale", "sketched", "private")

TRICKS: Final = ("", "one has mined keys", "all have mined keys", "one counts more")
"""What is odd in a sketched world."""

ODD_HINTS: Final[tuple[object, ...]] = (
    "finish",
    ["done"],
    ["finish", "more"],
    [],
    1,
    None,
    {"finish": True},
    [["finish"]],
)
"""Third elements of EOSE that say nothing: NIP-67 has a list with one known word."""


def drawn(seed: int) -> World:
    """The world of a seed."""
    return _Drawing(seed).world()


class _Drawing:
    """One world while it is drawn; its mood decides what is likely in it.

    wild: anything. calm: honest relays alone. hasty: many syncs, a minute apart. patient: syncs
    days apart, with relays that refuse something once. large: more events than a page. stale:
    counts of relays whose NIP-77 answers leave something out. swapped: counts of relays that lose
    old events and get as many others late. sketched: relays that give registers alone, of many
    people. private: syncs of a store with events that must not leave it.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.rng = random.Random(seed)
        self.question = self.rng.choice(QUESTIONS)
        self.mood = self.rng.choices(MOODS, (49, 25, 5, 7, 3, 3, 6, 2))[0]
        if self.mood in ("hasty", "patient") and self.question == "zaps":
            self.question = "notes"
        self.trick = self.rng.choice(TRICKS)
        if self.mood == "sketched":
            mined = self.trick in TRICKS[1:3]
            self.question = self.rng.choice(("followers", "reactions")) if mined else "followers"
        if self.mood == "private":
            self.question = "mentions"
        if self.mood == "stale" and self._chance(0.4):
            self.mood = "swapped"
            self.question = self.rng.choice(("followers", "notes", "zaps"))
        elif self.mood == "stale" and self._chance(0.6):
            self.question = self.rng.choice(("notes", "notes+reactions"))
        self.steps = self.rng.choice((1, 2, 2, 3, 3, 4, 6))
        if self.mood in ("hasty", "patient"):
            self.steps = 12 if self.mood == "hasty" else 4
        self.syncs = self.mood in ("hasty", "patient", "private")
        if self.mood in ("stale", "swapped"):
            self.steps = 3
        elif self.mood == "sketched":
            self.steps = 1
        elif self.question != "zaps" and self._chance(0.3):
            self.syncs = True
        self.alone = self._chance(0.25) and self.mood != "sketched"
        if self.mood == "swapped":  # a union needs members, the receipts of one relay a number
            self.alone = self.question == "zaps"
        if self.mood == "stale":
            self.alone = self._chance(0.1)
        self.is_first = True
        self.pool = self._pool()

    @property
    def is_listed(self) -> bool:
        """Whether several relays are asked for the ids of their events."""
        return self.question in ("notes", "notes+reactions") and not self.alone

    def _chance(self, part: float) -> bool:
        return self.rng.random() < part

    def world(self) -> World:
        many = 1 if self.alone else self.rng.choice((2, 2, 3, 3, 4, 8))
        if self.mood == "stale":
            many = min(many, 2)
        sketched = self.mood == "sketched"
        relays = self._sketched() if sketched else tuple(self._relay() for _ in range(many))
        steps = tuple(self._step(i, relays) for i in range(self.steps))
        local = tuple(self._some(0.3)) if self.syncs and self._chance(0.6) else ()
        kept = self.syncs or self.mood == "stale" or self._chance(0.8)
        private = self.mood != "private" or self._chance(0.3)
        return World(self.seed, self.question, relays, steps, kept, local, private)

    # What there is.

    def _pool(self) -> list[Item]:
        """Everything that anybody wrote about the question."""
        people = 125 if self.mood == "large" else self.rng.choice((1, 3, 8, 20, 40, 80, 130))
        if self.mood == "sketched":
            people = self.rng.choice((60, 130, 400, 400, 900))
        elif self.mood == "swapped":
            people = 130
        elif self.mood == "stale":
            people = self.rng.choice((3, 8) if self.is_listed else (20, 40))
        pool = [
            Item(self.rng.choice(SORTS[self.question]), person, -60 * person - n, n)
            for person in range(people)
            for n in range(1 if self.question == "followers" else self.rng.choice((1, 1, 1, 2)))
        ]
        if self.mood == "large" and self.question != "followers":
            pool = [item._replace(at=item.at - 10 * n, n=n) for item in pool for n in range(5)]
        if self._chance(0.15):
            pool = self._dense(pool)
        return pool

    def _dense(self, pool: list[Item]) -> list[Item]:
        """Many of them in one second."""
        start = self.rng.randrange(len(pool))
        size = self.rng.choice((12, 40, 100))
        same = pool[start].at
        dense = [item._replace(at=same) for item in pool[start : start + size]]
        return pool[:start] + dense + pool[start + size :]

    def _some(self, part: float) -> list[Item]:
        return [item for item in self.pool if self._chance(part)]

    def _relay(self) -> RelaySpec:
        shares = (0.3, 0.7) if self.mood == "stale" else (0.3, 0.7, 0.95, 1.0)
        items = self._some(self.rng.choice(shares))
        if self.mood != "calm":
            items += self._junk() if self._chance(0.1) else []
            items += self._versions(items) if self._chance(0.1) else []
        return RelaySpec(tuple(self._behaviours()), tuple(items))

    def _sketched(self) -> tuple[RelaySpec, ...]:
        """Three or four relays with registers, and with what is odd in this world."""
        mined = MinedKeys(self.rng.choice((3, 10, 30)), self.rng.choice((14, 20)))
        odd: dict[str, Behaviour] = dict.fromkeys(TRICKS[1:3], mined)
        odd["one counts more"] = LiesCount(1.15)
        out = []
        part = self.rng.choice((0.7, 0.95, 0.95))
        for i in range(self.rng.choice((3, 4))):
            items = tuple(self._some(part))
            has_it = self.trick in odd and (i == 0 or self.trick.startswith("all"))
            out.append(RelaySpec((Sketches(), odd[self.trick]) if has_it else (Sketches(),), items))
        return tuple(out)

    def _junk(self) -> list[Item]:
        """Events that do not count, newer than all that do, or amid them."""
        n = self.rng.choice((1, 5, 30, 90))
        receipts = ["junk zap", "junk zap", "astray zap"] if self.question == "zaps" else []
        sorts = ["bad signature", "foreign", *receipts]
        sort = self.rng.choice(sorts)
        at = self.rng.choice((1, -2_000))
        of = SORTS[self.question][0] if sort == "bad signature" else None
        return [Item(sort, 500 + i, at + i, i, of) for i in range(n)]

    def _versions(self, items: Sequence[Item]) -> list[Item]:
        """Newer lists that lack the key, and deletions."""
        chosen = [item for item in items if self._chance(0.1)]
        if self.question == "followers":
            sort = "unfollow" if self._chance(0.7) else "follow"
            return [Item(sort, item.person, item.at + 30) for item in chosen]
        if self.question == "zaps":
            return []
        return [Item("deletion", item.person, item.at + 30, 0, item) for item in chosen]

    # How relays behave.

    def _behaviours(self) -> list[Behaviour]:
        rng = self.rng
        chosen: list[Behaviour] = []
        if self._chance(0.2 if self.mood == "large" else 0.5):
            chosen.append(Cap(rng.choice((13, 31, 50, 73, 78, 100))))
        if self.mood == "stale":
            return [*chosen, *self._stale()]
        if self.mood == "swapped":
            return [*chosen, Counts()]
        if self.mood in ("calm", "patient", "private"):
            chosen += self._honest()
            return chosen + (self._once() if self.mood == "patient" else [])
        if self._chance(0.1):
            of_all = self._chance(0.5)
            orders = [OldestFirst(of_all), Unordered(of_all)]
            orders += [OldestFirst(of_all, turned=True)] if of_all else []
            chosen.append(rng.choice(orders))
        chosen += self._hint()
        chosen += self._counting()
        if any(isinstance(one, FalseZero) for one in chosen):  # it refuses us in all it is asked
            return [*chosen, Refuses("REQ", "restricted: members only", 999)]
        chosen += self._negentropy()
        if self._chance(0.08):
            chosen.append(Unreadable(rng.choice(tuple(Unreadable.WAYS))))
        early = FinishesEarly() in chosen  # which only a COUNT shows: that is never refused
        return chosen + ([] if early else self._refusals())

    def _stale(self) -> list[Behaviour]:
        """What the first relay of a stale world leaves out of NIP-77; the others do not."""
        honest, self.is_first = not self.is_first, False
        if honest:
            return [Negentropy()]
        if self.is_listed:  # seen by a first count, and amid the list once something newer comes
            return [Negentropy(), Omits(1, newest=True)]
        if self._chance(0.3):
            return [Negentropy(20)]
        return [Negentropy(), Omits(self.rng.choice((1, 5))), Unreadable("deep")]

    def _honest(self) -> list[Behaviour]:
        """What honest relays differ in."""
        parts = ((Finishes(), 0.4), (Counts(), 0.3), (Negentropy(), 0.6), (WorksThrough(30), 0.1))
        return [one for one, part in parts if self._chance(part)]

    def _once(self) -> list[Behaviour]:
        """One thing that is refused once."""
        verb = self.rng.choice(("REQ", "NEG-OPEN", "EVENT", "EVENT"))
        return [Refuses(verb, self.rng.choice(PREFIXES), self.rng.choice((1, 1, 2)))]

    def _hint(self) -> list[Behaviour]:
        if self._chance(0.6):
            return []
        if self.mood == "large" and self._chance(0.7):
            return [FinishesAtTheLimit()]
        odd = (OddHint(x) for x in ODD_HINTS)
        return [self.rng.choice((*[Finishes()] * 5, FinishesAtTheLimit(), *odd))]

    def _counting(self) -> list[Behaviour]:
        if self._chance(0.35):
            return []
        if self.alone and self._chance(0.2):
            return [Counts(), LiesCount(0.0)]
        if self._chance(0.05) and not self.syncs:
            return [Counts(), FinishesEarly()]
        chosen: list[Behaviour] = [Sketches() if self._chance(0.35) else Counts()]
        if self._chance(0.3):
            lies = (
                *(LiesCount(factor) for factor in (0.0, 0.5, 0.9, 1.15, 2.0, 1e9)),
                LiesCount(plus=1),
                LiesCount(plus=2**63),
                Approximates(),
                Limits(self.rng.choice((1, 30))),
                FalseZero(says_so=self.steps % 2 == 0),
                MinedKeys(self.rng.choice((1, 3, 30)), self.rng.choice((9, 14, 20, 57))),
            )
            chosen.append(self.rng.choice(lies))
        return chosen

    def _negentropy(self) -> list[Behaviour]:
        if self._chance(0.5):
            return []
        newest = self.rng.choice((0, 5, 20, 40)) if self._chance(0.2) else None
        chosen: list[Behaviour] = [Negentropy(newest)]
        if not self.syncs and self._chance(0.1):
            chosen.append(Omits(self.rng.choice((1, 5))))
        if self._chance(0.15):
            chosen.append(WorksThrough(self.rng.choice((5, 30))))
        if self._chance(0.1):
            n = self.rng.choice((1, 5, 40))
            chosen.append(Withholds(n) if self._chance(0.5) else Invents(n, self._chance(0.5)))
        return chosen

    def _refusals(self) -> list[Behaviour]:
        rng = self.rng
        if self._chance(0.5 if self.mood == "hasty" else 0.8):
            return []
        if self.mood == "hasty" and self._chance(0.3):
            return [rng.choice((Chokes(), Drops()))]
        if self.mood == "hasty" and self._chance(0.5):
            return [Refuses("EVENT", rng.choice(("invalid: no", "pow: 30 bits")), 999)]
        step = rng.randrange(self.steps)
        verb = rng.choice(("REQ", "COUNT", "NEG-OPEN", "EVENT"))
        refuses = Refuses(verb, rng.choice(PREFIXES), rng.choice((1, 1, 1, 3, 999)))
        return [rng.choice((refuses, refuses, Silent(step), Away(step)))]

    # What happens.

    def _step(self, i: int, relays: Sequence[RelaySpec]) -> Step:
        rng = self.rng
        if self.mood == "hasty":
            return Step(rng.choice(("down", "both")))
        if self.mood == "sketched":
            return Step("count")
        if self.mood == "swapped":
            return Step("count", HOUR, self._swaps(i, relays) if i else ())
        action = "watch" if self._chance(0.15) else "count"
        if self.syncs:
            others = () if self.mood in ("patient", "private") else ("count",)
            action = rng.choice(("down", "down", "both", *others))
        return Step(
            action,
            gap=2 * DAY if self.mood == "patient" else rng.choice((60, HOUR, 6 * HOUR, 2 * DAY)),
            changes=self._changes(i, relays) if i else (),
            live=self._news(i, relays) if action == "watch" else (),
            restart=i > 0 and self._chance(0.2),
        )

    def _swaps(self, i: int, relays: Sequence[RelaySpec]) -> tuple[Change, ...]:
        """One relay loses events of more than an hour ago, and gets as many of that time late."""
        r = self.rng.randrange(len(relays))
        sort = "junk zap" if self.question == "zaps" else SORTS[self.question][0]
        old = [item for item in relays[r].items if item.at < -1.5 * HOUR]
        lost = self.rng.sample(old, min(self.rng.choice((1, 3)), len(old)))
        late = (Item(sort, 400 + 20 * i + k, -2 * HOUR + k) for k in range(len(lost)))
        return (Change(r, tuple(late), tuple(lost)),)

    def _news(self, i: int, relays: Sequence[RelaySpec]) -> tuple[Change, ...]:
        """Fresh events, as they come while somebody listens."""
        fresh = self._fresh(i)
        return tuple(Change(r, fresh) for r in range(len(relays)) if self._chance(0.7))

    def _fresh(self, i: int) -> tuple[Item, ...]:
        sort = SORTS[self.question][0]
        written = range(self.rng.choice((1, 3)))
        return tuple(Item(sort, 300 + 10 * i + k, 50 * (i + 1) + k) for k in written)

    def _changes(self, i: int, relays: Sequence[RelaySpec]) -> tuple[Change, ...]:
        """New, late and lost events on some relays."""
        if self._chance(0.4):
            return ()
        out = []
        for r, relay in enumerate(relays):
            adds = (
                list(self._fresh(i)) if self._chance(0.7 if self.mood == "stale" else 0.3) else []
            )
            if self._chance(0.3):  # late: dated among what was read long ago
                late = self.rng.choice((1, 3, 10))
                sort = SORTS[self.question][0]
                adds += [Item(sort, 400 + 20 * i + k, -90 - 60 * k) for k in range(late)]
            some = self.rng.choice((1, 3)) if self._chance(0.2) else 0
            lost = self.rng.sample(relay.items, min(some, len(relay.items)))
            if adds or lost:
                out.append(Change(r, tuple(adds), tuple(lost)))
        return tuple(out)
