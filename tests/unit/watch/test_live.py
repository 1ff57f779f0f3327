"""What an event between two rounds changes in a claim."""

from __future__ import annotations

import msgspec

from nostr_client.claims import Held
from nostr_client.count import query
from nostr_client.filters import Filter
from nostr_client.merge import Claim, ClaimStatus, Listing, Method, Unit, merge_claims
from nostr_client.watch.live import with_events

ASKED = query(Filter(kinds=[1, 7]))


def key(n: int) -> bytes:
    return n.to_bytes(32, "big")


def test_an_event_that_comes_is_named_and_proven() -> None:
    listing = Listing(ids=frozenset(map(key, range(5))), judged=True)
    claim = Claim(
        relay="a", status=ClaimStatus.OK, method=Method.NEGENTROPY, count=5, listing=listing
    )
    came = [Held(1_700_000_000, key(n), key(1)) for n in (4, 7)]
    changed = with_events(claim, ASKED, came)
    assert changed.count == 6
    assert changed.listing is not None
    assert changed.listing.verified == {key(4), key(7)}
    merged = merge_claims([changed], one_per_author=False, unit=Unit.EVENTS)
    assert merged.figure is not None
    assert (merged.figure.value, merged.figure.low) == (6, 2)
    assert with_events(changed, ASKED, came) is changed
    silent = msgspec.structs.replace(claim, status=ClaimStatus.TIMEOUT)
    assert with_events(silent, ASKED, came) is silent
