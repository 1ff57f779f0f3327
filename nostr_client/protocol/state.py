"""Keep the state of the pending requests of `protocol.Connection`."""

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
"""Number of events that no relay's cap cuts. The smallest caps in use are some tens."""


class Stamp(NamedTuple):
    """Time (Unix seconds) and id (hex) of an event frame, as the relay wrote them."""

    created_at: int
    id: str


class StoredFrames(msgspec.Struct, frozen=True, kw_only=True):
    """One answer to a REQ.

    - `stamps`: its EVENT frames in order, with None for an unreadable frame.
    - `limit`: number of events at which the filters' own limits cut the answer, or None if they
      cannot cut it.
    - `excess`: number of frames beyond the limit. They have no stamps.
    - `hint`: what the relay said at EOSE (NIP-67).
    """

    stamps: tuple[Stamp | None, ...] = ()
    limit: int | None = None
    excess: int = 0
    hint: Hint | None = None

    @property
    def frames(self) -> int:
        """The number of EVENT frames, valid or not. It shows whether a page is full."""
        return len(self.stamps) + self.excess

    @property
    def unread(self) -> int:
        """The number of unreadable EVENT frames."""
        return self.stamps.count(None)

    @property
    def limited(self) -> bool:
        """Whether the client's own limit may have cut the answer. The hint then proves nothing."""
        return self.limit is not None and self.frames >= self.limit

    @property
    def finished(self) -> bool:
        """Whether the relay says that this is everything, and the limit cut nothing off."""
        return self.hint is Hint.FINISH and not self.limited

    def may_be_cut(self, largest: int) -> bool:
        """Return True if the relay may have more than it sent. `largest`: its largest page so far.

        Without a hint, only a larger page shows that a cap did not cut this page.
        """
        if self.limited or self.hint is Hint.MORE:
            return True
        return self.hint is None and self.frames >= largest

    def second_may_be_cut(self, largest: int) -> bool:
        """Return the same for an answer of one second. A few events are never a full page."""
        certain = self.limited or self.hint is Hint.MORE
        return certain or (self.frames >= SMALL and self.may_be_cut(largest))

    def within(self, since: int, until: int | None) -> list[Stamp]:
        """Return the readable stamps from `since` to `until` in order.

        Both seconds are included.
        """
        return [
            one
            for one in self.stamps
            if one is not None
            and since <= one.created_at
            and (until is None or one.created_at <= until)
        ]

    def unread_near(self) -> set[int]:
        """Return the seconds nearest to unreadable frames, from the frame before or after."""
        near: set[int] = set()
        known = next((one.created_at for one in self.stamps if one is not None), None)
        for one in self.stamps:
            if one is not None:
                known = one.created_at
            elif known is not None:
                near.add(known)
        return near


MAX_NOTICES = 4
"""Most NOTICEs kept for one pending COUNT. They are enough to explain a false zero."""


class SubscriptionTally(msgspec.Struct):
    """Counts of one subscription, which grow over reconnects."""

    frames: int = 0
    """EVENT frames, valid or not. They show whether a page is full."""
    bytes: int = 0
    malformed: int = 0
    """EVENT frames with an invalid event, or with more tags than `Limits` allows."""
    mismatched: int = 0
    """Events that no filter of the subscription matches."""
    excess: int = 0
    """Stored events beyond the requested limit."""
    hint: Hint | None = None
    """What the relay said at its last EOSE (NIP-67)."""
    stamps: list[Stamp | None] = []
    """The frames of a stored query with a limit, as in `StoredFrames`."""


class FrameTally(msgspec.Struct):
    """Counts of one whole connection."""

    frames: int = 0
    rejected: int = 0
    """Frames that are no message of a supported NIP."""
    unknown: int = 0
    """Messages about requests that the client did not send, or that had ended."""
    notices: int = 0


class Phase(Enum):
    """State of a request."""

    WAITING = auto()  # for a free slot
    SENT = auto()
    PARKED = auto()  # until AUTH is settled


@dataclass(slots=True)
class PendingRequest:
    """A message that waits for its answer. It is sent again after AUTH at most once (`resent`)."""

    text: str
    phase: Phase = Phase.SENT
    resent: bool = False
    notices: list[str] = field(default_factory=list)

    def hear(self, notice: str) -> None:
        """Remember a NOTICE that came while the request was pending."""
        if len(self.notices) < MAX_NOTICES:
            self.notices.append(notice)


@dataclass(slots=True)
class SubscriptionState(PendingRequest):
    """An open REQ: its filters, and counts of matching and other events."""

    filters: tuple[Filter, ...] = ()
    live: bool = True
    tally: SubscriptionTally = field(default_factory=SubscriptionTally)
    slack: int = 0
    stored_end: bool = False
    sent_at: int = 0
    """Position in the order of REQ and CLOSE, not a time."""
    refusals: int = 0
    wanted: int | None = None
    matched: int = 0
    strays: int = 0  # of this REQ alone, because a reconnect resets it

    def __post_init__(self) -> None:
        self.wanted = wanted_events(self.filters)

    def received(self, size: int, stamp: Stamp | None) -> None:
        """Count an EVENT frame, valid or not. `stamp` is None if the frame is unreadable."""
        self.tally.frames += 1
        self.tally.bytes += size
        if not self.live and self.wanted is not None and self.matched < self.wanted:
            self.tally.stamps.append(stamp)

    def accepts(self, event: Event) -> bool:
        """Count an event. Return False if the event was not requested."""
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
        """Whether more unrequested events came than `wanted` and `slack` allow together."""
        return self.strays > (self.wanted or 0) + self.slack


def wanted_events(filters: Sequence[Filter]) -> int | None:
    """Return the most stored events that these filters can ask for, or None without a bound."""
    total = 0
    for one in filters:
        bounds = [
            n for n in (one.limit, None if one.ids is None else len(one.ids)) if n is not None
        ]
        if not bounds:
            return None
        total += min(bounds)
    return total


def cutting_limit(filters: Sequence[Filter]) -> int | None:
    """Return how many stored events the limits of these filters let through, or None.

    None: no limit can cut the answer, because each filter has no limit or asks for as few ids.
    """
    if all(one.limit is None or _asks_few(one, one.limit) for one in filters):
        return None
    return wanted_events(filters)


def _asks_few(filter: Filter, limit: int) -> bool:
    return filter.ids is not None and len(filter.ids) <= limit
