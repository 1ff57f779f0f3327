"""`str` of a result is the sentence that the command line prints; `repr` is one line."""

from __future__ import annotations

import pytest

from nostr_client import Claim, ClaimStatus, CountResult, PublishResult, PublishStatus, followers
from nostr_client.count.merge import Figure, merge_claims
from nostr_client.sync.report import RelayReport, SyncReport, SyncStatus

KEY = "11" * 32


def result(*claims: Claim) -> CountResult:
    merged = merge_claims(list(claims), one_per_author=True)
    return CountResult(query=followers(KEY), merged=merged, relays=claims)


def test_a_count_says_how_many_relays_answered() -> None:
    silent = Claim(relay="wss://one.example", status=ClaimStatus.TIMEOUT)
    assert str(result(silent)) == "followers: not known (0 of 1 relay answered)"
    counted = Claim(relay="wss://two.example", status=ClaimStatus.OK, count=7, approximate=False)
    found = result(silent, counted)
    said = "7 distinct authors, as relays say"
    assert str(found) == f"followers: {said} (1 of 2 relays answered)"


def test_a_sync_says_what_moved() -> None:
    relays = tuple(
        RelayReport(relay=f"wss://{n}.example", status=status, downloaded=n)
        for n, status in enumerate((SyncStatus.COMPLETE, SyncStatus.PARTIAL), 1)
    )
    report = SyncReport(relays=relays, need=3, have=0)
    assert str(report) == "sync: 3 downloaded, 0 uploaded (1 of 2 relays complete)"


@pytest.mark.parametrize(
    "value",
    [
        result(Claim(relay="wss://one.example", status=ClaimStatus.OK, registers=bytes(256))),
        Claim(relay="wss://one.example", status=ClaimStatus.OK, registers=bytes(range(256))),
        Figure.at_least(3),
        SyncReport(relays=(), need=0, have=0),
        PublishResult(PublishStatus.REFUSED, "blocked: no\nway"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_repr_is_one_short_line(value: object) -> None:
    assert "\n" not in repr(value)
    assert "\n" not in str(value)
    assert len(repr(value)) < 200
