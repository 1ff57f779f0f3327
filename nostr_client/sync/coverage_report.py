"""Define the short form of a coverage: numbers without ids, which the store keeps for history.

The module has few imports, because the API and the terminal application import it. Times are Unix
seconds.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

Share = Annotated[
    float | None,
    Meta(
        description="share of the known events that the relay should have, from 0 to 1; null if the"
        " relay was not compared completely, or if no such event is known"
    ),
]


class HeldKind(msgspec.Struct, frozen=True, kw_only=True):
    """The known events of one kind that a relay has.

    - `held`: number of these events.
    - `whole`: whether the relay was compared completely. If not, `held` is a lower bound.
    - `missing`: events that the relay lacks and should have. Protected and expired events do not
      count. It is null if unknown, and in runs of older versions.
    """

    kind: int
    held: int
    whole: bool
    missing: int | None = None


class RelayCoverage(msgspec.Struct, frozen=True, kw_only=True):
    """The known events that one relay has.

    - `share`: share of the known events of all kinds that the relay should have, from 0 to 1. It is
      null if unknown.
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

    @property
    def compared(self) -> bool:
        """Whether the relay was compared to its end. Its share may still be unknown."""
        return self.share is not None or not self.why


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
    - `protected`: known events that are protected, as far as known. A repair does not send them.
    - `expired`: known events that are expired, as far as known. A repair does not send them.
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
        """The number of known events, over relays and store."""
        return sum(one.known for one in self.kinds)

    @property
    def complete(self) -> bool:
        """Whether every relay was compared to its end."""
        return all(one.compared for one in self.relays)
