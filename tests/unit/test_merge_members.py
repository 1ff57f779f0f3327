"""Events counted by ids: what relays name together, and how much of it is proven."""

from __future__ import annotations

import random
from hashlib import sha256
from typing import TYPE_CHECKING

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nostr_client.count.merge import (
    Claim,
    ClaimStatus,
    Figure,
    Listing,
    Merged,
    Method,
    Reading,
    Retracted,
    TrustPolicy,
    merge_claims,
)

if TYPE_CHECKING:
    from collections.abc import Iterable


def ids(numbers: Iterable[int]) -> frozenset[bytes]:
    return frozenset(sha256(b"%d" % n).digest() for n in numbers)


ASKED = Retracted(asked=ids(range(2_000)))
"""A relay was asked about deletions of everything that others may hold."""


def lists(relay: str, named: Iterable[int], verified: Iterable[int] = (), failed: int = 0) -> Claim:
    listing = Listing(ids=ids(named), verified=ids(verified), failed=failed, judged=True)
    return Claim(
        relay=relay,
        status=ClaimStatus.OK,
        method=Method.NEGENTROPY,
        count=len(listing.ids),
        listing=listing,
        retracted=ASKED,
    )


def read(relay: str, held: Iterable[int], *, complete: bool = True) -> Claim:
    events = ids(held)
    return Claim(
        relay=relay,
        status=ClaimStatus.OK,
        method=Method.EVENTS,
        count=len(events),
        limited=None if complete else True,
        reading=Reading(authors=events, events=events, complete=complete),
        retracted=ASKED,
    )


def counts(relay: str, count: int) -> Claim:
    return Claim(relay=relay, status=ClaimStatus.OK, method=Method.COUNT, count=count)


def merged(*claims: Claim, **how: object) -> Merged:
    policy = how.get("policy", TrustPolicy.EXCLUDE)
    trusted = how.get("trusted", ())
    assert isinstance(policy, TrustPolicy)
    assert isinstance(trusted, tuple)
    return merge_claims(claims, one_per_author=False, policy=policy, trusted=trusted)


def events(*claims: Claim, **how: object) -> Figure:
    figure = merged(*claims, **how).events
    assert figure is not None
    return figure


def as_named(value: int, low: int | None = None) -> Figure:
    """The figure of ids that relays name, of which `low` are proven; all of them by default."""
    low = value if low is None else low
    return Figure(value=value, low=low, high=value, exact=low == value, as_said=True)


def test_ids_that_two_relays_name_are_exact() -> None:
    figure = events(lists("a", range(40)), lists("b", range(40)))
    assert figure == as_named(40)


def test_ids_that_one_relay_names_do_not_raise_the_low_end() -> None:
    figure = events(lists("a", range(40), verified=range(3)), lists("b", range(30, 60)))
    assert figure == as_named(60, low=10 + 3)


def test_what_a_relay_that_was_read_holds_is_proven() -> None:
    assert events(read("a", range(40)), lists("b", range(20, 40))) == as_named(40)
    assert events(read("a", range(40)), lists("b", range(20, 50))) == as_named(50, low=40)


def test_a_relay_without_members_leaves_a_lower_bound() -> None:
    silent = Claim(relay="b", status=ClaimStatus.TIMEOUT)
    figure = events(lists("a", range(40), verified=range(40)), silent)
    assert figure == Figure.at_least(40)
    partly = events(lists("a", range(40), verified=range(5)), read("b", range(3), complete=False))
    assert (partly.value, partly.low, partly.high) == (40, 5, None)


@pytest.mark.parametrize("policy", [TrustPolicy.EXCLUDE, TrustPolicy.FLAG])
def test_a_relay_with_made_up_ids_counts_with_what_was_fetched_of_it(policy: TrustPolicy) -> None:
    liar = lists("liar", range(1_050), verified=[*range(5), 60], failed=25)
    result = merged(lists("a", range(50)), lists("b", range(50)), liar, policy=policy)
    assert result.events is not None
    assert result.events.low == 51
    if policy is TrustPolicy.EXCLUDE:
        assert (result.events.value, result.excluded) == (51, ("liar",))
    (warned,) = [claim.warnings for claim in result.claims if claim.relay == "liar"]
    assert any("25 of 31" in text for text in warned)


def test_a_trusted_relay_is_believed_without_proof() -> None:
    figure = events(lists("a", range(40)), lists("b", range(20)), trusted=("a",))
    assert figure == as_named(40)


def test_what_is_retracted_comes_off_wherever_it_is_held() -> None:
    knows = msgspec.structs.replace(
        read("a", range(20)), retracted=Retracted(ids=ids([30, 31]), asked=ASKED.asked)
    )
    assert events(knows, lists("b", range(40), verified=range(20, 40))) == as_named(38)


def test_deletions_that_were_asked_about_by_a_sample_widen_the_number() -> None:
    asked = msgspec.structs.replace(
        lists("a", range(1_000)), retracted=Retracted(asked=ids(range(1_000, 1_050)))
    )
    both = (lists("b", range(1_200)), lists("c", range(1_200)))
    figure = events(asked, *both)
    assert (figure.value, figure.high, figure.exact) == (1_200, 1_200, False)
    assert 1_200 - 150 <= figure.low < 1_200
    unasked = msgspec.structs.replace(asked, retracted=Retracted(asked=frozenset()))
    assert events(unasked, *both).low == 1_000


def test_people_are_no_surer_than_their_events_which_may_be_deleted() -> None:
    sampled = msgspec.structs.replace(
        lists("b", range(300)), retracted=Retracted(asked=ids(range(300, 330)))
    )
    result = merged(read("a", range(700)), sampled)
    assert result.events is not None
    assert result.authors is not None
    assert (result.events.value, result.events.high, result.events.exact) == (700, 700, False)
    assert 700 - 60 <= result.authors.low <= result.events.low < 700


def test_a_listing_that_names_nothing_is_a_zero() -> None:
    assert events(lists("a", ()), lists("b", ())) == as_named(0)


def test_counts_beside_listings_are_claims_alone() -> None:
    figure = events(lists("a", range(40), verified=range(40)), counts("b", 10))
    assert (figure.value, figure.low, figure.high) == (40, 40, None)


@given(
    st.lists(st.tuples(st.booleans(), st.frozensets(st.integers(0, 30))), min_size=1, max_size=6)
)
def test_order_and_repetition_say_nothing_and_the_bounds_hold(
    parts: list[tuple[bool, frozenset[int]]],
) -> None:
    claims = [
        lists(f"r{n}", held) if by_ids else read(f"r{n}", held)
        for n, (by_ids, held) in enumerate(parts)
    ]
    figure = events(*claims)
    mixed = [*claims, claims[0]]
    random.Random(len(parts)).shuffle(mixed)
    assert events(*mixed) == figure
    union = frozenset[int]().union(*(held for _, held in parts))
    proven = {
        n
        for n in union
        if any(n in held and not by_ids for by_ids, held in parts)
        or sum(n in held for _, held in parts) > 1
    }
    assert (figure.low, figure.value, figure.high) == (len(proven), len(union), len(union))
    assert figure.exact == (proven == union)


def test_made_up_ids_are_no_number_even_where_every_relay_names_some() -> None:
    first, second = (
        lists("a", range(90), [0, 1], failed=8),
        lists("b", range(60, 99), [0], failed=9),
    )
    assert events(first, second) == Figure.at_least(2)
    assert merged(lists("a", range(90), failed=8)).events is None
    assert events(first, counts("b", 70)) == Figure.at_least(70, 2)


def test_a_list_of_which_no_sample_came_sets_no_number() -> None:
    named = lists("a", range(1_000), range(5))
    assert named.listing is not None
    silent = msgspec.structs.replace(
        named, listing=msgspec.structs.replace(named.listing, judged=False)
    )
    assert events(silent, read("b", range(50))) == Figure.at_least(50)
    assert events(silent, read("b", range(50)), trusted=("a",)).low == 1_000
