"""Verdicts on single events and filters at one relay, and how long each one lasts. Pure."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from nostr_client.reasons import Reason, classify, means_superseded

if TYPE_CHECKING:
    from nostr_client.sync.options import SyncOptions


class Verdict(StrEnum):
    """Why an event that differs is not moved now."""

    REFUSED = "refused"  # `invalid:`, `pow:`: the event itself is refused
    BLOCKED = "blocked"  # `blocked:`: a rule of the relay, which may change
    FAILED = "failed"  # every other refusal of an upload
    UNANSWERED = "unanswered"  # sent, and no OK came: the connection ended, or the relay is silent
    WITHHELD = "withheld"  # the relay named the id and did not send a matching event
    PRESENT = "present"  # `duplicate:`: the relay has the event and does not list it
    SUPERSEDED = "superseded"  # the relay has a newer version
    UNFIT = "unfit"  # our store cannot keep the event, whoever sends it


SETTLED: Final = frozenset({Verdict.PRESENT, Verdict.SUPERSEDED, Verdict.UNFIT})
"""Verdicts that leave nothing undone: the two sides are equal after the store's rules."""


class Wait(NamedTuple):
    """Seconds until the next try: `first`, doubled with each further try up to `longest`."""

    first: float
    longest: float

    def after(self, tries: int) -> float:
        """The wait after so many tries, the last one included."""
        return min(self.longest, self.first * 2.0 ** min(tries - 1, 64))


class Note(NamedTuple):
    """One verdict with the relay's reason (text for people)."""

    verdict: Verdict
    reason: str = ""


NOT_SENT: Final = Note(Verdict.WITHHELD, "named and not sent")
UNASKED: Final = Note(Verdict.WITHHELD, "sent, but no filter matches them")
UNSOUND: Final = Note(Verdict.WITHHELD, "sent, but their events do not hold")
BROKE: Final = Note(Verdict.WITHHELD, "asked for when a frame of the relay ended the connection")


class Recalled(NamedTuple):
    """What is remembered of some ids: those not to be tried now, and those whose time has come."""

    waiting: dict[bytes, Note]
    due: set[bytes]


def upload_verdict(reason: str) -> Verdict:
    """What the reason of an `OK … false` says about the event (NIP-01)."""
    if means_superseded(reason):
        return Verdict.SUPERSEDED
    return _UPLOADS.get(classify(reason), Verdict.FAILED)


_UPLOADS: Final = {
    Reason.INVALID: Verdict.REFUSED,
    Reason.POW: Verdict.REFUSED,
    Reason.BLOCKED: Verdict.BLOCKED,
    Reason.DUPLICATE: Verdict.PRESENT,
}


def wait_of(verdict: Verdict, options: SyncOptions) -> Wait:
    """How long a verdict stands."""
    if verdict in (Verdict.REFUSED, Verdict.UNFIT):
        return Wait(options.settled_ttl, options.settled_ttl)
    if verdict in (Verdict.BLOCKED, Verdict.PRESENT, Verdict.SUPERSEDED):
        return Wait(options.recheck_ttl, options.recheck_ttl)
    return retry_wait(options)


def retry_wait(options: SyncOptions) -> Wait:
    """How long to wait where a later try may well succeed."""
    return Wait(options.retry_first, options.retry_longest)
