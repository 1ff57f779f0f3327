"""Decide when enough relays were asked: bound what the others would add, by their earlier answers.
Pure.

Registers compare the people of relays that were asked with those of relays that were not: the
interval of the Jaccard index between the asked and all bounds the share that only the latter have.
Of a relay that was not asked, only people whom another relay also has count: else a relay that
invents people would always be asked first.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import msgspec

from nostr_client import hll
from nostr_client.count.earlier_questions import confirmed
from nostr_client.hll.overlap import jaccard_interval
from nostr_client.network.outbox.evidence import TURN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nostr_client.count.earlier_questions import EarlierQuestions

FINEST: Final = 0.05
"""The finest line that registers of one question can measure: their error is 4 to 6.5 %."""

FINEST_BY_OTHERS: Final = 0.02
"""The finest line with other questions beside it: relays hold alike parts, not equal ones."""

_Z: Final = 2.0
"""Standard errors of the bound: it is tested after each batch, and may stop at any of them."""

_RAISES: Final = 1 / (2 * math.log(2))
"""How often the rank of a new person is above the largest of n others, times n (large n)."""


class Unasked(msgspec.Struct, frozen=True, kw_only=True):
    """Relays that were not asked. `high`: together they add at most this share of all people.

    Only people whom two relays have count. `known` gave an earlier answer, on which the bound is
    based; `never` gave none.
    """

    known: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    high: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return the relays and the bound in the form of their JSON."""
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
        shared = self._shared()
        for _ in range(max(1, len(self._asked) // 2)):
            if self._is_turn() and self._never:
                batch.append(self._never.pop(0))
            elif self._known:
                best = self._best(asked, shared)
                asked = hll.merge(asked, self._known[best])
                batch += self._taken([], [best])
        return batch

    def answered(self, url: str, registers: bytes | None) -> None:
        """Add a relay's answer of now; None: nothing that shows its people."""
        self._asked[url] = hll.EMPTY if registers is None else registers

    @property
    def high(self) -> float:
        """Return the share of all people that the known relays add at most."""
        finer = self._by_others()
        return self._by_this() if finer is None else finer

    @property
    def _is_enough(self) -> bool:
        """Whether the rest adds less than the line.

        This question alone cannot show that for a fine line: relays were chosen by the same
        registers that would then show no gain.
        """
        found = self._by_others()
        if found is None and self._line >= FINEST:
            found = self._by_this()
        return found is not None and found < self._line

    def _by_this(self) -> float:
        """Return the bound that the registers of this question give."""
        asked = hll.merge(*self._asked.values())
        whole = confirmed(asked, (self._known | self._asked).values())
        if whole == hll.EMPTY:
            return 0.0
        raised = sum(a != b for a, b in zip(asked, whole, strict=True))
        return max(1.0 - jaccard_interval(asked, whole, _Z)[0], _part_at_most(raised))

    def _by_others(self) -> float | None:
        """Return the bound that other questions give, if they give one."""
        if self._others_asked is None or not self._known:
            return None
        now = {url: one for url, one in self._asked.items() if one != hll.EMPTY} | self._known
        return self._others_asked.bound(now, self._known)

    @property
    def left(self) -> Unasked:
        """Return those that were not asked."""
        return Unasked(known=tuple(self._known), never=tuple(self._never), high=self.high)

    def _is_turn(self) -> bool:
        self._turns += 1
        return self._turns % TURN == 0

    def _taken(self, never: list[str], known: list[str]) -> list[str]:
        self._never = [one for one in self._never if one not in never]
        for url in known:
            self._asked.setdefault(url, self._known.pop(url))  # until it answers
        return never + known

    def _best(self, asked: bytes, shared: Mapping[str, bytes]) -> str:
        """Return the relay that seems to add most people whom others know.

        Of relays that raise no register any more, it is the one that has most of these people: few
        new ones raise none. Of equals it is the first named.
        """
        return max(
            self._known,
            key=lambda url: (
                hll.estimate(hll.merge(asked, shared[url])),
                hll.estimate(shared[url]),
            ),
        )

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
