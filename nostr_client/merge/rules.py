"""The merge rules: many claims about one query, one number for each of the two units.

Pure: no clock, no network. The result does not depend on the order of the claims, and a claim
that is given twice counts once. Relays are never added up: the same people and events lie on many
of them. Source: design section 3; the better merge is measured in docs/concepts/merging.md.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import msgspec

from nostr_client import hll
from nostr_client.merge.drift import gone_at_most
from nostr_client.merge.sketches import classical_estimate, corroborated, estimate, joined
from nostr_client.merge.values import Claim, Figure, Proven

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from nostr_client.merge.values import Reading


class Weighed:
    """A claim and what the trust tests left of it; `believed`: it passed them all.

    `short`: the registers tell of fewer than the relay counted. `registers` are those that may be
    merged. `firm_count`: a relay's word that its count is exact, not estimated, cut, a weak zero or
    read by us. `loose_count`: any count that the relay gave. `left_out`: nothing of this claim goes
    into the number. `incomplete`: this relay is known to hold something that was not merged.
    """

    __slots__ = (
        "claim",
        "count_counts",
        "firm_count",
        "incomplete",
        "left_out",
        "loose_count",
        "registers",
        "short",
    )

    def __init__(
        self,
        claim: Claim,
        *,
        registers_count: bool = True,
        count_counts: bool = True,
        believed: bool = True,
        short: bool = False,
    ) -> None:
        self.claim = claim
        self.count_counts = count_counts
        self.short = short
        answered, reading = claim.answered, claim.reading
        self.registers = claim.registers if answered and registers_count else None
        self.loose_count = claim.count if answered and count_counts else None
        self.firm_count = self.loose_count if believed and _is_firm(claim) else None
        nothing = self.registers is None and not count_counts and reading is None
        self.left_out = answered and nothing
        if reading is not None:
            self.incomplete = answered and not reading.complete
        else:
            bare = self.registers is None and count_counts and not claim.weak_zero
            self.incomplete = answered and bare

    @property
    def is_of_now(self) -> bool:
        """Whether the relay said it now: what stands in for silence proves nothing of today."""
        return not self.claim.stands_in

    def for_want_of_better(self) -> Weighed:
        """This claim, whose count failed the tests, with its count all the same."""
        merged = self.registers is not None
        return Weighed(self.claim, registers_count=merged, believed=False, short=self.short)


def _is_firm(claim: Claim) -> bool:
    if claim.weak_zero or claim.approximate or claim.limited or claim.stands_in:
        return False
    if claim.reading is not None:
        return not claim.reading.complete
    return not is_own_estimate(claim.count or 0, claim.registers)


def distinct(claims: Iterable[Claim]) -> list[Claim]:
    """The claims with the newest of each relay, by relay: the order of asking says nothing."""
    newest: dict[str, Claim] = {}
    for claim in sorted(claims, key=_order):
        newest[claim.relay] = claim
    return [newest[relay] for relay in sorted(newest)]


def _order(claim: Claim) -> tuple[object, ...]:
    """Newest last; of two of one moment always the same one, however they came."""
    tie = (claim.count or 0, claim.registers or b"", claim.status, claim.method or "")
    return (claim.asked_at or 0.0, claim.answered, *tie, claim.latency_ms or 0.0, claim.warnings)


def authors_figure(weighed: Sequence[Weighed], *, one_per_author: bool) -> Figure | None:
    """Distinct authors over all relays, or None when nothing tells them.

    `one_per_author`: an author has at most one matching event (a replaceable kind), so that exact
    counts of events are exact counts of authors.
    """
    read = _authors_read(weighed)
    if all_read(weighed):
        return _own_number(weighed) or read if one_per_author else read
    if any(w.registers is not None and w.claim.reading is None for w in weighed):
        return _from_registers(weighed, read, one_per_author)
    if readings(weighed):
        return Figure.at_least(max(read.low, best_count(weighed) if one_per_author else 0))
    return _from_counts(weighed) if one_per_author else None


def events_figure(weighed: Sequence[Weighed]) -> Figure | None:
    """Distinct events over all relays, for a query whose authors may have several."""
    read = _events_read(weighed)
    if all_read(weighed):
        return _own_number(weighed) or read
    counted = _from_counts(weighed)
    if counted is None:
        return Figure.at_least(read.low) if read.value else None
    if not read.value:
        return counted
    return Figure.at_least(max(read.low, counted.value), max(read.low, counted.low))


def agreed(authors: Figure | None, events: Figure | None) -> tuple[Figure | None, Figure | None]:
    """Both figures, each with what the other tells: nobody has no events, and people one at least.

    Estimates of more authors than there are events are errors of the estimate; a lower end above
    the events is a contradiction, and is left to be seen.
    """
    if authors is None or events is None:
        return authors, events
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
    if events.low >= people or (events.high is not None and events.high < people):
        return events
    return msgspec.structs.replace(events, value=max(events.value, people), low=people)


def amount_figure(weighed: Sequence[Weighed]) -> Figure | None:
    """The sum of what distinct events are worth, exact only where every relay was read; else None.

    An event is worth the same wherever it lies, so it counts once.
    """
    worth: dict[bytes, int] = {}
    told = False
    for reading in readings(weighed):
        if reading.amounts is not None:
            told = True
            worth.update(reading.amounts)
    if not told:
        return None
    total = sum(worth.values())
    exact = all_read(weighed) and _are_known(weighed, _ids)
    return Figure.exactly(total) if exact else Figure.at_least(total)


def corroborated_figure(weighed: Sequence[Weighed]) -> Figure | None:
    """The authors that two relays at least tell of; None for fewer than two sketches."""
    sketches = [w.registers for w in weighed if w.registers is not None]
    if len(sketches) < 2:
        return None
    return _estimated(estimate(corroborated(*sketches)), 0)


def readings(weighed: Iterable[Weighed]) -> list[Reading]:
    """What was read by events, of the relays that answered."""
    return [w.claim.reading for w in weighed if w.claim.reading and w.claim.answered]


def all_read(weighed: Sequence[Weighed]) -> bool:
    """True when every relay that was asked was read by events, to the end."""
    read = readings(weighed)
    return bool(read) and len(read) == len(weighed) and all(r.complete for r in read)


def best_count(weighed: Iterable[Weighed]) -> int:
    """The largest exact claim of one relay, which no merged number may fall below; else 0."""
    return max((w.firm_count or 0 for w in weighed), default=0)


def is_own_estimate(count: int, registers: bytes | None) -> bool:
    """Whether a relay's count is what its own registers give by an estimator in use.

    Such a count is no second source. Known: Ertl's, and the classical one of the relays written
    in Go, each cut or rounded. An exact count meets one of them by chance, the more often the
    smaller it is; then little is lost, as small estimates are good.
    """
    if registers is None:
        return False
    known = (estimate(registers), classical_estimate(registers))
    return any(math.isfinite(e) and count in (math.floor(e), round(e)) for e in known)


def better_merge(terms: Sequence[tuple[int, bytes]], union: bytes) -> float:
    """Distinct authors in `union`, corrected by what is exactly known about parts of it.

    `terms` are exact numbers of authors and the registers of the same authors. Where they cover
    the union: sum(count) * est(union) / sum(est(registers)), as the errors of sketches that share
    members point the same way. Where they cover a part, the correction is weakened by its share
    (as a power), because a small part says little about the error of the whole.
    """
    whole = estimate(union)
    known = [(count, estimate(r)) for count, r in terms if r != hll.EMPTY and count > 0]
    estimated = sum(estimate for _, estimate in known)
    if not estimated or math.isinf(whole) or math.isinf(estimated):
        return whole
    share = estimate(joined(*(r for _, r in terms))) / whole
    factor = sum(count for count, _ in known) / estimated
    return float(whole * factor ** min(share, 1.0))


def _authors_read(weighed: Sequence[Weighed]) -> Figure:
    return _read_figure(weighed, _authors)


def _events_read(weighed: Sequence[Weighed]) -> Figure:
    return _read_figure(weighed, _ids)


def _authors(reading: Reading) -> frozenset[bytes]:
    return reading.authors


def _ids(reading: Reading) -> frozenset[bytes]:
    return reading.events


def _read_figure(weighed: Sequence[Weighed], part: Callable[[Reading], frozenset[bytes]]) -> Figure:
    """What was read: exact where this round proved all of it, else at least that."""
    found = readings(weighed)
    number = len(_union(map(part, found)))
    if _are_known(weighed, part):
        return Figure.exactly(number)
    return Figure.at_least(number, number - gone_at_most(found, part))


def _are_known(weighed: Sequence[Weighed], part: Callable[[Reading], frozenset[bytes]]) -> bool:
    """Whether the members of all readings are proven, and too fresh for one to be gone by now."""
    found = readings(weighed)
    proven = all(w.is_of_now for w in weighed) and all(
        reading.proven is Proven.MEMBERS for reading in found
    )
    return proven and not gone_at_most(found, part)


def _own_number(weighed: Sequence[Weighed]) -> Figure | None:
    """One relay alone whose own count is what was read: its number, though not its members."""
    if len(weighed) != 1 or not weighed[0].is_of_now:
        return None
    (reading,) = readings(weighed)
    if reading.proven is not Proven.NUMBER or gone_at_most([reading], _ids):
        return None
    return Figure.exactly(len(reading.events))


def _from_registers(weighed: Sequence[Weighed], read: Figure, one_per_author: bool) -> Figure:
    union = joined(*(w.registers for w in weighed if w.registers is not None))
    alone = all(w.short for w in weighed if w.registers is not None)
    missing = alone or any(w.incomplete for w in weighed)
    floor = max(read.low, best_count(weighed) if one_per_author else 0)
    if one_per_author and len(weighed) == 1 and not missing:
        return _of_one_relay(weighed[0], union)
    if union == hll.EMPTY and not floor:
        return _nobody(weighed, missing)
    figure = _estimated(better_merge(_terms(weighed, read.value, one_per_author), union), floor)
    return Figure.at_least(figure.value, figure.low) if missing else figure


def _of_one_relay(weighed: Weighed, union: bytes) -> Figure:
    """One relay's own number, exact unless it is an estimate too; then with its interval."""
    if weighed.firm_count is not None:
        return Figure.exactly(weighed.firm_count)
    if union == hll.EMPTY and not weighed.loose_count:
        return Figure.exactly(0) if weighed.is_of_now else Figure.at_least(0)
    figure = _estimated(estimate(union), 0)
    told = weighed.loose_count
    if told is None or figure.high is None or not figure.low <= told <= figure.high:
        return figure
    return Figure(value=told, low=figure.low, high=figure.high)


def _nobody(weighed: Sequence[Weighed], missing: bool) -> Figure:
    """No register is set anywhere: nobody, if every relay was heard."""
    heard = not missing and all(w.registers is not None and w.is_of_now for w in weighed)
    return Figure.exactly(0) if heard else Figure.at_least(0)


def _estimated(estimate: float, floor: int) -> Figure:
    low, high = hll.interval(estimate)
    value = max(round(low if math.isinf(estimate) else estimate), floor)
    least = max(math.floor(low), floor)
    if math.isfinite(high) and math.ceil(high) <= least:  # more are known than it estimates
        return Figure.at_least(value, least)
    return Figure(
        value=value, low=least, high=None if math.isinf(high) else max(math.ceil(high), value)
    )


def _terms(weighed: Sequence[Weighed], read: int, one_per_author: bool) -> list[tuple[int, bytes]]:
    """What is exactly known: everybody who was read, and exact counts of authors by relays."""
    terms: list[tuple[int, bytes]] = []
    sketches = [w.registers for w in weighed if w.claim.reading and w.registers is not None]
    if sketches:
        terms.append((read, joined(*sketches)))
    counted = [w for w in weighed if one_per_author and w.claim.reading is None]
    return terms + [(w.firm_count, w.registers) for w in counted if w.firm_count and w.registers]


def _from_counts(weighed: Sequence[Weighed]) -> Figure | None:
    """The largest count; exact only where one relay was asked, as relays hold different events."""
    loose = [w.loose_count for w in weighed if w.loose_count is not None]
    if not loose:
        return None
    if len(weighed) == 1 and weighed[0].firm_count is not None:
        return Figure.exactly(weighed[0].firm_count)
    cut = (w.loose_count or 0 for w in weighed if w.claim.limited and w.is_of_now)
    low = max(best_count(weighed), *cut, 0)
    alone = len(weighed) == 1 and weighed[0].is_of_now
    high = weighed[0].claim.count_high if alone else None
    return Figure(value=max(loose), low=low, high=high, lower_bound=True)


def _union(sets: Iterable[frozenset[bytes]]) -> frozenset[bytes]:
    return frozenset().union(*sets)
