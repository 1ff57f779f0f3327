"""Which claims may bend the number: the trust tests, and what is done about a relay that fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nostr_client import hll, trust
from nostr_client.merge import sketches
from nostr_client.merge.outliers import MAX_GAIN, Core, find_core, too_many_events
from nostr_client.merge.rules import Weighed, is_own_estimate
from nostr_client.trust import TrustPolicy

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from nostr_client.merge.values import Claim


def weigh(
    claims: Sequence[Claim],
    *,
    one_per_author: bool,
    policy: TrustPolicy,
    trusted: Collection[str] = (),
) -> list[Weighed]:
    """Every claim with what the tests say about it, as warnings and, by policy, as exclusion.

    What was read from events is not tested, as each was verified; what a relay only says is.
    """
    if policy is TrustPolicy.OFF:
        return [Weighed(claim) for claim in claims]
    core = _core(claims, trusted)
    return [
        Weighed(claim)
        if not claim.answered or claim.relay in trusted
        else _judged(claim, claims, core, one_per_author, policy)
        for claim in claims
    ]


def _judged(
    claim: Claim,
    claims: Sequence[Claim],
    core: Core | None,
    one_per_author: bool,
    policy: TrustPolicy,
) -> Weighed:
    lies, doubts = _registers_verdict(claim, core)
    told, of_more = _contradiction(claim, one_per_author)
    lies += told if of_more else ()
    counts = (*told, *_count_verdict(claim, claims, core, one_per_author))
    warned = claim.warned(*lies, *doubts, *counts)
    failed = bool(lies or counts)
    drop = policy is TrustPolicy.EXCLUDE
    return Weighed(
        warned,
        registers_count=not (drop and lies),
        count_counts=not (drop and failed),
        believed=not failed,
        short=bool(told) and not of_more and bool(claim.count),
    )


def _registers_verdict(claim: Claim, core: Core | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What disqualifies the registers, and what is merely remarkable."""
    if claim.registers is None or claim.reading:
        return (), ()
    odd = sketches.shape(claim.registers).reasons
    if core is None:
        return odd, ()
    gain = core.gain(claim.registers)
    if gain <= MAX_GAIN:
        return odd, ()
    text = f"hll: alone adds {gain:.0%} to what the majority of relays hold"
    return ((*odd, text), ()) if core.saturated else (odd, (text,))


def _contradiction(claim: Claim, one_per_author: bool) -> tuple[tuple[str, ...], bool]:
    """How a relay's count and registers contradict each other; whether the registers are at fault.

    Registers that say less than the count raise nothing and stay, but for empty ones: they tell of
    nobody, which the count denies. A count of 0 beside registers is how some relays refuse; then
    the registers are not what is wrong.
    """
    if claim.registers is None or claim.count is None or claim.reading:
        return (), False
    if claim.approximate or claim.limited or is_own_estimate(claim.count, claim.registers):
        return (), False
    tested = trust.count_consistency(claim.count, claim.registers, one_per_author=one_per_author)
    blank = claim.registers == hll.EMPTY
    return tested.reasons, claim.count > 0 and (tested.z > 0 or blank)


def _count_verdict(
    claim: Claim, claims: Sequence[Claim], core: Core | None, one_per_author: bool
) -> Iterator[str]:
    """What disqualifies the count."""
    if claim.count is None or claim.limited or (claim.reading and claim.reading.complete):
        return
    if one_per_author:
        if core and core.saturated and claim.count > (1 + MAX_GAIN) * max(core.estimate, 50):
            yield f"count: {claim.count} against about {core.estimate:.0f} on the other relays"
        return
    people = (
        sketches.estimate(claim.registers) if claim.registers else core.estimate if core else None
    )
    if people is not None and too_many_events(claim.count, people, _ratios(claims, claim)):
        yield f"count: {claim.count} events by about {people:.0f} authors, far from other relays"


def _ratios(claims: Sequence[Claim], but: Claim) -> list[float]:
    """Events an author at the other relays that show both."""
    return [
        c.count / sketches.estimate(c.registers)
        for c in claims
        if c is not but and c.answered and c.count and c.registers and c.registers != hll.EMPTY
    ]


def _core(claims: Sequence[Claim], trusted: Collection[str]) -> Core | None:
    held = [c for c in claims if c.answered and c.registers is not None]
    vouched = [c.registers for c in held if c.reading or c.relay in trusted]
    claimed = [c.registers for c in held if not (c.reading or c.relay in trusted)]
    return find_core([r for r in vouched if r], [r for r in claimed if r])
