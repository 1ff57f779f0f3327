"""Find zap receipts that claim one and the same payment: it counts once, with any signer. Pure.

Any key can sign a receipt, and an invoice is public in each receipt. So a copy of a receipt under
another key is another event, but not another payment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from nostr_client.codecs.display import plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nostr_client.count.merge.values import Claim, Receipt


def one_payment_each(claims: Sequence[Claim]) -> list[Claim]:
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
