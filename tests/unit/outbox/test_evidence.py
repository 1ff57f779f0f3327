"""Relays ordered by evidence: pure rules, and what monitors say."""

from __future__ import annotations

from hashlib import sha256

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nostr_client import hll
from nostr_client.codecs.event import EventTemplate
from nostr_client.codecs.keys import KeySigner, VerifiedEvent
from nostr_client.codecs.nip19 import PublicKey
from nostr_client.errors import InvalidIdentifier
from nostr_client.network.outbox import RelayChoice, RelayEvidence, choose, choose_many, rank
from nostr_client.network.outbox.evidence import confirmed_people
from nostr_client.network.outbox.relaylist import LIVE_FOR_S, live_relays, live_request

A, B, C, D, E, F = (f"wss://{x}.example.com" for x in "abcdef")
OFFSET = 10
MONITOR = KeySigner(sha256(b"monitor").digest())


def good(
    shown: int = 0,
    latency_ms: float = 100.0,
    *,
    refused: int = 0,
    failed: int = 0,
    declined: int = 0,
) -> RelayEvidence:
    """A relay that answered each day of a week, and shows so many of ten confirmed people."""
    return RelayEvidence(
        answered=7,
        served=7,
        refused=refused,
        failed=failed,
        declined=declined,
        latency_ms=latency_ms,
        shown=(1 << shown) - 1,
        registers=10,
    )


def order(evidence: dict[str, RelayEvidence], *, turn: bool = False) -> list[str]:
    return [one.relay for one in rank([A, B, C, D], evidence, turn=turn)]


def test_without_evidence_the_order_of_the_list_stays() -> None:
    assert order({}) == [A, B, C, D]
    assert [one.why for one in rank([A], {})] == ["no answer and no failure is known"]


def test_the_relay_that_adds_most_comes_first_and_then_what_it_lacks() -> None:
    lacks = RelayEvidence(answered=7, served=7, shown=0b11_0000_0000, registers=10)
    found = {A: good(3), B: good(8), C: good(7), D: lacks}
    assert order(found) == [B, D, C, A]
    adds = {one.relay: one.adds for one in rank([A, B, C, D], found)}
    assert adds == {B: 0.8, D: 0.2, C: 0.0, A: 0.0}


def test_failures_refusals_of_this_question_and_slowness_count() -> None:
    assert order({A: good(5, failed=7), B: good(5)})[0] == B
    assert order({A: good(5, refused=3, declined=3), B: good(5)})[0] == B
    assert order({A: good(5, latency_ms=3_000), B: good(5)})[0] == B
    elsewhere = good(5, refused=3)  # it refuses other questions, and answers these
    assert elsewhere.reliability >= good(5).reliability


def test_those_never_asked_stand_between_those_that_answer_and_those_that_fail() -> None:
    found = {A: RelayEvidence(failed=3), D: good(1)}
    assert order(found) == [D, B, C, A]
    assert order(found, turn=True) == [B, D, C, A]
    assert order({one: good(1) for one in (A, B, C, D)}, turn=True) == [A, B, C, D]


def test_a_monitors_word_orders_those_never_asked_and_nothing_else() -> None:
    live = RelayEvidence(live=True)
    assert order({D: live}) == [D, A, B, C]
    assert order({A: good(1), D: live}) == [A, D, B, C]
    assert order({B: RelayEvidence(answerers=2), D: live}) == [D, B, A, C]


def test_relays_in_use_stay_while_they_answer() -> None:
    found = {A: good(1), B: good(9), C: good(9, failed=30), D: good(2)}
    ranked = [one.relay for one in rank([A, B, C, D], found, current=[A, C])]
    assert ranked == [A, B, D, C]


def test_the_evidence_is_said_in_words() -> None:
    found = {A: good(5, refused=1, failed=2)}
    (why,) = (one.why for one in rank([A], found))
    assert why == (
        "answered 7 of 10 questions this week (each counts once a day), refused 1, 100 ms,"
        " shows ~50 % of confirmed people, adds ~50 %"
    )
    (why,) = (one.why for one in rank([A], {A: RelayEvidence(live=True, answerers=2)}))
    assert why == (
        "no answer and no failure is known, a monitor reached it,"
        " 2 people who often answer write to it"
    )


EVIDENCE = st.builds(
    RelayEvidence,
    answered=st.integers(0, 20),
    refused=st.integers(0, 20),
    failed=st.integers(0, 20),
    served=st.integers(0, 20),
    declined=st.integers(0, 20),
    latency_ms=st.none() | st.floats(0, 1e6),
    shown=st.integers(0, 1023),
    registers=st.sampled_from([0, 10]),
    live=st.booleans(),
    answerers=st.integers(0, 20),
)
URLS = [f"wss://r{n}.example.com" for n in range(12)]
LISTS = st.dictionaries(
    st.sampled_from("abcdefgh"), st.lists(st.sampled_from(URLS), unique=True), min_size=1
)


@given(evidence=st.dictionaries(st.sampled_from(URLS), EVIDENCE), turn=st.booleans())
def test_no_evidence_removes_a_relay(evidence: dict[str, RelayEvidence], turn: bool) -> None:
    ranked = rank(URLS, evidence, turn=turn)
    assert sorted(one.relay for one in ranked) == sorted(URLS)
    chosen = choose(URLS, RelayChoice(most=len(URLS)), evidence=evidence, turn=turn)
    assert sorted(chosen.relays) == sorted(URLS)


@given(
    named=LISTS,
    evidence=st.dictionaries(st.sampled_from(URLS), EVIDENCE, min_size=1),
    most=st.integers(1, 5),
    in_all=st.none() | st.integers(1, 12),
)
def test_the_cover_stays_the_floor(
    named: dict[str, list[str]],
    evidence: dict[str, RelayEvidence],
    most: int,
    in_all: int | None,
) -> None:
    choice = RelayChoice(most=most)
    plain = choose_many(named, choice, most_relays=in_all)
    learned = choose_many(named, choice, most_relays=in_all, evidence=evidence)
    for target in named:
        assert len(learned[target].relays) >= len(plain[target].relays)
        assert set(learned[target].relays) <= set(named[target])
    used, before = ({u for one in of.values() for u in one.relays} for of in (learned, plain))
    assert len(used) <= len(before)


@given(
    named=LISTS,
    also=LISTS,
    evidence=st.dictionaries(st.sampled_from(URLS), EVIDENCE),
    most=st.integers(1, 5),
    in_all=st.integers(1, 12),
)
@example(named={"a": [A]}, also={"a": [B, C, D]}, evidence={}, most=4, in_all=2)
def test_relays_of_people_who_answer_stay_within_the_bound_of_all(
    named: dict[str, list[str]],
    also: dict[str, list[str]],
    evidence: dict[str, RelayEvidence],
    most: int,
    in_all: int,
) -> None:
    choice = RelayChoice(most=most)
    found = choose_many(named, choice, most_relays=in_all, also=also, evidence=evidence)
    assert len({url for one in found.values() for url in one.relays}) <= in_all
    assert all(len(one.relays) <= most for one in found.values())


def test_relays_of_people_who_answer_get_the_places_that_the_list_leaves() -> None:
    found = choose([A, B], RelayChoice(most=4), also=[B, C, D, E, "ws://10.0.0.1"])
    assert found.relays == (A, B, C, D)
    assert found.strangers == {A, B, C, D}
    assert choose([A, B], RelayChoice(most=2), also=[C]).relays == (A, B)
    without = choose([], RelayChoice(defaults=(E,)), also=[C])
    assert without.relays == (E, C)
    assert without.strangers == {C}
    many = choose_many(
        {"x": [A], "y": [A, B]}, RelayChoice(most=2), most_relays=2, also={"x": [C, B]}
    )
    assert many["x"].relays == (A, B)


def sketch(seed: int, n: int) -> bytes:
    keys = np.random.default_rng(seed).integers(0, 256, (n, 32), dtype=np.uint8)
    return hll.from_raw(keys, OFFSET)


def test_inventors_confirm_neither_themselves_nor_each_other() -> None:
    honest = {f"h{n}": hll.merge(sketch(1, 400), sketch(10 + n, 20)) for n in range(3)}
    liars = {f"liar{n}": hll.merge(sketch(1, 40), sketch(90 + n, 5_000)) for n in range(4)}
    shown = confirmed_people([honest | liars])
    shares = {url: bits.bit_count() / number for url, (bits, number) in shown.items()}
    assert min(shares[url] for url in honest) > 0.5
    assert max(shares[url] for url in liars) < 0.1
    evidence = {
        url: RelayEvidence(answered=1, served=1, shown=bits, registers=number)
        for url, (bits, number) in shown.items()
    }
    ranked = [one.relay for one in rank([*liars, *honest], evidence)]
    assert set(ranked[:3]) == set(honest)


def test_people_of_one_relay_alone_are_not_confirmed() -> None:
    assert confirmed_people([{A: sketch(1, 300)}]) == {A: (0, 0)}
    assert confirmed_people([{A: sketch(1, 300), B: sketch(2, 300)}]) == {A: (0, 0), B: (0, 0)}
    both = confirmed_people([{A: sketch(1, 300), B: sketch(1, 300), C: hll.EMPTY}])
    assert both[A] == both[B]
    assert both[A][0].bit_count() == both[A][1] > 150
    assert both[C] == (0, both[A][1])


def test_a_relay_is_compared_in_the_questions_that_it_answered() -> None:
    one, other = sketch(1, 300), sketch(2, 300)
    shown = confirmed_people([{A: one, B: one}, {A: other, B: other, C: other}])
    assert shown[C][0].bit_count() == shown[C][1]
    assert shown[A][0].bit_count() == shown[A][1] > shown[C][1]


def seen(url: str, at: int, signer: KeySigner = MONITOR) -> VerifiedEvent:
    template = EventTemplate(kind=30166, tags=(("d", url), ("rtt-open", "12")), created_at=at)
    return signer.sign_now(template)


def test_a_monitor_says_that_a_relay_is_live_within_two_days() -> None:
    now = 1_800_000_000.0
    old = int(now - LIVE_FOR_S) - 1
    asked = live_request([A, B, C, D, E], [MONITOR.pubkey], now)
    stranger = KeySigner(sha256(b"stranger").digest())
    events = [
        seen(f"{A}/", int(now) - 60),
        seen(B, old),
        seen(C, int(now) + 86_400),
        seen(D, int(now), stranger),
        seen("no relay", int(now)),
        seen(F, int(now)),
    ]
    assert live_relays((one.event for one in events), asked, now) == {A}


def test_monitors_are_keys() -> None:
    key = MONITOR.pubkey
    assert RelayChoice(monitors=(PublicKey(key).encode(),)).monitors == (key,)
    with pytest.raises(InvalidIdentifier):
        RelayChoice(monitors=("nobody",))


def test_one_host_by_two_urls_confirms_nothing() -> None:
    def people(name: str, start: int, stop: int) -> bytes:
        keys = [sha256(f"{name} {n}".encode()).hexdigest() for n in range(start, stop)]
        return hll.from_pubkeys(keys, OFFSET)

    questions = []
    for n in range(3):
        made_up = people(f"made up {n}", 0, 20_000)
        questions.append(
            {
                A: people(f"real {n}", 0, 700),
                B: people(f"real {n}", 300, 1_000),
                "wss://evil.example/1": made_up,
                "wss://evil.example/2": made_up,
            }
        )
    shown = confirmed_people(questions)
    assert shown[A][0]
    assert shown[B][0]
    assert shown["wss://evil.example/1"][0] == shown["wss://evil.example/2"][0] == 0
