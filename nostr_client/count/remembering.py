"""Count with earlier answers: decide which of them replace relays that fail now."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import msgspec

from nostr_client.codecs.display import moment
from nostr_client.count.claims import StoredQuery, is_answer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nostr_client.count.claims import ClaimBook
    from nostr_client.count.merge import Claim
    from nostr_client.count.queries import Query

KEEP: Final = 14 * 86_400.0
"""Seconds that an answer replaces a relay that fails: relays come back after days."""


@lru_cache(8192)  # each relay of each round asks
def asked_of(query: Query) -> StoredQuery:
    """Return the key of the query in the claims: the same for every spelling that shares them."""
    offset = query.offset
    filters = sorted(filter.cache_key() for filter in query.filters)
    rule = [query.name] if query.judges else []  # the known events were judged by it
    key = json.dumps([filters, offset, query.is_zaps, *rule], separators=(",", ":"))
    wire = [filter.to_dict() for filter in query.filters]
    return StoredQuery(
        key=key,
        name=query.name,
        target=query.target,
        filters=json.dumps(wire, separators=(",", ":"), ensure_ascii=False),
        offset=offset,
        sums=query.is_zaps,
        replaces=query.one_per_author,
    )


async def remembered(
    book: ClaimBook, query: Query, claims: Mapping[str, Claim], now: float, keep: float = KEEP
) -> dict[str, Claim]:
    """Store new claims, by normalised URL; return the earlier answers that replace failures.

    Raises StoreError.
    """
    asked = asked_of(query)
    await book.remember(asked, claims.items())
    failed = [url for url, claim in claims.items() if not is_answer(claim)]
    if not failed:
        return {}
    found = await book.recall(asked, now, failed)
    usable = {one.url: one.usable(now, keep) for one in found}
    return {url: claim for url, claim in usable.items() if claim is not None}


def stand_in(claim: Claim, earlier: Claim) -> tuple[Claim, Claim]:
    """Return a failure to show, and the earlier answer to count with, under the name used now.

    The answer proves nothing of now, whatever its source.
    """
    said = moment(earlier.asked_at or 0.0, "%Y-%m-%d %H:%M UTC")
    shown = claim.warned(f"it fails now: counted with its answer of {said}, which is not exact now")
    return shown, msgspec.structs.replace(earlier, relay=claim.relay, stands_in=True)


def merge_input(
    claims: Sequence[tuple[str, Claim]], earlier: Mapping[str, Claim]
) -> tuple[list[Claim], list[Claim]]:
    """Return the claims to show, and those to count with, in the same order."""
    shown: list[Claim] = []
    used: list[Claim] = []
    for url, claim in claims:
        pair = stand_in(claim, earlier[url]) if url in earlier else (claim, claim)
        shown.append(pair[0])
        used.append(pair[1])
    return shown, used
