"""`Direction` and `SyncOptions` set which way a sync moves events, and its limits."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Final

from nostr_client.errors import InvalidInput

LEAST_FRAME: Final = 4096
"""Bytes of a negentropy message that the engine needs at least."""


class Direction(StrEnum):
    """The direction in which a sync moves events."""

    DOWN = "down"
    """From the relays to the store."""
    UP = "up"
    """From the store to the relays."""
    BOTH = "both"
    """In both directions."""

    @property
    def down(self) -> bool:
        """True when events are downloaded."""
        return self is not Direction.UP

    @property
    def up(self) -> bool:
        """True when events are uploaded."""
        return self is not Direction.DOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncOptions:
    """Limits of one sync with one relay; `dataclasses.replace` makes another."""

    window: int = 25_000
    """Local events in one session: half the bytes and a tenth of the latencies of a single big
    session, and small enough for relays that cap what they work through."""

    in_flight: int = 6
    """Sessions open at once on one relay; strfry allows 200, khatru 10, our own relay 8."""

    frame_bytes: int = 50_000
    """Bytes of our negentropy messages before hex: relays drop frames above 131,072 characters."""

    batch: int = 100
    """Ids in one REQ: relays cap filters at 100 to 1,000 values."""

    requests: int = 4
    """REQs for ids under way at one relay, so that the next comes while one is stored: `batch`
    times this is what a crash can cost."""

    high_water: int = 100
    """EVENTs without an OK at which an upload pauses."""

    low_water: int = 50
    """EVENTs without an OK at which it goes on."""

    pending_ids: int = 50_000
    """Ids that wait to be downloaded from one relay before its sessions wait: about 10 MB."""

    halvings: int = 64
    """Refused windows that are halved, beside two for each window that succeeds: a relay that
    refuses what is too old refuses its halves too."""

    tries: int = 3
    """Times that one window or one upload is tried when the connection or the relay fails."""

    patience: int = 64
    """Rounds of a session that may bring nothing new: an honest search needs a dozen."""

    unsent: int = 1_000
    """Ids that a relay may name and then not send, beside four for each one that it sends; relays
    hide some kinds from strangers, liars invent ids."""

    answer: float = 15.0
    """Seconds for the first answer to a NEG-OPEN: relays that do not know NIP-77 may be silent."""

    progress: float = 30.0
    """Seconds without any progress of a session, a download or an upload."""

    pause: float = 2.0
    """Seconds of the first pause after `rate-limited:`; doubled each time."""

    refusal_ttl: float = 86_400.0
    """Seconds for which a relay that says it has no NIP-77, or that a filter is no good, is read
    by REQ at once: relays are upgraded."""

    settled_ttl: float = 7 * 86_400.0
    """Seconds for which an event that a relay refuses by `invalid:` or `pow:`, or that no store
    can keep, is not tried again."""

    recheck_ttl: float = 86_400.0
    """Seconds for which an upload that a relay blocks, or has already, is not tried again."""

    retry_first: float = 60.0
    """Seconds until whatever else failed is tried again; doubled each time: most trouble passes
    within minutes."""

    retry_longest: float = 86_400.0
    """The longest of these waits, in seconds."""

    pages: bool = True
    """Read by REQ, page by page, what cannot be read by negentropy."""

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if not isinstance(value, bool) and not value > 0:
                raise InvalidInput(f"SyncOptions.{one.name} must be above 0, not {value!r}")
        if self.low_water > self.high_water:
            raise InvalidInput("SyncOptions.low_water must not be above high_water")
        if self.frame_bytes < LEAST_FRAME:
            raise InvalidInput(f"SyncOptions.frame_bytes must be at least {LEAST_FRAME}")


@dataclass(frozen=True, slots=True)
class Mode:
    """`dry_run`: compare only. `ids_only`: the same, and what is settled counts too.

    `keep_ids`: list the ids that differ. `by_req`: read ids from events where it must be.
    `include_private`, `include_others`: hand over what `sharing` holds back otherwise.
    """

    direction: Direction = Direction.DOWN
    dry_run: bool = False
    ids_only: bool = False
    keep_ids: bool = False
    by_req: bool = False
    include_private: bool = False
    include_others: bool = False

    @property
    def moves(self) -> bool:
        return not (self.dry_run or self.ids_only)

    @property
    def downloads(self) -> bool:
        return self.moves and self.direction.down

    @property
    def uploads(self) -> bool:
        return self.moves and self.direction.up

    @property
    def every(self) -> bool:
        """Whether settled ids count."""
        return self.ids_only
