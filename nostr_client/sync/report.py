"""Report a sync: totals, and a status for each relay."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

from nostr_client.codecs.display import plural


class SyncStatus(StrEnum):
    """How far the sync with one relay got."""

    RUNNING = "running"
    """The sync has not ended. Nothing has been left out so far."""
    COMPLETE = "complete"
    """Both sides have the same events, as far as the direction and the store's rules allow.

    What another relay sent in the same run goes to this relay in the next run.
    """
    PARTIAL = "partial"
    """Some events were left out. `reason` says why."""
    UNSUPPORTED = "unsupported"
    """The relay does not support NIP-77, and the options allow no other way."""
    FAILED = "failed"
    """The client could not compare anything."""


class RelayReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a sync with one relay. The numbers without a unit count events."""

    relay: str
    status: SyncStatus
    reason: str = ""
    """Why the sync did not complete."""
    need: int = 0
    """Events that the relay has and the store lacked, without those that the store's rules refuse.
    """
    have: int = 0
    """Events that the store has and the relay lacked."""
    downloaded: int = 0
    """Events that the store accepted."""
    uploaded: int = 0
    """Events that the relay accepted."""
    bytes_sent: int = 0
    """Bytes of messages sent to the relay, without compression."""
    bytes_received: int = 0
    """Bytes of messages received from the relay, without compression."""
    rounds: int = 0
    """Number of the relay's negentropy messages."""
    windows: int = 0
    """Number of time windows that the sync compared completely."""
    compared: int = 0
    """Events in these windows."""
    hidden: int = 0
    """Ids that the relay named without sending the event, in this run or an earlier run."""
    refused: int = 0
    """Events that the relay refused or did not answer, in this run or an earlier run."""
    skipped: int = 0
    """Events of `hidden` and `refused` that this run did not try again."""
    held_back: int = 0
    """Events that the sync did not send: private, protected or by other people."""
    paged: int = 0
    """Number of windows that the sync read by REQ, not by negentropy."""
    declined: int = 0
    """Received events that the store refused: expired, superseded or deleted."""
    held: int | None = None
    """Number of matching events on the relay. None if unknown."""
    missing_here: tuple[str, ...] = ()
    """Ids of the events in `need`, if the caller asked for ids."""
    missing_there: tuple[str, ...] = ()
    """Ids of the events in `have`, if the caller asked for ids."""

    def to_dict(self) -> dict[str, Any]:
        """Return the relay as JSON values, as `nostr-client sync run --json` prints it."""
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
    """The totals of one sync, and a report for each relay."""

    relays: tuple[RelayReport, ...]
    """One report for each relay, in the order in which the caller named the relays."""
    need: int
    """Distinct events that relays have and the store lacked."""
    have: int
    """Distinct events that the store has and relays lacked."""
    events: int | None = None
    """Distinct events in the store and the relays together. None if a comparison did not reach its
    end."""

    @property
    def complete(self) -> bool:
        """True if the sync with every relay is complete."""
        return all(one.status is SyncStatus.COMPLETE for one in self.relays)

    @property
    def downloaded(self) -> int:
        """The number of events that the sync stored."""
        return sum(one.downloaded for one in self.relays)

    @property
    def uploaded(self) -> int:
        """The number of events that relays accepted, summed over all relays."""
        return sum(one.uploaded for one in self.relays)

    @property
    def bytes_sent(self) -> int:
        """The number of bytes sent over all connections, without compression."""
        return sum(one.bytes_sent for one in self.relays)

    @property
    def bytes_received(self) -> int:
        """The number of bytes received over all connections, without compression."""
        return sum(one.bytes_received for one in self.relays)

    def __str__(self) -> str:
        done = sum(one.status is SyncStatus.COMPLETE for one in self.relays)
        moved = f"{self.downloaded:,} downloaded, {self.uploaded:,} uploaded"
        return f"sync: {moved} ({done} of {plural(len(self.relays), 'relay')} complete)"

    def __repr__(self) -> str:
        return f"<SyncReport {self}>"

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON values, as `nostr-client sync run --json` prints it."""
        totals = {name: getattr(self, name) for name in _TOTALS}
        return {**totals, "relays": [one.to_dict() for one in self.relays]}


_LEFT = ("hidden", "refused", "skipped", "held_back")
_TOTALS = ("downloaded", "uploaded", "need", "have", "bytes_sent", "bytes_received")
