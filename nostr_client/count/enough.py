"""Decide when enough relays were asked: bound what the others would add, by their earlier answers.
Pure.

Registers compare the people of relays that were asked with those of relays that were not: the
interval of the Jaccard index between the asked and all bounds the share that only the latter have.
Of a relay that was not asked, only people whom another relay also has count: else a relay that
invents people would always be asked first.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import msgspec

from nostr_client import hll
from nostr_client.hll.overlap import jaccard_interval

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FINEST: Final = 0.05
"""The finest line that registers can measure: their own error is 4 to 6.5 %."""

_Z: Final = 2.0
"""Standard errors of the bound: it is tested after each batch, and may stop at any of them."""

_RAISES: Final = 1 / (2 * math.log(2))
"""How often the rank of a new person is above the largest of n others, times n (large n)."""

_TURN: Final = 10
"""Every tenth relay that is asked is one that was never asked before, if there is one."""


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


class Enough:
    """Chooses which relays to ask next. `known`: the registers of each earlier answer, by URL.

    `never`: relays without an earlier answer. `line`: stop when all that are left add less than
    this share. If more than a tenth of all was never asked, those come first.
    """

    def __init__(self, known: Mapping[str, bytes], never: Sequence[str], line: float) -> None:
        self._known = dict(known)
        self._never = list(never)
        self._line = line
        self._asked: dict[str, bytes] = {}
        self._turns = 0

    def next(self) -> list[str]:
        """Return the next relays to ask, half as many as were asked; none if it is enough."""
        if len(self._never) * _TURN > len(self._known) + len(self._asked) + len(self._never):
            return self._taken(self._never[:], [])
        if not self._known or (self._asked and self.high < self._line):
            return []
        batch: list[str] = []
        asked = hll.merge(*self._asked.values())
        for _ in range(max(1, len(self._asked) // 2)):
            if self._is_turn() and self._never:
                batch.append(self._never.pop(0))
            elif self._known:
                best = self._best(asked)
                asked = hll.merge(asked, self._known[best])
                batch += self._taken([], [best])
        return batch

    def answered(self, url: str, registers: bytes | None) -> None:
        """Add a relay's answer of now; None: nothing that shows its people."""
        self._asked[url] = hll.EMPTY if registers is None else registers

    @property
    def high(self) -> float:
        """Return the share of all people that the known relays add at most."""
        asked = hll.merge(*self._asked.values())
        whole = hll.merge(asked, *(self._worth(url) for url in self._known))
        if whole == hll.EMPTY:
            return 0.0
        raised = sum(a != b for a, b in zip(asked, whole, strict=True))
        return max(1.0 - jaccard_interval(asked, whole, _Z)[0], _part_at_most(raised))

    @property
    def left(self) -> Unasked:
        """Return those that were not asked."""
        return Unasked(known=tuple(self._known), never=tuple(self._never), high=self.high)

    def _is_turn(self) -> bool:
        self._turns += 1
        return self._turns % _TURN == 0

    def _taken(self, never: list[str], known: list[str]) -> list[str]:
        self._never = [one for one in self._never if one not in never]
        for url in known:
            self._asked.setdefault(url, self._known.pop(url))  # until it answers
        return never + known

    def _best(self, asked: bytes) -> str:
        """Return the relay that seems to add most people whom others know; of equals the first
        named."""
        return max(self._known, key=lambda url: hll.estimate(hll.merge(asked, self._shared(url))))

    def _shared(self, url: str) -> bytes:
        """Return the registers in which a relay equals another one: one person made both.

        A relay that invents many people has higher registers than the others, and few in common.
        """
        columns = zip(*self._others(url), strict=True)
        own = self._known[url]
        return bytes(v if v in others else 0 for v, others in zip(own, columns, strict=True))

    def _worth(self, url: str) -> bytes:
        """Return a relay's registers as far as all others together confirm them."""
        return bytes(map(min, self._known[url], hll.merge(*self._others(url))))

    def _others(self, url: str) -> list[bytes]:
        others = [one for key, one in (self._known | self._asked).items() if key != url]
        return others or [hll.EMPTY]


def _part_at_most(raised: int) -> float:
    """Return the share that is new if it raised so few registers, by the bound of a Poisson law.

    The interval of the likelihood is too narrow there. One new person in n raises a register with
    the probability _RAISES / n.
    """
    most = raised + _Z**2 / 2 + _Z * math.sqrt(raised + _Z**2 / 4)
    ratio = most / (hll.M * _RAISES)
    return ratio / (1 + ratio)
