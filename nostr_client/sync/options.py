"""Define what a sync does, and its limits."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

from nostr_client.errors import InvalidInput
from nostr_client.sync.direction import Direction

LEAST_FRAME: Final = 4096
"""Fewest bytes of a negentropy message that the engine needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncOptions:
    """Limits of one sync with one relay. `dataclasses.replace` makes a changed copy."""

    window: int = 25_000
    """Local events in one session.

    Windows take half the bytes and a tenth of the latencies of a single large session. They are
    small enough for relays with a cap on records.
    """

    in_flight: int = 6
    """Sessions open at once on one relay. strfry allows 200, khatru 10, our own relay 8."""

    frame_bytes: int = 50_000
    """Bytes of our negentropy messages before hex. Relays drop frames above 131,072 characters."""

    batch: int = 100
    """Ids in one REQ. Relays cap filters at 100 to 1,000 values."""

    requests: int = 4
    """REQs for ids that are open at one relay, so that events come while others are stored.

    A crash can cost `batch` times this number of events.
    """

    unanswered: int = 100
    """EVENTs that may be without an OK at one relay. Each OK makes room for the next EVENT."""

    pending_ids: int = 50_000
    """Ids that wait for download from one relay before its sessions wait: about 10 MB."""

    halvings: int = 64
    """Refused windows that may be halved, in addition to two for each window that succeeds.

    A relay that refuses old events refuses the halves too.
    """

    tries: int = 3
    """How often to try one window or one upload if the connection or the relay fails."""

    patience: int = 64
    """Rounds of a session that may bring nothing new. An honest search needs a dozen."""

    unsent: int = 1_000
    """Ids that a relay may name without sending the event, in addition to four for each sent event.

    Relays hide some kinds from strangers, and hostile relays invent ids.
    """

    answer: float = 15.0
    """Seconds for the first answer to a NEG-OPEN. Relays without NIP-77 may be silent."""

    progress: float = 30.0
    """Seconds without any progress of a session, a download or an upload."""

    pause: float = 2.0
    """Seconds of the first pause after `rate-limited:`. Each further pause is doubled."""

    refusal_ttl: float = 86_400.0
    """Seconds for which to use REQ at once if a relay says that it has no NIP-77 or refuses a
    filter. Relays are upgraded.
    """

    settled_ttl: float = 7 * 86_400.0
    """Seconds until another try for an event that a relay refuses by `invalid:` or `pow:`, or that
    no store can keep.
    """

    recheck_ttl: float = 86_400.0
    """Seconds until another try for an upload that a relay blocks or already has."""

    retry_first: float = 60.0
    """Seconds until another try after any other failure.

    Each further wait is doubled. Most faults end within minutes.
    """

    retry_longest: float = 86_400.0
    """Longest of these waits, in seconds."""

    pages: bool = True
    """Whether to read by REQ, page by page, what negentropy cannot compare."""

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if not isinstance(value, bool) and not value > 0:
                raise InvalidInput(f"SyncOptions.{one.name} must be above 0, not {value!r}")
        if self.frame_bytes < LEAST_FRAME:
            raise InvalidInput(f"SyncOptions.frame_bytes must be at least {LEAST_FRAME}")


@dataclass(frozen=True, slots=True)
class Mode:
    """What a sync does.

    - `dry_run`: only compare.
    - `ids_only`: only compare, and count settled ids too.
    - `keep_ids`: list the ids that differ.
    - `by_req`: read ids from events if necessary.
    - `include_private`, `include_others`: send events that `sharing` otherwise holds back.
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
