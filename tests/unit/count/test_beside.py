"""A first round of relays that are asked one by one, before its claims are judged together."""

from __future__ import annotations

from nostr_client.count.beside import FirstRound
from nostr_client.count.merge import Claim, ClaimStatus, Retracted

DELETED = Retracted(ids=frozenset({b"d" * 32}), asked=frozenset(), looked_for=True)


def said(at: float, retracted: Retracted = DELETED) -> Claim:
    return Claim(relay="a", status=ClaimStatus.OK, count=1, asked_at=at, retracted=retracted)


def test_what_was_proven_before_the_round_stays_and_nothing_counts_as_asked() -> None:
    waiting = FirstRound().unjudged("a", said(2.0, Retracted()), said(1.0))
    assert waiting.retracted == Retracted(ids=DELETED.ids)


def test_a_relay_that_is_asked_twice_said_nothing_before_the_round() -> None:
    first = FirstRound()
    claim = first.unjudged("a", said(2.0, Retracted()), None)
    assert first.unjudged("a", said(3.0, Retracted()), claim).retracted == Retracted()
    assert first.earlier == {"a": None}


def test_a_failure_keeps_nothing() -> None:
    failed = Claim(relay="a", status=ClaimStatus.TIMEOUT)
    assert FirstRound().unjudged("a", failed, said(1.0)) is failed
