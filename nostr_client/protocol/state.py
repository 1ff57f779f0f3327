"""The bookkeeping of `protocol.Connection`: what is pending, and how far each of it got."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from nostr_client.codecs.messages import Hint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nostr_client.codecs.event import Event
    from nostr_client.codecs.filters import Filter


SMALL: Final = 10
"""Events that no relay's cap cuts: the caps in use begin at some tens."""


class Stamp(NamedTuple):
    """Time (Unix seconds) and id (hex) of an event frame, as the relay wrote them."""

    created_at: int
    id: str


class StoredFrames(msgspec.Struct, frozen=True, kw_only=True):
    """One answer to a REQ. `stamps`: its EVENT frames in their order, None for an unreadable one.

    `limit`: how many events were asked for, None without a bound. `excess`: frames beyond that,
    which are not among the stamps. `hint`: what the relay said at EOSE (NIP-67).
    """

    stamps: tuple[Stamp | None, ...] = ()
    limit: int | None = None
    excess: int = 0
    hint: Hint | None = None

    @property
    def frames(self) -> int:
        """EVENT frames of any quality: they say whether a page is full."""
        return len(self.stamps) + self.excess

    @property
    def unread(self) -> int:
        """EVENT frames that could not be read."""
        return self.stamps.count(None)

    @property
    def limited(self) -> bool:
        """Whether our own limit may have cut the answer; then its hint proves nothing either."""
        return self.limit is not None and self.frames >= self.limit

    @property
    def finished(self) -> bool:
        """Whether the relay says that this is everything, and may be believed."""
        return self.hint is Hint.FINISH and not self.limited

    def may_be_cut(self, largest: int) -> bool:
        """Whether the relay may hold more than it sent; `largest`: its largest page seen so far.

        Without a hint only a larger page shows that a cap did not cut this one.
        """
        if self.limited or self.hint is Hint.MORE:
            return True
        return self.hint is None and self.frames >= largest

    def second_may_be_cut(self, largest: int) -> bool:
        """As `may_be_cut`, for an answer that holds one second: a few events are never a page."""
        certain = self.limited or self.hint is Hint.MORE
        return certain or (self.frames >= SMALL and self.may_be_cut(largest))

    def within(self, since: int, until: int | None) -> list[Stamp]:
        """The readable stamps of a range of seconds, both ends included, in their order."""
        return [
            one
            for one in self.stamps
            if one is not None
            and since <= one.created_at
            and (until is None or one.created_at <= until)
        ]

    def unread_near(self) -> set[int]:
        """Seconds that stand for the unreadable frames: the time of the frame before, or after."""
        near: set[int] = set()
        known = next((one.created_at for one in self.stamps if one is not None), None)
        for one in self.stamps:
            if one is not None:
                known = one.created_at
            elif known is not None:
                near.add(known)
        return near


MAX_NOTICES = 4
"""NOTICEs remembered for one pending COUNT: enough to explain a false zero, never a flood."""


class SubscriptionTally(msgspec.Struct):
    """What one subscription received; grows over reconnects."""

    frames: int = 0
    """EVENT frames of any quality: the fullness of a page is counted in these."""
    bytes: int = 0
    malformed: int = 0
    """EVENT frames whose event is no NIP-01 event, or has more tags than `Limits` allows."""
    mismatched: int = 0
    """Events that no filter of the subscription matches."""
    excess: int = 0
    """Stored events beyond the limit that was asked for."""
    hint: Hint | None = None
    """What the relay said at its last EOSE (NIP-67)."""
    stamps: list[Stamp | None] = []
    """The frames of a stored query with a limit; see `StoredFrames`."""


class FrameTally(msgspec.Struct):
    """What one connection received, whole."""

    frames: int = 0
    rejected: int = 0
    """Frames that are no message of any NIP that we speak."""
    unknown: int = 0
    """Messages about requests that we did not make, or that ended before."""
    notices: int = 0


class Phase(Enum):
    """Where a request stands."""

    WAITING = auto()  # for a free slot
    SENT = auto()
    PARKED = auto()  # until AUTH is settled


@dataclass(slots=True)
class PendingRequest:
    """One message that wants an answer; `resent` after AUTH, at most once."""

    text: str
    phase: Phase = Phase.SENT
    resent: bool = False
    notices: list[str] = field(default_factory=list)

    def hear(self, notice: str) -> None:
        """Remember a NOTICE that came while this was pending."""
        if len(self.notices) < MAX_NOTICES:
            self.notices.append(notice)


@dataclass(slots=True)
class SubscriptionState(PendingRequest):
    """An open REQ: what it asked for, and how much of what came was that."""

    filters: tuple[Filter, ...] = ()
    live: bool = True
    tally: SubscriptionTally = field(default_factory=SubscriptionTally)
    slack: int = 0
    stored_end: bool = False
    sent_at: int = 0
    """A place in the order of REQ and CLOSE, not a time."""
    refusals: int = 0
    wanted: int | None = None
    matched: int = 0
    strays: int = 0  # of this REQ alone: a reconnect forgives

    def __post_init__(self) -> None:
        self.wanted = wanted_events(self.filters)

    def received(self, size: int, stamp: Stamp | None) -> None:
        """Count an EVENT frame of any quality; `stamp` None: it could not be read."""
        self.tally.frames += 1
        self.tally.bytes += size
        if not self.live and self.wanted is not None and self.matched < self.wanted:
            self.tally.stamps.append(stamp)

    def accepts(self, event: Event) -> bool:
        """Count an event in; False when it is not what was asked for."""
        if not any(one.matches(event) for one in self.filters):
            self.tally.mismatched += 1
            self.strays += 1
            return False
        if not self.stored_end and self.wanted is not None and self.matched >= self.wanted:
            self.tally.excess += 1
            self.strays += 1
            return False
        self.matched += 1
        return True

    @property
    def overrun(self) -> bool:
        """Whether there are more strays than a slip explains: as many as wanted, and slack."""
        return self.strays > (self.wanted or 0) + self.slack


def wanted_events(filters: Sequence[Filter]) -> int | None:
    """The most stored events that these filters can ask for, None where there is no bound."""
    total = 0
    for one in filters:
        bounds = [
            n for n in (one.limit, None if one.ids is None else len(one.ids)) if n is not None
        ]
        if not bounds:
            return None
        total += min(bounds)
    return total
