"""What a relay sent for one stored query, as it was sent: before anything was verified or judged.

A reading goes on from here, never from what was kept of a page: a page of events that do not hold
hides none of those that come after it.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from nostr_client.messages import Hint

SMALL: Final = 10
"""Events that no relay's cap cuts: the caps in use begin at some tens."""


class Stamp(NamedTuple):
    """Time (Unix seconds) and id (hex) of an event frame, as the relay wrote them."""

    created_at: int
    id: str


class Sent(msgspec.Struct, frozen=True, kw_only=True):
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
