"""Decide when enough relays were asked: bound what the others would add, by their earlier answers.
Pure.

Registers compare the people of relays that were asked with those of relays that were not: the
interval of the Jaccard index between the asked and all bounds the share that only the latter have.
People whom one relay alone has may be real or invented. So they give a relay no place in front of
others, and two bounds are computed: one of people whom two relays have, and one of all people.
The second decides when to stop. It is a share of people whom two relays confirm, so an asked relay
that invents many people does not make it small.

One sketch is off by 4 to 6.5 %, and so is what it says of a small gain. The errors of other
questions, whose people and registers are others, are independent of it: over many questions their
mean is a finer measure, as far as relays hold alike parts of all.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import msgspec

from nostr_client import hll
from nostr_client.hll.overlap import fitted_jaccard_interval
from nostr_client.network.outbox.evidence import TURN

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    Registers = Mapping[str, bytes]
    """The registers of each relay, by URL, of one question."""

LEAST_QUESTIONS: Final = 20
"""Questions that show how gains spread: fewer leave the spread itself uncertain by a fifth."""

MOST_QUESTIONS: Final = 100
"""Questions that are read, the newest: more make a bound finer by little, and each costs 1 ms."""

MONTH: Final = 30 * 86_400.0
"""Seconds: older answers are of other relays than today's."""

LEAST_PEOPLE: Final = 50
"""People of a question below which one more or less moves a gain by more than a finest line."""

_Z_OTHERS: Final = 2.0
"""Standard deviations of the mean over other questions."""

_UNLIKE: Final = 3.0
"""Standard deviations beyond which the question is no more like the others."""

_RARE: Final = _Z_OTHERS**2 / hll.M
"""What a gain may be over all questions together where none shows any, times their number."""

FINEST: Final = 0.05
"""The finest line that registers of one question can measure: their error is 4 to 6.5 %."""

FINEST_BY_OTHERS: Final = 0.02
"""The finest line with other questions beside it: relays hold alike parts, not equal ones."""

LEAST_CONFIRMED: Final = 0.5
"""The confirmed share of the asked people below which other questions bound nothing: inventions
hide gains in them as well."""

_Z: Final = 2.3
"""Standard errors of the bound: it is tested after each batch, and may stop at any of them. With
2.0 the bound of those that stop covers the truth 93 times in 100 (measured)."""

_RAISES: Final = 1 / (2 * math.log(2))
"""How often the rank of a new person is above the largest of n others, times n (large n)."""


class Unasked(msgspec.Struct, frozen=True, kw_only=True):
    """Relays that were not asked, and the most that those with an earlier answer (`known`) add.

    `high`: together they add at most this share of all people, also of people whom one relay alone
    gives. `confirmed_high`: the same of people whom two relays give. Both are shares from 0 to 1.
    `never` gave no earlier answer to use. `excluded`: the trust tests do not believe their earlier
    answers. No bound covers `never` and `excluded`.
    """

    known: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    high: float = 0.0
    confirmed_high: float = 0.0

    @property
    def relays(self) -> tuple[str, ...]:
        """Return all relays that were not asked."""
        return self.known + self.never + self.excluded

    def to_dict(self) -> dict[str, Any]:
        """Return the relays and the bounds in the form of their JSON."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found


class RelayPicker:
    """Chooses which relays to ask next. `known`: the registers of each earlier answer, by URL.

    `never`: relays without an earlier answer; every tenth relay that is asked is one of them. If
    they are more than a tenth of all, they come first. Of relays that seem to add alike, the one
    further in front comes first. `line`: stop when all that are left add less than this share.
    `others`: what relays answered to other questions, for a finer bound. `turn`: one that was never
    asked comes first.
    """

    def __init__(
        self,
        known: Mapping[str, bytes],
        never: Sequence[str],
        line: float,
        *,
        others: EarlierQuestions | None = None,
        turn: bool = False,
    ) -> None:
        self._others_asked = others
        self._turn = turn
        self._known = dict(known)
        self._never = list(never)
        self._line = line
        self._asked: dict[str, bytes] = {}
        self._turns = 0

    def next(self) -> list[str]:
        """Return the next relays to ask, half as many as were asked; none if it is enough."""
        if len(self._never) * TURN > len(self._known) + len(self._asked) + len(self._never):
            return self._taken(self._never[:], [])
        if self._turn and self._never:
            self._turn = False
            return self._taken(self._never[:1], [])
        if not self._known or (self._asked and self._is_enough):
            return []
        batch: list[str] = []
        asked = hll.merge(*self._asked.values())
        shown = self._shown()
        for _ in range(max(1, len(self._asked) // 2)):
            if self._is_turn() and self._never:
                batch.append(self._never.pop(0))
            elif self._known:
                best = self._best(asked, shown)
                asked = hll.merge(asked, self._known[best])
                batch += self._taken([], [best])
        return batch

    def answered(self, url: str, registers: bytes | None) -> None:
        """Add a relay's answer of now; None: nothing that shows its people, or not believed."""
        self._asked[url] = hll.EMPTY if registers is None else registers

    @property
    def high(self) -> float:
        """Return the share of all people that the known relays add at most."""
        return self._at_most(alone=True)

    @property
    def confirmed_high(self) -> float:
        """Return the same share of people whom two relays have."""
        return min(self._at_most(alone=False), self.high)

    def _at_most(self, *, alone: bool) -> float:
        if not self._known:
            return 0.0
        finer = self._by_others(alone=alone)
        return self._by_this(alone=alone) if finer is None else finer

    @property
    def _is_enough(self) -> bool:
        """Whether the rest adds less than the line.

        This question alone cannot show that for a fine line: relays were chosen by the same
        registers that would then show no gain.
        """
        found = self._by_others(alone=True)
        if found is None and self._line >= FINEST:
            found = self._by_this(alone=True)
        return found is not None and found < self._line

    def _by_this(self, *, alone: bool) -> float:
        """Return the bound that the registers of this question give."""
        asked = hll.merge(*self._asked.values())
        relays = [*self._known.values(), *self._asked.values()]
        whole = hll.merge(*relays) if alone else confirmed(asked, relays)
        if whole == hll.EMPTY:
            return 0.0
        raised = sum(a != b for a, b in zip(asked, whole, strict=True))
        part = max(1.0 - fitted_jaccard_interval(asked, whole, _Z)[0], _part_at_most(raised))
        return _of_confirmed(part, self._confirmed_share())

    def _by_others(self, *, alone: bool) -> float | None:
        """Return the bound that other questions give, if they give one."""
        share = self._confirmed_share()
        if self._others_asked is None or not self._known or share < LEAST_CONFIRMED:
            return None
        now = {url: one for url, one in self._asked.items() if one != hll.EMPTY} | self._known
        found = self._others_asked.bound(now, self._known, alone=alone)
        return None if found is None else _of_confirmed(found, share)

    def _confirmed_share(self) -> float:
        """Return the share of the asked relays' people whom another relay has too."""
        people = hll.estimate(hll.merge(*self._asked.values()))
        relays = [*self._known.values(), *self._asked.values()]
        whole = hll.estimate(hll.merge(*relays))
        if not people or math.isinf(whole):
            return 0.0
        without = _without(list(self._asked.values()), relays)
        alone = sum(whole - hll.estimate(others) for others in without)
        return max(0.0, 1.0 - alone / people)

    @property
    def left(self) -> Unasked:
        """Return those that were not asked."""
        return Unasked(
            known=tuple(self._known),
            never=tuple(self._never),
            high=self.high,
            confirmed_high=self.confirmed_high,
        )

    def _is_turn(self) -> bool:
        self._turns += 1
        return self._turns % TURN == 0

    def _taken(self, never: list[str], known: list[str]) -> list[str]:
        self._never = [one for one in self._never if one not in never]
        for url in known:
            self._asked.setdefault(url, self._known.pop(url))  # until it answers
        return never + known

    def _best(self, asked: bytes, shown: Mapping[str, bytes]) -> str:
        """Return the relay that seems to add most people of those that count now (`_shown`).

        Of relays that raise no register any more, it is the one that has most of these people: few
        new ones raise none. Of equals it is the first named.
        """
        return max(
            self._known,
            key=lambda url: (
                hll.estimate(hll.merge(asked, shown[url])),
                hll.estimate(shown[url]),
            ),
        )

    def _shown(self) -> Mapping[str, bytes]:
        """Return the people by which known relays are ordered: those whom others have too.

        If what is left adds few of these, people whom one relay alone has decide.
        """
        if self._asked and self.confirmed_high < self._line:
            return self._known
        return self._shared()

    def _shared(self) -> dict[str, bytes]:
        """Return of each known relay the registers in which it equals another: one person made
        both.

        A relay that invents many people has higher registers than the others, and few in common.
        """
        times = [
            Counter(column) for column in zip(*(self._known | self._asked).values(), strict=True)
        ]
        return {
            url: bytes(v if n[v] > 1 else 0 for v, n in zip(own, times, strict=True))
            for url, own in self._known.items()
        }


def _part_at_most(raised: int) -> float:
    """Return the share that is new if it raised so few registers, by the bound of a Poisson law.

    The interval of the likelihood is too narrow there. One new person in n raises a register with
    the probability _RAISES / n.
    """
    most = raised + _Z**2 / 2 + _Z * math.sqrt(raised + _Z**2 / 4)
    ratio = most / (hll.M * _RAISES)
    return ratio / (1 + ratio)


def _of_confirmed(part: float, share: float) -> float:
    """Return which part new people are of the new and the confirmed ones.

    `part`: which part they are of the new and all asked ones, of whom a `share` is confirmed.
    """
    if part >= 1.0:
        return 1.0
    ratio = part / (1.0 - part)
    return ratio / (share + ratio) if ratio else 0.0


def _without(some: Sequence[bytes], relays: Sequence[bytes]) -> list[bytes]:
    """Return for each of some relays the union of all other relays; `relays` are all."""
    if len(relays) < 2:
        return [hll.EMPTY for _ in some]
    tops = [sorted(column)[-2:] for column in zip(*relays, strict=True)]
    return [
        bytes(low if value == high else high for value, (low, high) in zip(one, tops, strict=True))
        for one in some
    ]


class EarlierQuestions:
    """Registers of relays in other questions; a question counts where all relays in it answered."""

    def __init__(self, questions: Sequence[Registers]) -> None:
        self._questions = questions

    def with_all(self, relays: Collection[str]) -> int:
        """Return how many questions have all of these relays."""
        return sum(all(url in one for url in relays) for one in self._questions)

    def bound(self, now: Registers, left: Collection[str], *, alone: bool = False) -> float | None:
        """Return the share that the relays `left` add at most to the others.

        `now`: the registers of all relays in this question. `alone`: as for `added`. None if too
        few questions have all of them, or if this one is unlike those.
        """
        gains = [
            gain
            for one in self._questions
            if all(url in one for url in now)
            and (gain := added({url: one[url] for url in now}, left, alone=alone)) is not None
        ]
        own = added(now, left, alone=alone)
        if len(gains) < LEAST_QUESTIONS or own is None:
            return None
        from statistics import fmean, stdev

        mean, spread = fmean(gains), stdev(gains)
        rare = _RARE / len(gains)
        if own > mean + _UNLIKE * spread + _RARE:
            return None
        return mean + _Z_OTHERS * spread * (1 + 1 / math.sqrt(len(gains))) + rare


def added(registers: Registers, left: Collection[str], *, alone: bool = False) -> float | None:
    """Return the share of all people that only the relays `left` have, as registers show it.

    Only people at a second relay count; `alone`: people at one relay alone count too. None if the
    people are too few.
    """
    asked = hll.merge(*(one for url, one in registers.items() if url not in left))
    whole = hll.merge(*registers.values()) if alone else confirmed(asked, registers.values())
    people = hll.estimate(whole)
    if whole == hll.EMPTY or not LEAST_PEOPLE <= people < math.inf:
        return None
    return max(0.0, 1.0 - hll.estimate(asked) / people)


def confirmed(asked: bytes, relays: Collection[bytes]) -> bytes:
    """Return the registers of the asked relays, with what two of all relays confirm."""
    if len(relays) < 2:
        return asked
    columns = zip(asked, *relays, strict=True)
    return bytes(max(first, sorted(column)[-2]) for first, *column in columns)
