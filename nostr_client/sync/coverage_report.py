"""Declare the short form of a coverage: numbers without ids, as the store keeps them for history.

Light on purpose: the API and the terminal application import it. Times are Unix seconds.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

Share = Annotated[
    float | None,
    Meta(
        description="part of the known events that the relay should have, 0 to 1; null: not known,"
        " as the relay was not compared to the end, or no such event is known"
    ),
]


class HeldKind(msgspec.Struct, frozen=True, kw_only=True):
    """How many of the known events of one kind a relay has; a lower bound unless `whole`.

    `missing`: how many it should have and lacks, without protected and expired ones; None if that
    is not known, or the run is of an older version.
    """

    kind: int
    held: int
    whole: bool
    missing: int | None = None


class RelayCoverage(msgspec.Struct, frozen=True, kw_only=True):
    """One relay. `share`: the part of the known events of all kinds that it has, None if unknown.

    `undeleted`: events that it serves although their author deleted them. `why`: the reason if it
    was not compared to its end. `unconfirmed`: events that it names and nothing confirms; they
    count nowhere.
    """

    relay: str
    share: Share
    kinds: tuple[HeldKind, ...]
    undeleted: int = 0
    why: str = ""
    unconfirmed: int = 0

    @property
    def compared(self) -> bool:
        """Whether it was compared to its end; its share may be unknown all the same."""
        return self.share is not None or not self.why


class KnownKind(msgspec.Struct, frozen=True, kw_only=True):
    """How many events of one kind are known, over relays and store; `stored`: in the store."""

    kind: int
    known: int
    stored: int | None = None


class RepairedRelay(msgspec.Struct, frozen=True, kw_only=True):
    """What a repair did with one relay, in events: how many were planned, taken, and not."""

    relay: str
    planned: int
    taken: int
    had: int
    refused: int
    unsent: int


class CoverageRun(msgspec.Struct, frozen=True, kw_only=True):
    """A coverage at a time. `repaired`: what a repair after it did; None: none was made.

    `protected` and `expired`: how many of the known events are, as far as known; no repair moves
    them.
    """

    at: float
    author: str
    kinds: tuple[KnownKind, ...]
    relays: tuple[RelayCoverage, ...]
    repaired: tuple[RepairedRelay, ...] | None = None
    protected: int = 0
    expired: int = 0

    @property
    def known(self) -> int:
        """How many events are known, over relays and store."""
        return sum(one.known for one in self.kinds)

    @property
    def complete(self) -> bool:
        """Whether every relay was compared to its end."""
        return all(one.compared for one in self.relays)
