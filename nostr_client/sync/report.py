"""What a sync did: totals, and a status for each relay."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

from nostr_client.codecs.display import plural


class SyncStatus(StrEnum):
    """Says how far the sync with one relay got."""

    RUNNING = "running"  # not at its end, and nothing is left undone so far
    COMPLETE = "complete"  # the sets are equal, as far as the direction and our store's rules go
    PARTIAL = "partial"  # something is left; the reason says what
    UNSUPPORTED = "unsupported"  # the relay does not speak NIP-77, and nothing else was allowed
    FAILED = "failed"  # nothing could be compared


class RelayReport(msgspec.Struct, frozen=True, kw_only=True):
    """How the sync with one relay ended: numbers of events, and of bytes on its connection.

    `need` are events that the relay has and the store lacked, `have` the other way round; what the
    store's rules left out (deleted, expired, superseded) is in neither, nor what is `skipped`.
    """

    relay: str
    status: SyncStatus
    reason: str = ""
    need: int = 0
    have: int = 0
    downloaded: int = 0
    uploaded: int = 0
    bytes_sent: int = 0
    bytes_received: int = 0
    rounds: int = 0
    """Negentropy messages of the relay that were worked through."""
    windows: int = 0
    """Sessions that ended well, and windows read by REQ to their end."""
    compared: int = 0
    """Events that were held here in those windows, or that came by them."""
    hidden: int = 0
    """Ids that the relay named and did not send, in this run or before."""
    refused: int = 0
    """Events that the relay refused or did not answer, in this run or before."""
    skipped: int = 0
    """Those of `hidden` and `refused` that were not tried in this run."""
    held_back: int = 0
    """Events that were not handed over: private, protected, or by others."""
    paged: int = 0
    """Those of `windows` that were read by REQ."""
    declined: int = 0
    """Events that came and that the store does not keep: expired, superseded, deleted."""
    held: int | None = None
    """How many matching events the relay has; None where that is not known."""
    missing_here: tuple[str, ...] = ()
    """Ids of `need`, where they were asked for."""
    missing_there: tuple[str, ...] = ()
    """Ids of `have`, where they were asked for."""

    def to_dict(self) -> dict[str, Any]:
        """The relay as JSON values, as `nostr-client sync run --json` gives it."""
        return {
            "relay": self.relay,
            "status": str(self.status),
            "reason": self.reason,
            **{name: getattr(self, name) for name in _TOTALS},
            "rounds": self.rounds,
            "windows": self.windows,
            **{name: getattr(self, name) for name in _LEFT},
        }


class SyncReport(msgspec.Struct, frozen=True, kw_only=True):
    """The totals of one sync, and a report for each relay in the order the relays were named.

    `need` and `have` are distinct events over all relays. `events`: how many distinct events
    store and relays hold together; None unless every relay could be compared to its end.
    """

    relays: tuple[RelayReport, ...]
    need: int
    have: int
    events: int | None = None

    @property
    def complete(self) -> bool:
        """True when every relay is."""
        return all(one.status is SyncStatus.COMPLETE for one in self.relays)

    @property
    def downloaded(self) -> int:
        """Events that were stored."""
        return sum(one.downloaded for one in self.relays)

    @property
    def uploaded(self) -> int:
        """Events that relays took, over all relays."""
        return sum(one.uploaded for one in self.relays)

    @property
    def bytes_sent(self) -> int:
        """Characters sent over all connections."""
        return sum(one.bytes_sent for one in self.relays)

    @property
    def bytes_received(self) -> int:
        """Characters received over all connections."""
        return sum(one.bytes_received for one in self.relays)

    def __str__(self) -> str:
        done = sum(one.status is SyncStatus.COMPLETE for one in self.relays)
        moved = f"{self.downloaded:,} downloaded, {self.uploaded:,} uploaded"
        return f"sync: {moved} ({done} of {plural(len(self.relays), 'relay')} complete)"

    def __repr__(self) -> str:
        return f"<SyncReport {self}>"

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON values, as `nostr-client sync run --json` gives it."""
        totals = {name: getattr(self, name) for name in _TOTALS}
        return {**totals, "relays": [one.to_dict() for one in self.relays]}


_LEFT = ("hidden", "refused", "skipped", "held_back")
_TOTALS = ("downloaded", "uploaded", "need", "have", "bytes_sent", "bytes_received")
