"""A merge of the same evidence is not made again, and gives what a new one would."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nostr_client import hll
from nostr_client.count.merge import (
    Claim,
    ClaimStatus,
    Listing,
    Merged,
    Method,
    Receipt,
    Retracted,
    TrustPolicy,
    merge_claims,
)
from nostr_client.count.merge.repeated import RepeatedMerges
from tests.unit.test_merge import count_claim, failed, hll_claim, key, read_claim

LATER = {"asked_at": 900.0, "answered_at": 901.0, "latency_ms": 7.0, "last_read": 5}
"""What a round changes of a claim that says the same."""


def later(claims: list[Claim]) -> list[Claim]:
    return [msgspec.structs.replace(one, **LATER, events_read=3, bytes_read=9) for one in claims]


class Counted:
    """Counts how often a merge is made."""

    def __init__(self) -> None:
        self.made = 0
        self._merges = RepeatedMerges(2, self._merge)

    def of(self, *claims: Claim, trusted: str = "") -> Merged:
        return self._merges.merge(claims, one_per_author=False, trusted=trusted)

    def _merge(self, claims: list[Claim], **rules: object) -> Merged:
        self.made += 1
        return merge_claims(claims, **rules)


CLAIMS = st.lists(
    st.one_of(
        st.builds(
            hll_claim,
            st.sampled_from("abcdef"),
            st.builds(range, st.integers(0, 5), st.integers(5, 90)),
        ),
        st.builds(
            read_claim,
            st.sampled_from("abcdef"),
            st.builds(range, st.integers(0, 5), st.integers(5, 40)),
            complete=st.booleans(),
        ),
        st.builds(count_claim, st.sampled_from("abcdef"), st.integers(0, 200_000)),
        st.builds(failed, st.sampled_from("abcdef")),
    ),
    min_size=1,
    max_size=6,
    unique_by=lambda one: one.relay,
)


@given(CLAIMS, st.booleans(), st.sampled_from(TrustPolicy), st.sampled_from(["", "a", "ab"]))
def test_the_same_evidence_of_another_time_merges_as_if_it_were_new(
    claims: list[Claim], one_per_author: bool, policy: TrustPolicy, trusted: str
) -> None:
    merges = RepeatedMerges()
    rules = {"one_per_author": one_per_author, "policy": policy, "trusted": [*trusted]}
    for same in (claims, later(claims), claims[::-1]):
        assert merges.merge(same, **rules) == merge_claims(same, **rules)


def test_only_a_new_time_is_no_new_merge() -> None:
    counted, claims = Counted(), [hll_claim("a", range(9)), read_claim("b", range(5))]
    counted.of(*claims)
    again = counted.of(*later(claims))
    assert counted.made == 1
    assert [one.asked_at for one in again.claims] == [900.0, 900.0]


READ = read_claim("b", range(5))
assert READ.reading is not None


@pytest.mark.parametrize(
    "changes",
    [
        {"count": 6},
        {"count_high": 9},
        {"registers": hll.EMPTY},
        {"status": ClaimStatus.TIMEOUT},
        {"method": Method.COUNT},
        {"approximate": True},
        {"limited": True},
        {"stands_in": True},
        {"warnings": ("count: odd",)},
        {"reading": None},
        {"reading": msgspec.structs.replace(READ.reading, authors=frozenset([key(99)]))},
        {"reading": msgspec.structs.replace(READ.reading, events=frozenset([key(99)]))},
        {"reading": msgspec.structs.replace(READ.reading, complete=False)},
        {"reading": msgspec.structs.replace(READ.reading, gone=0.1)},
        {"reading": msgspec.structs.replace(READ.reading, gone=0.1, evidence=3)},
        {"reading": msgspec.structs.replace(READ.reading, balanced=True)},
        {"retracted": Retracted(ids=frozenset([key(1)]))},
        {"retracted": Retracted(looked_for=False)},
        {"retracted": Retracted(asked=frozenset(), looked_for=True)},
    ],
)
def test_other_evidence_is_another_merge(changes: dict[str, object]) -> None:
    counted = Counted()
    counted.of(READ)
    counted.of(msgspec.structs.replace(READ, **changes))
    assert counted.made == 2


@pytest.mark.parametrize(
    "changes",
    [
        {"listing": Listing(ids=frozenset([key(1)]))},
        {"retracted": Retracted(lists={key(1): key(2)})},
        {"retracted": Retracted(asked=frozenset([key(1)]))},
        {"retracted": Retracted(suspects=frozenset([key(1)]))},
        {"reading": msgspec.structs.replace(READ.reading, amounts={key(1): 5})},
        {"reading": msgspec.structs.replace(READ.reading, labels={key(1): "+"})},
        {"reading": msgspec.structs.replace(READ.reading, doubted=frozenset([key(1)]))},
        {
            "reading": msgspec.structs.replace(
                READ.reading, amounts={key(1): 5}, receipts={key(1): Receipt(key(2), key(3), 1)}
            )
        },
    ],
)
def test_single_events_with_values_of_their_own_are_merged_each_time(
    changes: dict[str, object],
) -> None:
    counted, one = Counted(), msgspec.structs.replace(READ, **changes)
    counted.of(one)
    counted.of(one)
    assert counted.made == 2


def test_the_rules_belong_to_the_evidence_and_old_merges_go() -> None:
    counted = Counted()
    for trusted in ("a", "b", "a", "c", "a", "b"):
        counted.of(READ, trusted=trusted)
    assert counted.made == 4  # of the three, the one used longest ago was removed
