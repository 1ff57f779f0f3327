"""Declare the short form of a coverage: numbers without ids, as the store keeps them for history.

Light on purpose: the API and the terminal application import it. Times are Unix seconds.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

Share = Annotated[
    float | None,
    Meta(description="part of the known events, 0 to 1; null: not compared to the end"),
]


class HeldKind(msgspec.Struct, frozen=True, kw_only=True):
    """The known events of one kind that a relay has.

    - `held`: number of these events.
    - `whole`: whether the relay was compared completely. If not, `held` is a lower bound.
    """

    kind: int
    held: int
    whole: bool


class RelayCoverage(msgspec.Struct, frozen=True, kw_only=True):
    """The known events that one relay has.

    - `share`: share of the known events of all kinds, from 0 to 1. It is null if unknown.
    - `undeleted`: events that the relay still serves, although their author deleted them.
    - `why`: why the relay was not compared completely.
    - `unconfirmed`: events that the relay names without proof. They count nowhere.
    """

    relay: str
    share: Share
    kinds: tuple[HeldKind, ...]
    undeleted: int = 0
    why: str = ""
    unconfirmed: int = 0


class KnownKind(msgspec.Struct, frozen=True, kw_only=True):
    """The known events of one kind.

    - `known`: number of distinct events on all relays and in the store.
    - `stored`: number of these events in the store.
    """

    kind: int
    known: int
    stored: int | None = None


class RepairedRelay(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a repair for one relay, in numbers of events.

    - `planned`: events to send.
    - `taken`: events that the relay accepted.
    - `had`: events that the relay already had.
    - `refused`: events that the relay refused.
    - `unsent`: events that the repair did not send.
    """

    relay: str
    planned: int
    taken: int
    had: int
    refused: int
    unsent: int


class CoverageRun(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one comparison of relays.

    - `at`: time of the run.
    - `repaired`: result of the repair after this run, or null without a repair.
    """

    at: float
    author: str
    kinds: tuple[KnownKind, ...]
    relays: tuple[RelayCoverage, ...]
    repaired: tuple[RepairedRelay, ...] | None = None

    @property
    def known(self) -> int:
        """How many events are known, over relays and store."""
        return sum(one.known for one in self.kinds)

    @property
    def complete(self) -> bool:
        """Whether every relay was compared to its end."""
        return all(one.share is not None for one in self.relays)
