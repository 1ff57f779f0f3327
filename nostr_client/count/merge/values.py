"""The answer of one relay (`Claim`), and the merged number of all (`Merged`)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec

from nostr_client.codecs.display import moment
from nostr_client.count.figures import ClaimSummary
from nostr_client.count.figures import Figure as Figure


class ClaimStatus(StrEnum):
    """How one relay answered. The relay's number is known only if the status is OK."""

    OK = "ok"
    """The relay answered."""
    REFUSED = "refused"
    """The relay refused the request."""
    HELD_BACK = "held_back"
    """The client did not ask, because its own budget for the relay was spent, or its settings deny
    the relay."""
    AUTH_REQUIRED = "auth_required"
    """The relay requires AUTH (NIP-42)."""
    UNSUPPORTED = "unsupported"
    """The relay does not support the request."""
    TIMEOUT = "timeout"
    """The relay did not answer before the deadline."""
    UNREACHABLE = "unreachable"
    """The connection to the relay failed."""
    INVALID = "invalid"
    """The relay's answer breaks the protocol."""


class Method(StrEnum):
    """Where a claim's number comes from."""

    COUNT = "count"
    HLL = "hll"
    EVENTS = "events"
    NEGENTROPY = "negentropy"


class CountUnit(StrEnum):
    """What a number counts; the two agree only where an author has at most one matching event."""

    AUTHORS = "distinct_authors"
    EVENTS = "events"


class Proven(StrEnum):
    """What the round of a reading proved about it.

    MEMBERS: the relay has exactly these events. Everything was read, or compared by negentropy with
    both ends proven. NUMBER: the relay's own count is the number of events. It does not show which
    ones: a removal and a late event compensate. NOTHING: the reading continues an earlier complete
    one, and an old event that came late may be missing.
    """

    MEMBERS = "members"
    NUMBER = "number"
    NOTHING = "nothing"


class Receipt(NamedTuple):
    """Who signed a zap receipt and whom it pays, raw pubkeys, and its time in Unix seconds.

    `payment`: 16 bytes, the same in receipts that claim one payment; empty if unknown.
    """

    signer: bytes
    receiver: bytes
    created_at: int
    payment: bytes = b""


class Reading(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The result of reading a relay's events: raw pubkeys and ids, 32 bytes each.

    Every event behind it was verified and matched, so a relay can omit events from a reading but
    not invent them. `complete` is false if a budget, a deadline or the relay ended it. `proven`:
    what this round proved. Events of earlier rounds may have changed since: `gone` is the share of
    them that is expected to be gone, 0 if read now, and `evidence` the number of cases behind the
    share. `balanced`: removals and late events compensate, as the relay's own count of now is the
    number of events. Unseen additions are not bounded. `whole_at`: when everything was last read or
    proven, Unix seconds. `amounts` are the values of events, by id, and `receipts` who signed them,
    if the query sums (zaps); `doubted` are those that may not count, as the event that they name
    was not found. `labels` are the classes of contents, on request.
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
    """The ids of the events that a relay says it has (NIP-77), without the events.

    `complete`: all of them; false if the budget ended the list. `verified` are those whose events
    were fetched and are valid. `failed`: how many ids of a random sample have no such event;
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
    them. `replaced`: those of the second sort, each with the newer version. `lists` do not count
    either: lists by id, with their author, whose newer list no longer matches the question. `asked`
    is what other relays have and this relay was asked about: ids if deletions are requested,
    authors if newest lists are; None if it was not asked. `unasked_why`: why newest lists are
    missing in `asked`, with the relay; "" if none is. `earlier`: what it did not answer about now
    and did in an earlier round, since `earlier_at`, Unix seconds. `looked_for`: the relay was asked
    for the deletions of all its own events. `suspects`: authors with a list at some relay that
    does not match; whether it is the newest is not proven.
    """

    ids: frozenset[bytes] = frozenset()
    replaced: Mapping[bytes, bytes] = {}
    lists: Mapping[bytes, bytes] = {}
    asked: frozenset[bytes] | None = None
    earlier: frozenset[bytes] = frozenset()
    earlier_at: float = 0.0
    looked_for: bool = False
    suspects: frozenset[bytes] = frozenset()
    unasked_why: str = ""

    @property
    def all_ids(self) -> frozenset[bytes]:
        """The ids of events and lists that do not count."""
        return self.ids.union(self.lists)

    def proven(self, named: frozenset[bytes]) -> frozenset[bytes]:
        """Return the ids that still do not count if relays have only the events `named`.

        A version that no relay has any more replaces none.
        """
        back = {old for old, new in self.replaced.items() if new not in named}
        return self.all_ids - back

    @property
    def all_asked(self) -> frozenset[bytes]:
        """What the relay was asked about in any round."""
        return self.earlier.union(self.asked or ())


NOTHING_RETRACTED = Retracted()


def asked_earlier(claim: Claim | None, what: frozenset[bytes]) -> dict[str, Any]:
    """Return the fields `earlier` and `earlier_at` of `Retracted`: of what a relay did not answer
    about now, the part about which its earlier claim has an answer."""
    if claim is None or not (known := what & claim.retracted.all_asked):
        return {}
    since = claim.asked_at or 0.0
    if known & claim.retracted.earlier:
        since = claim.retracted.earlier_at
    return {"earlier": known, "earlier_at": since}


class Claim(ClaimSummary, frozen=True, kw_only=True, gc=False):
    """The answer of one relay to one query."""

    status: ClaimStatus
    method: Method | None = None
    """Where the number comes from."""
    registers: bytes | None = None
    """The relay's HyperLogLog registers, 256 bytes."""
    count_high: int | None = None
    """The sum of the counts, if the relay counted several filters one by one. `count` is then the
    largest of these counts."""
    reading: Reading | None = None
    """The events that the client read from the relay."""
    stands_in: bool = False
    """True if the relay does not answer now, and this is its earlier answer."""
    listing: Listing | None = None
    """The ids of the events that the relay says it has (NIP-77)."""
    retracted: Retracted = NOTHING_RETRACTED
    """The events that do not count, because their authors deleted or replaced them."""

    @property
    def answered(self) -> bool:
        """True if the claim has something to count."""
        return self.status is ClaimStatus.OK

    @property
    def weak_zero(self) -> bool:
        """True if the relay sent only `count: 0`.

        Such a zero proves nothing, because some relays refuse with this answer.
        """
        return (
            self.count == 0
            and self.registers is None
            and self.reading is None
            and self.listing is None
        )

    def __repr__(self) -> str:
        how = "" if self.method is None else f" {self.method}"
        return f"<Claim {self.relay} {self.status}{how} count={self.count}>"

    @property
    def note(self) -> str | None:
        """A text that says when all events were last read; None if that was now, or none were read.

        It is no warning: until they are all read again, the number is at least theirs.
        """
        reading = self.reading
        if reading is None or not reading.complete or reading.proven is Proven.MEMBERS:
            return None
        when = "earlier"
        if reading.whole_at is not None:
            when = moment(reading.whole_at, "%Y-%m-%d %H:%M UTC")
        agrees = ", and its count agrees" if reading.proven is Proven.NUMBER else ""
        return f"all of its events were read {when}, since then only new ones{agrees}"

    def warned(self, *warnings: str) -> Claim:
        """Return a copy with these warnings added. The copy has each warning once."""
        fresh = tuple(w for w in dict.fromkeys(warnings) if w not in self.warnings)
        return msgspec.structs.replace(self, warnings=self.warnings + fresh) if fresh else self

    def to_dict(self) -> dict[str, Any]:
        """Return the claim as JSON values. `registers` are in hex or None."""
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
            "note": self.note,
        }


class Part(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How one relay's claim was used in a merged number.

    `used`: the parts in the number: "registers", "count", "events", "ids". `share`: the claim's
    distinct authors, as a share of all; None without registers or events. `reasons`: why something
    was left out or is in doubt; texts for people.
    """

    relay: str
    used: tuple[str, ...]
    share: float | None
    reasons: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the part as JSON values."""
        return msgspec.structs.asdict(self) | {
            "used": list(self.used),
            "reasons": list(self.reasons),
        }


class Merged(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The merged result of all claims. `unit` says which of the two figures `value` is.

    `claims` are those in the number, with the warnings of comparing them. `excluded` are the relays
    whose claims the trust tests excluded. `corroborated` are the authors on at least two relays,
    which no single relay can raise; None below two. `amount` is the sum over distinct events that
    were read, if the query sums (millisats of zaps).
    """

    authors: Figure | None
    events: Figure | None
    unit: CountUnit
    claims: tuple[Claim, ...]
    excluded: tuple[str, ...] = ()
    parts: tuple[Part, ...] = ()
    corroborated: Figure | None = None
    amount: Figure | None = None

    @property
    def figure(self) -> Figure | None:
        """The figure of `unit`; None if no relay gave anything usable."""
        return self.authors if self.unit is CountUnit.AUTHORS else self.events

    def __repr__(self) -> str:
        return f"<Merged authors={self.authors}, events={self.events}, claims={len(self.claims)}>"
