"""Combine claims into one merged number, and explain how each was used.

A payment that several zap receipts claim counts once. Any key can sign a receipt, and an invoice
is public in each receipt. So a copy of a receipt under another key is another event, but not
another payment.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import msgspec

from nostr_client.codecs.display import plural
from nostr_client.count.merge import sketches
from nostr_client.count.merge.rules import (
    agreed,
    amount_figure,
    authors_figure,
    corroborated_figure,
    distinct,
    events_figure,
    members_of,
)
from nostr_client.count.merge.values import Claim, CountUnit, Merged, Part
from nostr_client.count.merge.weighing import weigh
from nostr_client.count.trust import TrustPolicy

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from nostr_client.count.merge.rules import TestedClaim
    from nostr_client.count.merge.values import Figure, Receipt

LEFT_OUT = "left out of the number"
ITS_WORD = "count: only this relay says it, and nothing confirms it"


def merge_claims(
    claims: Iterable[Claim],
    *,
    one_per_author: bool,
    policy: TrustPolicy = TrustPolicy.EXCLUDE,
    trusted: Collection[str] = (),
    unit: CountUnit = CountUnit.AUTHORS,
) -> Merged:
    """Merge claims about one query; of several claims of one relay the newest counts.

    `one_per_author`: an author has at most one matching event, as with replaceable kinds; counts of
    events are then counts of authors. `trusted` relays are believed whatever the tests say. `unit`:
    what the question counts.

    The same claims in any order, and repeated, give the same result. Without a usable claim both
    figures are None: an error is never a zero. If every claim failed the tests, their counts are
    shown as the only ones available, but not their registers and not the number of ids they named.
    """
    claims = _one_payment_each(distinct(claims))
    weighed = weigh(claims, one_per_author=one_per_author, policy=policy, trusted=trusted)
    if all(w.left_out for w in weighed if w.claim.answered):
        weighed = [w.for_want_of_better() for w in weighed]
    found = None if one_per_author else members_of(weighed)
    authors = authors_figure(weighed, found, one_per_author=one_per_author)
    events = authors if one_per_author else events_figure(weighed, found)
    authors, events = agreed(authors, events)
    weighed = [_named(w, weighed, events) for w in weighed]
    return Merged(
        authors=authors,
        events=events,
        unit=unit,
        claims=tuple(w.claim.warned(LEFT_OUT) if w.left_out else w.claim for w in weighed),
        excluded=tuple(w.claim.relay for w in weighed if w.left_out),
        parts=_parts_of(weighed),
        corroborated=corroborated_figure(weighed),
        amount=amount_figure(weighed),
    )


def _named(one: TestedClaim, weighed: Sequence[TestedClaim], events: Figure | None) -> TestedClaim:
    """Return the claim, with a warning if its count is a word beside other relays' evidence."""
    word = one.loose_count if one.registers is None and one.claim.reading is None else None
    shown = any(w.registers is not None or w.claim.reading for w in weighed if w.claim.answered)
    if not word or one.trusted or not shown or events is None or word <= events.low:
        return one
    return one.noted(ITS_WORD)


def _one_payment_each(claims: Sequence[Claim]) -> list[Claim]:
    """Return the claims; of each payment, all receipts but the earliest are retracted, with a
    warning.

    Receipts with an unknown payment count each.
    """
    found: dict[bytes, Receipt] = {}
    for claim in claims:
        if claim.answered and claim.reading is not None:
            found |= claim.reading.receipts or {}
    earliest: dict[bytes, bytes] = {}
    for id in sorted(found, key=lambda id: (found[id].created_at, id)):
        earliest.setdefault(found[id].payment or id, id)
    again = found.keys() - earliest.values()
    return [_without(claim, again) for claim in claims] if again else list(claims)


def _without(claim: Claim, again: set[bytes]) -> Claim:
    if not claim.answered or claim.reading is None:
        return claim
    copies = again.intersection(claim.reading.receipts or ())
    if not copies:
        return claim
    number = plural(len(copies), "receipt")
    ids = claim.retracted.ids | copies
    claim = msgspec.structs.replace(
        claim, retracted=msgspec.structs.replace(claim.retracted, ids=ids)
    )
    return claim.warned(f"zaps: {number} of payments that other receipts claim: each counts once")


def _parts_of(weighed: Sequence[TestedClaim]) -> tuple[Part, ...]:
    """Return one part for each claim, in order."""
    whole = sketches.estimate(
        sketches.joined(*(w.registers for w in weighed if w.registers is not None))
    )
    return tuple(_part(one, whole) for one in weighed)


def _part(weighed: TestedClaim, whole: float) -> Part:
    return Part(
        relay=weighed.claim.relay,
        used=tuple(_used(weighed)),
        share=_share(weighed, whole),
        reasons=weighed.claim.warnings or _silent_reason(weighed),
    )


def _used(weighed: TestedClaim) -> list[str]:
    claim = weighed.claim
    if not claim.answered:
        return []
    used = ["events"] if claim.reading is not None else []
    if weighed.listing is not None:
        used.append("ids")
    if claim.reading is None and weighed.registers is not None:
        used.append("registers")
    counted = claim.count is not None and weighed.count_counts and not claim.weak_zero
    if claim.reading is None and claim.listing is None and counted:
        used.append("count")
    return used


def _share(weighed: TestedClaim, whole: float) -> float | None:
    if weighed.registers is None or not whole or math.isinf(whole):
        return None
    return round(min(sketches.estimate(weighed.registers) / whole, 1.0), 3)


def _silent_reason(weighed: TestedClaim) -> tuple[str, ...]:
    """Return a reason if nothing was used and no warning gives one."""
    status = weighed.claim.status
    return () if weighed.claim.answered else (f"no answer: {status}",)
