"""The merge rules: many claims about one query, one number for each of the two units.

Pure: no clock, no network. The result does not depend on the order of the claims, and a repeated
claim counts once. Relays are never added up: many of them have the same people and events. Source:
design section 3; the better merge is measured in docs/concepts/merging.md.
"""

from __future__ import annotations

import math
from copy import copy
from typing import TYPE_CHECKING

import msgspec

from nostr_client import hll
from nostr_client.count.merge.better import Term, corrected
from nostr_client.count.merge.drift import gone_at_most
from nostr_client.count.merge.members import DistinctEvents, ListedClaim, members, union
from nostr_client.count.merge.outliers import FEWEST, SATURATED
from nostr_client.count.merge.sketches import (
    Estimate,
    bent,
    classical_estimate,
    corroborated,
    estimate,
    joined,
    people,
)
from nostr_client.count.merge.values import Claim, Figure, Listing, Proven, Retracted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from nostr_client.count.merge.values import Reading


class TestedClaim:
    """A claim and what the trust tests left of it; `believed`: it passed them all.

    `short`: the registers estimate fewer than the relay counted. `registers` are those that may be
    merged. `firm_count`: a relay's word that its count is exact, and neither an estimate, nor cut,
    nor a weak zero, nor read or listed by us. `loose_count`: any count of the relay. `listing`: the
    ids that are believed. `trusted`: the user vouches for this relay. `left_out`: nothing of this
    claim goes into the number. `incomplete`: this relay is known to have something that was not
    merged.
    """

    __slots__ = (
        "claim",
        "count_counts",
        "firm_count",
        "incomplete",
        "left_out",
        "listing",
        "loose_count",
        "registers",
        "short",
        "trusted",
    )

    def __init__(
        self,
        claim: Claim,
        *,
        registers_count: bool = True,
        count_counts: bool = True,
        listing_counts: bool = True,
        believed: bool = True,
        short: bool = False,
        trusted: bool = False,
    ) -> None:
        self.claim = claim
        self.trusted = trusted
        self.count_counts = count_counts
        self.short = short
        answered, reading = claim.answered, claim.reading
        self.listing = claim.listing if answered and listing_counts else None
        self.registers = claim.registers if answered and registers_count else None
        self.loose_count = claim.count if answered and count_counts else None
        self.firm_count = self.loose_count if believed and _is_firm(claim) else None
        members = reading is not None or self.listing is not None
        nothing = self.registers is None and not count_counts and not members
        self.left_out = answered and nothing
        if reading is not None:
            self.incomplete = answered and not reading.complete
        else:
            bare = self.registers is None and count_counts and not claim.weak_zero
            self.incomplete = answered and bare

    @property
    def is_of_now(self) -> bool:
        """Whether the relay answered now: an earlier answer proves nothing of today."""
        return not self.claim.stands_in

    def for_want_of_better(self) -> TestedClaim:
        """Return this claim with its count, although the count failed the tests.

        The number of ids that it named is not a count: some of them are known to be made up.
        """
        merged = self.registers is not None
        return TestedClaim(
            self.claim,
            registers_count=merged,
            count_counts=not (self.claim.listing and self.claim.listing.failed),
            listing_counts=self.listing is not None,
            believed=False,
            short=self.short,
        )

    def noted(self, warning: str) -> TestedClaim:
        """Return this claim with a further warning, weighed as it is."""
        other = copy(self)
        other.claim = self.claim.warned(warning)
        return other

    def doubted(self, warning: str, *, drop: bool) -> TestedClaim:
        """Return this claim, whose registers passed the tests, without belief in its count."""
        claim = self.claim.warned(warning)
        return TestedClaim(
            claim,
            count_counts=not drop,
            listing_counts=self.listing is not None,
            believed=False,
            short=self.short,
        )


def _is_firm(claim: Claim) -> bool:
    if claim.weak_zero or claim.approximate or claim.limited or claim.stands_in:
        return False
    if claim.listing is not None:
        return False
    if claim.reading is not None:
        return not claim.reading.complete
    return not is_own_estimate(claim.count or 0, claim.registers)


def distinct(claims: Iterable[Claim]) -> list[Claim]:
    """Return the newest claim of each relay, by relay: the order of asking has no meaning."""
    newest: dict[str, Claim] = {}
    for claim in sorted(claims, key=_order):
        newest[claim.relay] = claim
    return [newest[relay] for relay in sorted(newest)]


def _order(claim: Claim) -> tuple[object, ...]:
    """Sort the newest last; two claims of one moment have a fixed order."""
    tie = (claim.count or 0, claim.registers or b"", claim.status, claim.method or "")
    return (claim.asked_at or 0.0, claim.answered, *tie, claim.latency_ms or 0.0, claim.warnings)


def members_of(weighed: Sequence[TestedClaim]) -> DistinctEvents | None:
    """Return events by their ids, if some relays named theirs or know deletions; else None."""
    if any(w.claim.listing or _is_asked(w.claim.retracted) for w in weighed):
        return members([ListedClaim(w.claim, _usable(w), w.trusted) for w in weighed])
    return None


def _is_asked(retracted: Retracted) -> bool:
    return retracted.asked is not None or bool(retracted.ids)


def looked_for(weighed: Iterable[TestedClaim]) -> bool:
    """Whether every relay that was read was asked for the deletions of all its events."""
    read = (w.claim for w in weighed if w.claim.reading and w.claim.reading.events)
    return all(claim.retracted.looked_for for claim in read if claim.answered)


def authors_figure(
    weighed: Sequence[TestedClaim], found: DistinctEvents | None, *, one_per_author: bool
) -> Figure | None:
    """Return distinct authors over all relays, or None without evidence of them.

    `found`: the result of `members_of`. `one_per_author`: an author has at most one matching event
    (a replaceable kind), so exact counts of events are exact counts of authors.
    """
    read = _authors_read(weighed)
    if not one_per_author:
        read = _less_deleted(read, weighed, found)
    if all_read(weighed):
        return _own_number(weighed) or read if one_per_author else read
    if any(w.registers is not None and w.claim.reading is None for w in weighed):
        return _from_registers(weighed, read, one_per_author)
    counted = _from_counts(weighed) if one_per_author else None
    if not readings(weighed):
        return counted
    if _nothing_came(weighed):
        return counted and Figure.at_least(0).or_word(counted)
    return Figure.at_least(read.low).or_word(counted)


def events_figure(weighed: Sequence[TestedClaim], found: DistinctEvents | None) -> Figure | None:
    """Return distinct events over all relays, for a query whose authors may have several.

    `found`: the result of `members_of`.
    """
    if found is not None:
        return _members_figure(weighed, found)
    read = _events_read(weighed)
    if all_read(weighed):
        return _own_number(weighed) or read
    return _beside_counts(weighed, Figure.at_least(read.low), any_read=bool(read.value))


def _members_figure(weighed: Sequence[TestedClaim], found: DistinctEvents) -> Figure | None:
    """Return distinct events by their ids."""
    if all_known(weighed):
        return found.figure
    known = Figure.at_least(len(found.named), found.low)
    return _beside_counts(weighed, known, any_read=bool(found.named))


def _beside_counts(
    weighed: Sequence[TestedClaim], known: Figure, *, any_read: bool
) -> Figure | None:
    """Return a known part, beside what relays only count."""
    counted = _from_counts(weighed)
    return known.or_word(counted) if any_read else counted


def _usable(weighed: TestedClaim) -> Listing | None:
    """Return the ids that count: of a listing that is not believed, those that were fetched."""
    listing = weighed.claim.listing
    if weighed.listing is not None or listing is None or not weighed.claim.answered:
        return weighed.listing
    return Listing(ids=listing.verified, verified=listing.verified)


def agreed(authors: Figure | None, events: Figure | None) -> tuple[Figure | None, Figure | None]:
    """Return both figures, each limited by the other: people have at least one event each.

    More authors than events are an error of the estimate; a lower end above the events is a
    contradiction, and stays visible.
    """
    if authors is None:
        return authors, events
    if events is None:
        return authors, Figure.at_least(authors.value, authors.low)
    if authors.exact and not authors.value and not events.value:
        return authors, Figure.exactly(0)
    if events.exact:
        return _no_more(authors, events.value), events
    return authors, _no_fewer(events, authors.low)


def _no_more(authors: Figure, events: int) -> Figure:
    if not events:
        return Figure.exactly(0)
    if not authors.low <= events < (authors.high or 0):
        return authors
    # The low end of an estimate is no proof: people who react twice may be fewer than it says.
    low, capped = min(authors.low, events - 1), min(authors.value, events)
    return msgspec.structs.replace(authors, value=capped, low=low, high=events)


def _no_fewer(events: Figure, people: int) -> Figure:
    if events.high is not None and events.high < people:
        return events
    # An inexact figure keeps an interval.
    low = people if events.high is None else min(people, events.high - 1)
    if events.low >= low:
        return events
    return msgspec.structs.replace(events, value=max(events.value, people), low=low)


def amount_figure(weighed: Sequence[TestedClaim]) -> Figure | None:
    """Return the sum of the values of distinct events, exact only if every relay was read; else
    None.

    An event has the same value on every relay, so it counts once.
    """
    worth: dict[bytes, int] = {}
    has_values = False
    for reading in readings(weighed):
        if reading.amounts is not None:
            has_values = True
            worth.update(reading.amounts)
    if not has_values:
        return None
    for deleted in union(w.claim.retracted.ids for w in weighed if w.claim.answered):
        worth.pop(deleted, None)
    total = sum(worth.values())
    if all_read(weighed) and _are_known(weighed, _ids):
        return Figure.exactly(total, as_said=not looked_for(weighed))
    doubted = sum(worth[id] for id in _doubted(readings(weighed)) if id in worth)
    return Figure.at_least(total, total - doubted)


def corroborated_figure(weighed: Sequence[TestedClaim]) -> Figure | None:
    """Return the authors on at least two relays; None for fewer than two sketches."""
    sketches = [w.registers for w in weighed if w.registers is not None]
    if len(sketches) < 2:
        return None
    second = corroborated(*sketches)
    return _estimated(people(second, robust=bent([second])), 0)


def readings(weighed: Iterable[TestedClaim]) -> list[Reading]:
    """Return the readings of the relays that answered."""
    return [w.claim.reading for w in weighed if w.claim.reading and w.claim.answered]


def all_read(weighed: Sequence[TestedClaim]) -> bool:
    """Whether every relay that was asked was read by events, to the end."""
    read = readings(weighed)
    return bool(read) and len(read) == len(weighed) and all(r.complete for r in read)


def all_known(weighed: Sequence[TestedClaim]) -> bool:
    """Whether every relay that was asked was read to the end, or named all its ids."""
    return bool(weighed) and all(
        w.claim.answered
        and (
            (w.listing is not None and w.listing.complete)
            or (w.claim.reading is not None and w.claim.reading.complete)
        )
        for w in weighed
    )


def _nothing_came(weighed: Sequence[TestedClaim]) -> bool:
    """Whether a relay counts events and no relay sent any: the number is not "at least 0"."""
    counted = any(
        w.claim.reading and not w.claim.reading.complete and w.loose_count for w in weighed
    )
    return counted and not any(reading.events for reading in readings(weighed))


def vouched_count(weighed: Iterable[TestedClaim]) -> int:
    """Return the largest exact count of a relay that the user trusts; else 0.

    Any other count is its relay's word: it may set a number, but proves no lower end.
    """
    return max((w.firm_count or 0 for w in weighed if w.trusted), default=0)


def count_term(weighed: TestedClaim) -> Term | None:
    """Return the exact part of one claim: people that were counted or read, and their registers."""
    registers, reading = weighed.registers, weighed.claim.reading
    if registers is None or registers == hll.EMPTY or math.isinf(estimate(registers)):
        return None
    if reading is not None:
        return Term(len(reading.authors), registers, proven=True) if reading.authors else None
    return Term(weighed.firm_count, registers, weighed.trusted) if weighed.firm_count else None


def is_own_estimate(count: int, registers: bytes | None) -> bool:
    """Whether a relay's count is the estimate of its own registers, by an estimator in use.

    Such a count is no second source. Known estimators: Ertl's, and the classical one of the relays
    written in Go, each cut or rounded. An exact count may equal one of them by chance, more often
    if it is small; then little is lost, as small estimates are good.
    """
    if registers is None:
        return False
    known = (estimate(registers), classical_estimate(registers))
    return any(math.isfinite(e) and count in (math.floor(e), round(e)) for e in known)


def _authors_read(weighed: Sequence[TestedClaim]) -> Figure:
    return _read_figure(weighed, _authors)


def _events_read(weighed: Sequence[TestedClaim]) -> Figure:
    return _read_figure(weighed, _ids)


def _less_deleted(
    read: Figure, weighed: Sequence[TestedClaim], found: DistinctEvents | None
) -> Figure:
    """Return the authors who were read, with room below for those whose events are all deleted.

    A reading does not store who wrote which event, so a deleted event may be its author's only one.
    The same holds for events that a relay may know as deleted and was not asked about.
    """
    deleted = union(w.claim.retracted.ids for w in weighed if w.claim.answered)
    gone = len(deleted & union(map(_ids, readings(weighed))))
    if found is not None:
        gone += found.deleted
    if not gone:
        return read
    high = read.value if read.exact else None
    low = max(read.low - gone, 0)
    return Figure(value=read.value, low=low, high=high, lower_bound=not read.exact)


def _authors(reading: Reading) -> frozenset[bytes]:
    return reading.authors


def _ids(reading: Reading) -> frozenset[bytes]:
    return reading.events


def _read_figure(
    weighed: Sequence[TestedClaim], part: Callable[[Reading], frozenset[bytes]]
) -> Figure:
    """Return what was read: exact if this round proved all of it, else a lower bound."""
    found = readings(weighed)
    number = len(union(map(part, found)))
    if _are_known(weighed, part):
        return Figure.exactly(number, as_said=not looked_for(weighed))
    unsure = gone_at_most(found, part) + len(_doubted(found))
    return Figure.at_least(number, max(number - unsure, 0))


def _doubted(found: Iterable[Reading]) -> frozenset[bytes]:
    """Return events that may not count, as the event that they name was found at no relay."""
    return frozenset[bytes]().union(*(reading.doubted for reading in found))


def _are_known(weighed: Sequence[TestedClaim], part: Callable[[Reading], frozenset[bytes]]) -> bool:
    """Whether the members of all readings are proven, and too fresh for one to be gone by now."""
    found = readings(weighed)
    proven = all(w.is_of_now for w in weighed) and all(
        reading.proven is Proven.MEMBERS and not reading.doubted for reading in found
    )
    return proven and not gone_at_most(found, part)


def _own_number(weighed: Sequence[TestedClaim]) -> Figure | None:
    """Return the number of a single relay whose own count equals what was read, though not its
    members."""
    if len(weighed) != 1 or not weighed[0].is_of_now:
        return None
    (reading,) = readings(weighed)
    gone = not reading.balanced and gone_at_most([reading], _ids)
    unsure = reading.doubted or gone
    if reading.proven is not Proven.NUMBER or unsure:
        return None
    return Figure.exactly(len(reading.events), as_said=not looked_for(weighed))


def _from_registers(weighed: Sequence[TestedClaim], read: Figure, one_per_author: bool) -> Figure:
    sketches = [w.registers for w in weighed if w.registers is not None]
    union = joined(*sketches)
    alone = all(w.short for w in weighed if w.registers is not None)
    missing = alone or any(w.incomplete for w in weighed)
    speaker = _speaker(weighed, union) if one_per_author and not missing else None
    if speaker is not None:
        return _of_one_relay(speaker, union, asked=len(weighed))
    terms = _terms(weighed, read.value, one_per_author)
    floor = max(read.low, confirmed_people(weighed, terms) if one_per_author else 0)
    if union == hll.EMPTY and not floor and not (one_per_author and largest_word(weighed)):
        return _nobody(weighed, missing)
    robust = bent([union, *sketches])
    figure = _estimated(corrected(terms, union, robust=robust), floor)
    figure = _less_gone(figure, read, floor)
    if not missing:
        return figure
    word = 0 if not one_per_author or _is_known(sketches, union) else largest_word(weighed)
    return figure.or_word(Figure.at_least(word, 0))


def _less_gone(figure: Figure, read: Figure, floor: int) -> Figure:
    """Return the figure with room below for people who were read and may have left the relays by
    now.

    They are in the number that corrects the estimate, so it may be too high by their share.
    """
    if read.low == read.value:
        return figure
    low = max(math.floor(figure.low * read.low / read.value), min(floor, figure.low))
    return msgspec.structs.replace(figure, low=low)


def _is_known(sketches: Sequence[bytes], union: bytes) -> bool:
    """Whether at least two relays have nearly everybody in a union, so that words add nothing."""
    whole = estimate(union)
    return whole >= FEWEST and estimate(corroborated(*sketches)) >= SATURATED * whole


def largest_word(weighed: Iterable[TestedClaim]) -> int:
    """Return the largest count that is only a relay's word, without registers or a reading."""
    return max((w.loose_count or 0 for w in weighed if w.registers is None), default=0)


def _speaker(weighed: Sequence[TestedClaim], union: bytes) -> TestedClaim | None:
    """Return the one relay whose word is the number: the others gave nothing, or only people."""
    used = [w for w in weighed if w.claim.answered and not w.left_out]
    if len(used) == 1:
        return used[0]
    counted = [w for w in used if w.firm_count or w.claim.reading]
    alone = len(counted) == 1 and counted[0].registers == union and not counted[0].claim.reading
    return counted[0] if alone else None


def confirmed_people(weighed: Sequence[TestedClaim], terms: Sequence[Term]) -> int:
    """Return the number of people on one relay that no single relay's word can raise.

    Of counts that agree beside their registers it is the second largest.
    """
    second = sorted((term.number for term in terms), reverse=True)[1:2]
    return max(vouched_count(weighed), *second, 0)


def _of_one_relay(weighed: TestedClaim, union: bytes, *, asked: int) -> Figure:
    """Return one relay's own number, with the interval of the registers that confirm it.

    If other relays were asked and did not answer, a number outside of the interval is not used.
    """
    firm = weighed.firm_count
    if firm is not None and weighed.trusted and asked == 1:
        return Figure.exactly(firm)
    if union == hll.EMPTY and not weighed.loose_count:
        known = asked == 1 and weighed.is_of_now
        return Figure.exactly(0) if known else Figure.at_least(0)
    figure = _estimated(people(union, robust=bent([union])), 0)
    reported = None if firm is None and bent([union]) else weighed.loose_count
    if reported is None or figure.high is None:
        return figure
    if not figure.low <= reported <= figure.high and (firm is None or asked > 1):
        return figure
    low, high = min(figure.low, reported), max(figure.high, reported)
    return Figure(value=reported, low=low, high=high, as_said=firm is not None)


def _nobody(weighed: Sequence[TestedClaim], missing: bool) -> Figure:
    """Return the figure if no register is set anywhere: nobody, if every relay answered."""
    answered = not missing and all(w.registers is not None and w.is_of_now for w in weighed)
    return Figure.exactly(0) if answered else Figure.at_least(0)


def _estimated(found: Estimate, floor: int) -> Figure:
    low, high = hll.interval(found.people, sigma=found.sigma)
    if math.isfinite(high) and round(low) < round(high):
        low, high = round(low), round(high)  # outwards it would be a person more: much of 60
    value = max(round(low if math.isinf(found.people) else found.people), floor)
    least = max(math.floor(low), floor)
    if math.isfinite(high) and math.ceil(high) <= least:  # more are known than it estimates
        return Figure.at_least(value, least)
    return Figure(
        value=value, low=least, high=None if math.isinf(high) else max(math.ceil(high), value)
    )


def _terms(weighed: Sequence[TestedClaim], read: int, one_per_author: bool) -> list[Term]:
    """Return what is exactly known: everybody who was read, and counts of people that agree.

    Counts are relays' words: one that no other count or reading agrees with corrects nothing.
    """
    sketches = [w.registers for w in weighed if w.claim.reading and w.registers is not None]
    known = [Term(read, joined(*sketches), proven=True)] if sketches and read else []
    counted = [w for w in weighed if one_per_author and w.claim.reading is None]
    words = [term for w in counted if (term := count_term(w)) is not None]
    supported = known or len(words) > 1 or any(term.proven for term in words)
    return known + words if supported else known


def _from_counts(weighed: Sequence[TestedClaim]) -> Figure | None:
    """Return the largest count, as its relay says: no count proves a low end, unless the user
    trusts it.

    A single trusted relay is exact only alone, as relays have different events.
    """
    loose = [w.loose_count for w in weighed if w.loose_count is not None]
    if not loose:
        return None
    value, vouched = max(loose), [w for w in weighed if w.trusted and w.is_of_now]
    cut = (w.loose_count or 0 for w in vouched if w.claim.limited)
    low = max(vouched_count(weighed), *cut, 0)
    if len(weighed) > 1:
        return Figure.at_least(value, low)
    (one,) = weighed
    if vouched and one.firm_count is not None:
        return Figure.exactly(one.firm_count)
    high = one.claim.count_high if vouched else None
    firm = one.firm_count is not None
    return Figure(value=value, low=low, high=high, lower_bound=not firm, as_said=firm)
