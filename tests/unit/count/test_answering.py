"""A merged number as an answer to COUNT: as sure as it is, with registers that may be merged."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nostr_client import hll
from nostr_client.codecs.filters import Filter
from nostr_client.codecs.messages import CountAnswer, parse_relay_message
from nostr_client.count.answering import answer_of
from nostr_client.count.merge import Claim, ClaimStatus, Method, TrustPolicy
from nostr_client.count.procedure import CountEngine
from nostr_client.count.queries import Query, followers, query
from tests.unit.test_merge import hll_claim, key, read_claim

if TYPE_CHECKING:
    from nostr_client.count.result import CountResult

ASKED = followers("00" * 32)
OFFSET = ASKED.offset or 0


def refused(relay: str) -> Claim:
    return Claim(relay=relay, status=ClaimStatus.REFUSED, warnings=("blocked: no",))


def counts(relay: str, number: int) -> Claim:
    return Claim(relay=relay, status=ClaimStatus.OK, method=Method.COUNT, count=number)


def merged(*claims: Claim, asked: Query = ASKED) -> CountResult:
    return CountEngine(policy=TrustPolicy.EXCLUDE).result(asked, claims)


def made(form: str, name: str, some: range) -> Claim:
    url = f"wss://{name}.example"
    match form:
        case "registers":
            return hll_claim(url, some)
        case "events":
            return read_claim(url, some)
        case "count":
            return counts(url, len(some))
        case _:
            return refused(url)


claims = st.builds(
    made,
    st.sampled_from(["registers", "events", "count", "nothing"]),
    st.sampled_from("abcdef"),
    st.integers(0, 40).map(range),
)


@given(st.lists(claims, max_size=5, unique_by=lambda one: one.relay))
def test_the_answer_says_as_much_as_the_number(listed: list[Claim]) -> None:
    result = merged(*listed)
    answer = answer_of(result)
    if result.value is None:
        assert answer is None
        return
    assert answer is not None
    assert answer.count == result.value
    assert answer.approximate is not result.exact
    assert bool(answer.limited) is result.lower_bound
    assert answer.merged
    sent = msgspec.structs.replace(answer, query_id="c")
    assert parse_relay_message(sent.to_json()) == sent


def test_registers_are_those_of_all_people_that_count() -> None:
    one = hll_claim("wss://a.example", range(60))
    other = read_claim("wss://b.example", range(40, 100))
    answer = answer_of(merged(one, other, counts("wss://c.example", 3), refused("wss://d.example")))
    assert answer is not None
    assert answer.hll == hll.from_pubkeys([key(n) for n in range(100)], OFFSET)


def test_an_excluded_relay_leaves_nothing_in_the_registers() -> None:
    liar = msgspec.structs.replace(
        hll_claim("wss://x.example", range(60)), registers=bytes([57]) * 256
    )
    honest = hll_claim("wss://a.example", range(60))
    answer = answer_of(merged(honest, liar))
    assert answer is not None
    assert answer.hll == honest.registers


def test_registers_that_mined_keys_raised_are_not_passed_on() -> None:
    honest = hll_claim("wss://a.example", range(400))
    raised = bytearray(honest.registers or b"")
    raised[:24] = bytes([22]) * 24
    trusted = CountEngine(policy=TrustPolicy.OFF)
    mined = msgspec.structs.replace(honest, relay="wss://m.example", registers=bytes(raised))
    answer = answer_of(trusted.result(ASKED, [honest, mined]))
    assert answer is not None
    assert answer.hll is None


@pytest.mark.parametrize("wanted", [Filter(kinds=[1]), Filter(kinds=[7], authors=["00" * 32])])
def test_a_question_without_registers_has_none(wanted: Filter) -> None:
    answer = answer_of(merged(counts("wss://a.example", 3), asked=query(wanted)))
    assert isinstance(answer, CountAnswer)
    assert (answer.count, answer.hll) == (3, None)
