"""Build the claim of one relay from the outcome of its requests. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from nostr_client import hll
from nostr_client.codecs import reasons
from nostr_client.codecs.display import plural
from nostr_client.codecs.messages.parse_relay import MAX_COUNT
from nostr_client.count.merge import Claim, ClaimStatus, Method, Reading, Retracted, is_own_estimate
from nostr_client.errors import (
    DeadlineExceeded,
    HeldBack,
    NetworkError,
    ProtocolError,
    RelayError,
    RelayRefused,
    Unsupported,
    clip,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nostr_client.codecs.messages import CountAnswer
    from nostr_client.count.merge import Listing
    from nostr_client.count.queries import Query

WEAK_ZERO = "count: it answers 0 and nothing else, as some relays do to refuse: it proves nothing"
NO_TARGET = (
    "zaps: the event was not found, so whom its zaps pay is not known: ask a relay that has it"
)
MERGED_ELSEWHERE = (
    "count: it is merged from other relays' answers, so it does not count: ask those relays"
)
MAYBE_PEOPLE = (
    "count: it equals the estimate of its registers, so it may count authors and not events"
)
NOT_MERGED = (
    "hll: its registers are not used, because relays make them differently for this question"
)
_LIST_CUT = "ids: its list was cut at the budget of {}, so it may have more: raise the budget"
_REASON = 160
_MERGED = ProtocolError(MERGED_ELSEWHERE)


class EventsOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The result of reading events up to its end. `elapsed`: seconds since the relay was asked.

    `last_read`: the time up to which the relay's events are known. `confirmed`: the relay's own
    count equals the number of events read. `registers` are those of the reading, if stored. `void`:
    matching events arrived that do not count. `current`: the newest events were read.
    """

    reading: Reading
    current: bool = True
    registers: bytes | None = None
    elapsed: float
    last_read: int | None = None
    confirmed: bool = False
    void: bool = False
    error: RelayError | None = None
    warnings: tuple[str, ...] = ()


@dataclass(slots=True)
class RelayOutcome:
    """The outcome at one relay; `asked_at` in Unix seconds, `elapsed` in seconds since then.

    `listing`: all ids that it named, at the cost of `listed_bytes`; `partly_named`: how many it
    named if it has more. `retracted`: ids that its events prove not to count. `merged`: its number
    is made from the answers of other relays, so nothing that it gave counts. `stands`: the reading
    was cut, and an earlier answer knows more.
    """

    asked_at: float
    answers: list[CountAnswer] = field(default_factory=list)
    count_error: RelayError | None = None
    count_elapsed: float | None = None
    found: EventsOutcome | None = None
    events_read: int = 0
    bytes_read: int = 0
    listing: Listing | None = None
    listed_bytes: int = 0
    listed_elapsed: float | None = None
    partly_named: int | None = None
    retracted: Retracted = field(default_factory=Retracted)
    merged: bool = False
    stands: bool = False

    @property
    def exact_count(self) -> int | None:
        """The relay's word on its number of events, if it gave one for all filters at once."""
        if len(self.answers) != 1:
            return None
        (answer,) = self.answers
        return None if answer.approximate or answer.limited else answer.count

    @property
    def known_ids(self) -> frozenset[bytes] | None:
        """The ids that the relay named or that were read; None if it gave none."""
        if self.merged or self.stands:
            return None
        if self.listing is not None:
            return self.listing.ids
        reading = self.found.reading if self.found else None
        return reading.events if reading and (reading.complete or reading.events) else None

    @property
    def authors(self) -> frozenset[bytes]:
        """The authors of all events read."""
        return self.found.reading.authors if self.found else frozenset()

    @property
    def is_bare_zero(self) -> bool:
        """Whether the relay answered, and sent nothing but zeros without registers."""
        zeros = (one.count == 0 and one.hll is None for one in self.answers)
        return bool(self.answers) and all(zeros)

    def settled(self, query: Query, *, members: bool = False) -> bool:
        """Whether reading events would add nothing, or cannot work.

        `members`: a number alone is not enough, as those of several relays cannot be merged.
        """
        if self.merged:
            return True
        if self.answers and not query.reads and not members:
            if query.by_registers:
                return all(a.hll is not None for a in self.answers)
            if self.is_bare_zero:
                return False  # it proves nothing
            return not any(map(_counts_people, self.answers))
        return isinstance(self.count_error, (NetworkError, ProtocolError))

    def doubt_zero(self, notice: str) -> None:
        """Treat a bare zero beside a NOTICE that refuses as a refusal: khatru answers so."""
        prefix = reasons.prefix(notice)
        if prefix and self.is_bare_zero:
            self.answers = []
            self.count_error = RelayRefused(notice, prefix=prefix)

    @property
    def refused(self) -> bool:
        """Whether the relay refused the COUNT, other than by not knowing it."""
        return _refusal(self.count_error) and not isinstance(self.count_error, Unsupported)


def claim_of(relay: str, query: Query, outcome: RelayOutcome) -> Claim:
    """Return the claim of an outcome; `relay` is the user's spelling."""
    counted = _counted(query, outcome.answers)
    loose = query.judges or query.searches  # nobody has checked these events
    if loose and counted.count is not None:
        counted = msgspec.structs.replace(counted, approximate=True)
    base = Claim(
        relay=relay,
        status=ClaimStatus.OK,
        events_read=outcome.events_read,
        bytes_read=outcome.bytes_read + outcome.listed_bytes,
        asked_at=round(outcome.asked_at, 3),
        warnings=counted.warnings,
        retracted=outcome.retracted,
    )
    if outcome.merged:
        return _failed(msgspec.structs.replace(base, retracted=Retracted()), outcome, _MERGED)
    if outcome.partly_named is not None:
        named = plural(outcome.partly_named, "event")
        base = base.warned(f"ids: it names only {named} by NIP-77, and has more: they are read")
    if outcome.listing is not None:
        return _from_ids(base, outcome, counted, outcome.listing)
    merged = counted.registers is not None and query.by_registers and not query.reads
    if outcome.found is None or merged:
        return _from_count(base, outcome, counted)
    if outcome.stands:
        return _failed(base.warned(*outcome.found.warnings), outcome, outcome.found.error)
    return _from_events(base, query, outcome, counted, outcome.found)


def merged_elsewhere(relay: str, at: float) -> Claim:
    """Return the claim of a relay that counts what other relays answered. `at`: Unix seconds."""
    base = Claim(relay=relay, status=ClaimStatus.OK, asked_at=round(at, 3))
    return _failed(base, RelayOutcome(asked_at=at, merged=True), _MERGED)


def not_asked(relay: str, why: str) -> Claim:
    """Return the claim of a relay that this client does not ask."""
    return Claim(relay=relay, status=ClaimStatus.HELD_BACK).warned(why)


def _refusal(error: RelayError | None) -> bool:
    """Whether the relay itself refused; our own budget is not its word."""
    return isinstance(error, RelayRefused) and not isinstance(error, HeldBack)


def status_of(error: RelayError | None) -> ClaimStatus:
    """Return the status of an error; None is silence."""
    if isinstance(error, Unsupported):
        return ClaimStatus.UNSUPPORTED
    if isinstance(error, HeldBack):
        return ClaimStatus.HELD_BACK
    if isinstance(error, RelayRefused):
        auth = error.prefix == "auth-required"
        return ClaimStatus.AUTH_REQUIRED if auth else ClaimStatus.REFUSED
    if error is None or isinstance(error, DeadlineExceeded) or _never_connected_in_time(error):
        return ClaimStatus.TIMEOUT
    return ClaimStatus.UNREACHABLE if isinstance(error, NetworkError) else ClaimStatus.INVALID


def _never_connected_in_time(error: RelayError) -> bool:
    """Whether a peer accepts the connection and sends nothing: it is silent, not absent."""
    return isinstance(error, NetworkError) and isinstance(error.__cause__, TimeoutError)


class _Counted(msgspec.Struct, frozen=True):
    """Return the answers for all filters as one; `of_people`: the count may not be of events."""

    count: int | None = None
    high: int | None = None
    approximate: bool | None = None
    limited: bool | None = None
    registers: bytes | None = None
    warnings: tuple[str, ...] = ()
    of_people: bool = False


def _counted(query: Query, answers: list[CountAnswer]) -> _Counted:
    if not answers:
        return _Counted()
    counted = _counted_once(query, answers[0]) if len(answers) == 1 else _several(query, answers)
    if query.by_registers or not any(map(_counts_people, answers)):
        return counted
    return msgspec.structs.replace(counted, approximate=True, of_people=True)


def _counts_people(answer: CountAnswer) -> bool:
    """Whether a count may be the estimate of the answer's own registers: of people, not events."""
    registers = None if answer.hll is None else hll.merge(answer.hll)
    return answer.count > 0 and is_own_estimate(answer.count, registers)


def _several(query: Query, answers: list[CountAnswer]) -> _Counted:
    counts = [a.count for a in answers]
    low, high = max(counts), min(sum(counts), MAX_COUNT)
    sketches = [a.hll for a in answers if a.hll is not None]
    merge = query.offset is not None and len(sketches) == len(answers)
    warnings = tuple(dict.fromkeys(w for a in answers for w in a.warnings))
    if sketches and query.offset is None and not query.is_zaps:
        warnings = (*warnings, NOT_MERGED)
    if low != high:
        warnings = (*warnings, f"count: it counts each filter alone, so it has {low:,} to {high:,}")
    return _Counted(
        count=low,
        high=high if low != high else None,
        approximate=_any(a.approximate for a in answers),
        limited=True if low != high else _any(a.limited for a in answers),
        registers=hll.merge(*sketches) if merge else None,
        warnings=warnings,
    )


def _counted_once(query: Query, answer: CountAnswer) -> _Counted:
    lost = answer.hll is not None and query.offset is None and not query.is_zaps
    return _Counted(
        count=answer.count,
        approximate=answer.approximate,
        limited=answer.limited,
        registers=hll.merge(answer.hll) if query.offset is not None and answer.hll else None,
        warnings=(*answer.warnings, NOT_MERGED) if lost else answer.warnings,
    )


def _any(flags: Iterable[bool | None]) -> bool | None:
    reported = [flag for flag in flags if flag is not None]
    return any(reported) if reported else None


def _from_count(base: Claim, outcome: RelayOutcome, counted: _Counted) -> Claim:
    """Return the claim of COUNT alone: its answer, or the reason of the failure."""
    if counted.count is None:
        return _failed(base, outcome, outcome.count_error)
    claim = _timed(base, counted.registers, outcome.count_elapsed)
    claim = msgspec.structs.replace(
        claim,
        method=Method.COUNT if counted.registers is None else Method.HLL,
        count=counted.count,
        count_high=counted.high,
        approximate=counted.approximate,
        limited=counted.limited,
    )
    if counted.of_people:
        claim = claim.warned(MAYBE_PEOPLE)
    return claim.warned(WEAK_ZERO) if claim.weak_zero else claim


def _from_ids(base: Claim, outcome: RelayOutcome, counted: _Counted, listing: Listing) -> Claim:
    """Return the claim of a relay that named its events by id."""
    number = len(listing.ids)
    claim = msgspec.structs.replace(
        _timed(base, counted.registers, outcome.listed_elapsed),
        method=Method.NEGENTROPY,
        listing=listing,
        count=number,
    )
    reported = None if counted.approximate or counted.high is not None else counted.count
    if not listing.complete:
        claim = claim.warned(_LIST_CUT.format(plural(number, "id")))
        more = max(number, counted.count or 0)
        claim = msgspec.structs.replace(claim, count=more, limited=True)
    elif reported is not None and reported != number:
        claim = claim.warned(f"count: it says {reported:,}, but it names {plural(number, 'id')}")
    return claim.warned(f"count: {_why(outcome.count_error)}") if outcome.count_error else claim


def _from_events(
    base: Claim, query: Query, outcome: RelayOutcome, counted: _Counted, found: EventsOutcome
) -> Claim:
    """Return the claim of a reading: complete, partial, or without events."""
    base = base.warned(*found.warnings)
    if found.reading.events:
        return _read(base, query, outcome, counted, found)
    if counted.count and not (found.void and found.reading.complete):
        return _unread(base, outcome, counted, found)
    if found.reading.complete and not outcome.refused:
        return _read(base, query, outcome, counted, found)
    if counted.count is not None and not _refusal(found.error):
        return _from_count(base, outcome, counted)
    unknown = outcome.count_error is None or isinstance(outcome.count_error, Unsupported)
    better = unknown and found.error is not None and not isinstance(found.error, DeadlineExceeded)
    return _failed(base, outcome, found.error if better else outcome.count_error)


def _unread(base: Claim, outcome: RelayOutcome, counted: _Counted, found: EventsOutcome) -> Claim:
    """Return a count whose events did not arrive; if the relay says it sent all, the count is in
    doubt."""
    if found.error is not None:
        return _from_count(base.warned(f"read: {_why(found.error)}"), outcome, counted)
    base = base.warned("read: it sent none of the events that it counts")
    claim = _from_count(base, outcome, counted)
    nothing = Reading(authors=frozenset(), events=frozenset(), complete=False)
    return msgspec.structs.replace(claim, reading=nothing)


def _read(
    base: Claim, query: Query, outcome: RelayOutcome, counted: _Counted, found: EventsOutcome
) -> Claim:
    """Return a claim by events; if events are missing, the relay's own count is beside them."""
    reading, number = found.reading, len(found.reading.events)
    if query.searches:
        reading = msgspec.structs.replace(reading, complete=False)
    registers = found.registers
    if registers is None and query.offset is not None:
        registers = hll.from_pubkeys(reading.authors, query.offset)
    claim = msgspec.structs.replace(
        _timed(base, registers, found.elapsed), method=Method.EVENTS, reading=reading, count=number
    )
    if outcome.count_error is not None:
        claim = claim.warned(f"count: {_why(outcome.count_error)}")
    if reading.complete:
        claim = msgspec.structs.replace(claim, last_read=found.last_read)
        reported = None if found.confirmed else counted.count
        most = counted.high or reported or 0  # of filters that were counted one by one
        differs = (
            reported is not None and not reported <= number <= most and not counted.approximate
        )
        if query.needs_target and number:
            return _unattributed(claim)
        sent = plural(number, "event")
        return (
            claim.warned(f"count: it says {reported:,}, but it sent {sent}") if differs else claim
        )
    if found.error is not None:
        claim = claim.warned(f"read: {_why(found.error)}")
    if query.needs_target:
        return _unattributed(claim)
    if counted.count is None or counted.count < number or query.is_zaps:
        proven = number - len(reading.doubted)
        return msgspec.structs.replace(claim, count=proven, limited=True)
    return msgspec.structs.replace(
        claim,
        count=counted.count,
        count_high=counted.high,
        approximate=counted.approximate,
        limited=counted.limited,
    )


def _unattributed(claim: Claim) -> Claim:
    """Return the claim for zaps of an event that no relay has: their receivers are unknown, so none
    is proven."""
    claim = msgspec.structs.replace(claim, reading=None, registers=None, approximate=True)
    return claim.warned(NO_TARGET)


def _failed(base: Claim, outcome: RelayOutcome, error: RelayError | None) -> Claim:
    status = status_of(error)
    claim = msgspec.structs.replace(base, status=status)
    if status not in (ClaimStatus.TIMEOUT, ClaimStatus.UNREACHABLE):  # they answered nothing
        claim = _timed(claim, None, outcome.count_elapsed)
    return claim.warned(_why(error)) if error is not None else claim


def _timed(claim: Claim, registers: bytes | None, elapsed: float | None) -> Claim:
    if elapsed is None or claim.asked_at is None:
        return msgspec.structs.replace(claim, registers=registers)
    return msgspec.structs.replace(
        claim,
        registers=registers,
        answered_at=round(claim.asked_at + elapsed, 3),
        latency_ms=round(elapsed * 1000, 1),
    )


def _why(error: RelayError) -> str:
    text = error.reason if isinstance(error, RelayRefused) else str(error)
    return clip(text.removeprefix(f"{error.relay}: "), _REASON) or "refused without a reason"
