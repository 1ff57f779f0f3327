"""Decide which claims may change the number: the trust tests, and what happens to a relay that
fails."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from nostr_client import hll
from nostr_client.codecs.display import plural, roughly
from nostr_client.count import trust
from nostr_client.count.merge import sketches
from nostr_client.count.merge.better import disagreeing
from nostr_client.count.merge.outliers import (
    LEAST_OUTLANDISH,
    MAX_GAIN,
    LowerMajority,
    find_core,
    is_outlandish,
    made_up,
    too_many_events,
)
from nostr_client.count.merge.rules import TestedClaim, count_term, is_own_estimate
from nostr_client.count.trust import TrustPolicy

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from nostr_client.count.merge.values import Claim

NOT_JUDGED: Final = "ids: it sent no sample of their events, so nothing confirms that they exist"


def weigh(
    claims: Sequence[Claim],
    *,
    one_per_author: bool,
    policy: TrustPolicy,
    trusted: Collection[str] = (),
) -> list[TestedClaim]:
    """Return every claim with the results of the tests, as warnings and, by policy, as exclusion.

    Events that were read are not tested, as each was verified; a relay's words are.
    """
    if policy is TrustPolicy.OFF:
        return [TestedClaim(claim, trusted=claim.relay in trusted) for claim in claims]
    core = _core(claims, trusted)
    judged = [
        TestedClaim(claim, trusted=claim.relay in trusted)
        if not claim.answered or claim.relay in trusted
        else _judged(claim, claims, core, one_per_author, policy)
        for claim in claims
    ]
    if one_per_author:
        _compare(judged, drop=policy is TrustPolicy.EXCLUDE)
    return judged


def _judged(
    claim: Claim,
    claims: Sequence[Claim],
    core: LowerMajority | None,
    one_per_author: bool,
    policy: TrustPolicy,
) -> TestedClaim:
    lies, doubts = _registers_verdict(claim, claims, core)
    contradictions, of_more = _contradiction(claim, one_per_author)
    lies += contradictions if of_more else ()
    counts = (*contradictions, *_count_verdict(claim, claims, core, one_per_author))
    invented = _listing_verdict(claim)
    warned = claim.warned(*lies, *doubts, *counts, *invented)
    failed = bool(lies or counts or invented)
    drop = policy is TrustPolicy.EXCLUDE
    return TestedClaim(
        warned,
        registers_count=not (drop and lies),
        count_counts=not (drop and failed),
        listing_counts=not invented,
        believed=not failed,
        short=bool(contradictions) and not of_more and bool(claim.count),
    )


def _compare(judged: list[TestedClaim], *, drop: bool) -> None:
    """Doubt counts that disagree with the others beside their registers."""
    places, terms = [], []
    for place, one in enumerate(judged):
        term = count_term(one)
        if term is not None:
            places.append(place)
            terms.append(term)
    if len(terms) < 2:
        return
    robust = sketches.bent(term.registers for term in terms)
    for index, gap in disagreeing(terms, robust=robust).items():
        one = judged[places[index]]
        side = f"{abs(gap):.0%} {'more' if gap > 0 else 'less'}"
        text = f"count: {one.claim.count:,}, {side} than its registers and the other relays show"
        judged[places[index]] = one.doubted(text, drop=drop)


def _registers_verdict(
    claim: Claim, claims: Sequence[Claim], core: LowerMajority | None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return what disqualifies the registers, and what is only remarkable."""
    if claim.registers is None or claim.reading:
        return (), ()
    odd, mined = _form(claim, claims)
    if core is None:
        return odd, mined
    gain = core.gain(claim.registers)
    if gain <= MAX_GAIN:
        return odd, mined
    text = f"hll: it alone adds {gain:.0%} to the people of most relays: more, or made up"
    return ((*odd, text), mined) if core.saturated else (odd, (*mined, text))


def _form(claim: Claim, claims: Sequence[Claim]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return what is wrong with the form of registers: made up, or raised by mined keys.

    Mined keys are real, so the relay that shows them is honest and its sketch is used, with high
    registers counting once each.
    """
    assert claim.registers is not None
    form, mined = sketches.shape(claim.registers), sketches.mined(claim.registers)
    if not mined.found:
        return form.reasons, ()
    others = [c.registers for c in claims if c is not claim and c.answered and c.registers]
    if made_up(claim.registers, mined, others):
        return form.reasons or mined.reasons, ()
    return (), mined.reasons


def _listing_verdict(claim: Claim) -> tuple[str, ...]:
    """Return what disqualifies a listing: ids that the relay names without having the events.

    A listing without a fetched sample is no better: a relay could name anything and then fall
    silent.
    """
    if claim.listing is None:
        return ()
    if not claim.listing.judged:
        return (NOT_JUDGED,)
    if not claim.listing.failed:
        return ()
    checked = claim.listing.failed + len(claim.listing.verified)
    return (
        f"ids: {claim.listing.failed} of {plural(checked, 'id')} that were checked have no event"
        " behind them",
    )


def _contradiction(claim: Claim, one_per_author: bool) -> tuple[tuple[str, ...], bool]:
    """Return how a relay's count and registers contradict each other; whether the registers are at
    fault.

    Registers that estimate less than the count raise nothing and stay, except empty ones: they
    estimate nobody, which the count denies. Some relays refuse with a count of 0 beside registers;
    then the registers are not at fault.
    """
    if claim.registers is None or claim.count is None or claim.reading:
        return (), False
    if claim.approximate or claim.limited or is_own_estimate(claim.count, claim.registers):
        return (), False
    estimate = sketches.people(claim.registers, robust=sketches.bent([claim.registers])).people
    tested = trust.count_consistency(
        claim.count, claim.registers, one_per_author=one_per_author, estimate=estimate
    )
    blank = claim.registers == hll.EMPTY
    return tested.reasons, claim.count > 0 and (tested.z > 0 or blank)


def _count_verdict(
    claim: Claim, claims: Sequence[Claim], core: LowerMajority | None, one_per_author: bool
) -> Iterator[str]:
    """Return what disqualifies the count."""
    if claim.count is None or claim.limited or (claim.reading and claim.reading.complete):
        return
    verdict = (_people_verdict if one_per_author else _events_verdict)(claim, claims, core)
    if verdict is None and claim.count > LEAST_OUTLANDISH:
        verdict = _outlandish(claim.count, claims, claim)
    if verdict is not None:
        yield f"count: {claim.count:,} {verdict}"


def _people_verdict(claim: Claim, _: Sequence[Claim], core: LowerMajority | None) -> str | None:
    limit = (1 + MAX_GAIN) * max(core.estimate, 50) if core and core.saturated else math.inf
    if core is None or (claim.count or 0) <= limit:
        return None
    return f"people, but the other relays have {roughly(core.estimate)}"


def _events_verdict(
    claim: Claim, claims: Sequence[Claim], core: LowerMajority | None
) -> str | None:
    people = core.estimate if core else None
    if claim.registers:
        people = sketches.estimate(claim.registers)
    if people is None or not too_many_events(claim.count or 0, people, _ratios(claims, claim)):
        return None
    return f"events, far from other relays for authors who are {roughly(people)}"


def _outlandish(count: int, claims: Sequence[Claim], claim: Claim) -> str | None:
    others = [_shown(one) for one in claims if one is not claim and one.answered]
    known = [number for number in others if number is not None]
    return f"where other relays say at most {max(known):,}" if is_outlandish(count, known) else None


def _shown(claim: Claim) -> int | None:
    """Return the most that a claim shows of its question; None if it shows nothing."""
    if claim.registers is None:
        return None if claim.weak_zero else claim.count
    people = sketches.mined(claim.registers).people
    return max(claim.count or 0, 0 if math.isinf(people) else round(people))


def _ratios(claims: Sequence[Claim], but: Claim) -> list[float]:
    """Return events per author at the other relays that show both."""
    return [
        c.count / sketches.estimate(c.registers)
        for c in claims
        if c is not but and c.answered and c.count and c.registers and c.registers != hll.EMPTY
    ]


def _core(claims: Sequence[Claim], trusted: Collection[str]) -> LowerMajority | None:
    held = [c for c in claims if c.answered and c.registers is not None]
    vouched = [c.registers for c in held if c.reading or c.relay in trusted]
    claimed = [c.registers for c in held if not (c.reading or c.relay in trusted)]
    return find_core([r for r in vouched if r], [r for r in claimed if r])
