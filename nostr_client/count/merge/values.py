"""What one relay said (`Claim`), and what all say together (`Merged`)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec

from nostr_client.count.figures import Figure as Figure
from nostr_client.count.figures import Told


class ClaimStatus(StrEnum):
    """Says how one relay answered; for everything but OK its number is not known."""

    OK = "ok"
    REFUSED = "refused"
    HELD_BACK = "held_back"  # by our own budget for this relay: it was not asked
    AUTH_REQUIRED = "auth_required"
    UNSUPPORTED = "unsupported"
    TIMEOUT = "timeout"
    UNREACHABLE = "unreachable"
    INVALID = "invalid"


class Method(StrEnum):
    """Where a claim's number comes from."""

    COUNT = "count"
    HLL = "hll"
    EVENTS = "events"
    NEGENTROPY = "negentropy"


class Unit(StrEnum):
    """What a number counts; the two agree only where an author has at most one matching event."""

    AUTHORS = "distinct_authors"
    EVENTS = "events"


class Proven(StrEnum):
    """What the round that a reading stands in proved about it.

    MEMBERS: the relay holds just these events. The whole was read, or compared by negentropy with
    both ends proven. NUMBER: the relay's own count is the number of events. It tells nothing about
    which ones: one that went and one that came late make up for each other. NOTHING: the reading
    goes on from an earlier whole one, and an old event that came late may be missing.
    """

    MEMBERS = "members"
    NUMBER = "number"
    NOTHING = "nothing"


class Receipt(NamedTuple):
    """Who signed a zap receipt and whom it pays, raw pubkeys, and its time in Unix seconds.

    `payment`: 16 bytes, the same in receipts that claim one payment; empty where it is not known.
    """

    signer: bytes
    receiver: bytes
    created_at: int
    payment: bytes = b""


class Reading(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What was found by reading a relay's events: raw pubkeys and ids, 32 bytes each.

    Every event behind it was verified and matched, so a relay can leave events out of a reading
    but not invent them. `complete` is false where a budget, a deadline or the relay ended it.

    `proven`: what this round proved. What was read earlier and only continued now may have changed
    since: `gone` is the share of it that is expected to be gone, 0 for what is known now, and
    `evidence` the number of cases that the share was learnt from. `balanced`: what may be gone was
    made up for by what came late, as the relay's own count of now is the number of events. Nothing
    bounds what may have come unseen. `whole_at`: when the whole was last read or proven, Unix
    seconds. `amounts` are what events are worth, by id, and `receipts` who signed them, where the
    query sums something (zaps); `doubted` are those of them that may not count, as what they name
    was not found. `labels` are what contents say, where that is asked for.
    """

    authors: frozenset[bytes]
    events: frozenset[bytes]
    complete: bool
    proven: Proven = Proven.MEMBERS
    gone: float = 0.0
    evidence: int = 1
    balanced: bool = False
    whole_at: int | None = None
    amounts: Mapping[bytes, int] | None = None
    receipts: Mapping[bytes, Receipt] | None = None
    doubted: frozenset[bytes] = frozenset()
    labels: Mapping[bytes, str] | None = None


class Listing(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The ids of the events that a relay says it holds (NIP-77), without the events.

    `complete`: all of them; false where the budget ended the list. `verified` are those whose
    events were fetched and hold. `failed`: how many ids of a random sample have no such event;
    `judged`: the sample was fetched to its end.
    """

    ids: frozenset[bytes]
    verified: frozenset[bytes] = frozenset()
    failed: int = 0
    judged: bool = False
    complete: bool = True


class Retracted(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What verified events of this relay prove about the events of any relay.

    `ids` do not count: their author deleted them (kind 5 of NIP-09), or a newer version replaced
    them. `lists` do not count either: lists by id, with their author, whose newer list no longer
    matches the question. `asked` is what other relays hold and this relay was asked about: ids
    where deletions are asked for, authors where newest lists are; None where it was not asked.
    `looked_for`: the relay was asked for the deletions of all that it holds itself.
    """

    ids: frozenset[bytes] = frozenset()
    lists: Mapping[bytes, bytes] = {}
    asked: frozenset[bytes] | None = None
    looked_for: bool = False


NOTHING_RETRACTED = Retracted()


class Claim(Told, frozen=True, kw_only=True, gc=False):
    """One relay's answer to one query: what is stored, shown and merged.

    `registers` are 256 bytes. `count_high` is set where several filters were counted one by one:
    `count` is then the largest and `count_high` the sum of their counts. `stands_in`: the relay is
    silent now, and this is its earlier answer. Times are Unix seconds, `latency_ms` milliseconds.
    """

    status: ClaimStatus
    method: Method | None = None
    registers: bytes | None = None
    count_high: int | None = None
    reading: Reading | None = None
    stands_in: bool = False
    listing: Listing | None = None
    retracted: Retracted = NOTHING_RETRACTED

    @property
    def answered(self) -> bool:
        """True when the relay gave something to count with."""
        return self.status is ClaimStatus.OK

    @property
    def weak_zero(self) -> bool:
        """True for a bare `count: 0`: some relays refuse by it, so it proves nothing."""
        return (
            self.count == 0
            and self.registers is None
            and self.reading is None
            and self.listing is None
        )

    def __repr__(self) -> str:
        how = "" if self.method is None else f" {self.method}"
        return f"<Claim {self.relay} {self.status}{how} count={self.count}>"

    def warned(self, *warnings: str) -> Claim:
        """Return a copy with further warnings; those already there are not repeated."""
        fresh = tuple(w for w in dict.fromkeys(warnings) if w not in self.warnings)
        return msgspec.structs.replace(self, warnings=self.warnings + fresh) if fresh else self

    def to_dict(self) -> dict[str, Any]:
        """Return the claim as JSON values: the public schema, registers as hex or None."""
        return {
            "relay": self.relay,
            "status": str(self.status),
            "method": None if self.method is None else str(self.method),
            "count": self.count,
            "approximate": self.approximate,
            "limited": self.limited,
            "registers": None if self.registers is None else self.registers.hex(),
            "events_read": self.events_read,
            "bytes_read": self.bytes_read,
            "last_read": self.last_read,
            "asked_at": self.asked_at,
            "answered_at": self.answered_at,
            "latency_ms": self.latency_ms,
            "warnings": list(self.warnings),
        }


class Part(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What became of one relay's claim in a merged number.

    `used`: which parts of it went in: "registers", "count", "events", "ids". `share`: the distinct
    authors that it tells of, as a part of all; None without registers or events. `reasons`: why
    something was left out or is in doubt; texts for people.
    """

    relay: str
    used: tuple[str, ...]
    share: float | None
    reasons: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The part as JSON values."""
        return msgspec.structs.asdict(self) | {
            "used": list(self.used),
            "reasons": list(self.reasons),
        }


class Merged(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What all claims say together. `unit` tells which of the two figures `value` was taken from.

    `claims` are those that went in, with the warnings that comparing them gave. `excluded` are
    the relays whose claims were left out by the trust tests. `corroborated` are the authors that
    two relays at least tell of, which no single relay can raise; None below two. `amount` is the
    sum over distinct events that were read, where the query sums something (millisats of zaps).
    """

    authors: Figure | None
    events: Figure | None
    unit: Unit
    claims: tuple[Claim, ...]
    excluded: tuple[str, ...] = ()
    parts: tuple[Part, ...] = ()
    corroborated: Figure | None = None
    amount: Figure | None = None

    @property
    def figure(self) -> Figure | None:
        """The figure of `unit`; None when no relay gave anything that could be used."""
        return self.authors if self.unit is Unit.AUTHORS else self.events

    def __repr__(self) -> str:
        return f"<Merged authors={self.authors}, events={self.events}, claims={len(self.claims)}>"
