"""Bound what relays add to a question by what they added to other questions. Pure.

One sketch is off by 4 to 6.5 %, and so is what it says of a small gain. The errors of other
questions, whose people and registers are others, are independent of it: over many questions their
mean is a finer measure, as far as relays hold alike parts of all.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from nostr_client import hll

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

_Z: Final = 2.0
"""Standard deviations, as of the bound of one question."""

_UNLIKE: Final = 3.0
"""Standard deviations beyond which the question is no more like the others."""

_RARE: Final = _Z**2 / hll.M
"""What a gain may be over all questions together where none shows any, times their number."""


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
        return mean + _Z * spread * (1 + 1 / math.sqrt(len(gains))) + rare


def added(registers: Registers, left: Collection[str], *, alone: bool = False) -> float | None:
    """Return the share of all people that only the relays `left` have, as registers show it.

    Of those only people whom another relay also has count; `alone`: also people whom one relay
    alone has. None if the people are too few.
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
