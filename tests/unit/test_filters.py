"""Filters: built strictly, written as given, matched as NIP-01 says."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nostr_client import hll
from nostr_client.codecs.event import MAX_TIME, Event
from nostr_client.codecs.filters import Filter
from nostr_client.errors import InvalidFilter
from tests.unit.strategies import EVENTS, FILTERS

A, B, C = "a" * 64, "b" * 64, "c" * 64


def event(**fields: Any) -> Event:
    blank: dict[str, Any] = {
        "id": A,
        "pubkey": B,
        "created_at": 100,
        "kind": 1,
        "tags": (),
        "content": "",
        "sig": "0" * 128,
    }
    return Event(**(blank | fields))


@given(FILTERS)
def test_json_there_and_back(query: Filter) -> None:
    assert Filter.from_json(query.to_json()) == query
    assert Filter.from_json(query.to_json().encode()) == query
    assert Filter.from_json(query.to_dict()) == query
    assert list(Filter.from_json(query.to_json()).to_dict()) == list(query.to_dict())
    assert hash(Filter.from_json(query.to_dict())) == hash(query)
    assert pickle.loads(pickle.dumps(query)) == copy.deepcopy(query) == query
    assert hll.offset(json.loads(query.to_json())) == hll.offset(query.to_dict())


@given(FILTERS, EVENTS)
def test_matching_is_the_plain_reading_of_nip01(query: Filter, made: Event) -> None:
    fields = query.to_dict()
    plain = {"ids": made.id, "authors": made.pubkey, "kinds": made.kind}
    expected = all(value in fields[key] for key, value in plain.items() if key in fields)
    expected &= fields.get("since", 0) <= made.created_at <= fields.get("until", MAX_TIME)
    for key in (key for key in fields if key.startswith("#")):
        expected &= any(t[0] == key[1:] and t[1] in fields[key] for t in made.tags if len(t) > 1)
    assert query.matches(made) is expected
    assert not (query.matches(made) and query.matches_nothing)


@pytest.mark.parametrize(
    ("query", "matches"),
    [
        (Filter(), True),
        (Filter(ids=[C, A]), True),
        (Filter(ids=[C]), False),
        (Filter(authors=[B]), True),
        (Filter(authors=[A]), False),
        (Filter(kinds=[2, 1]), True),
        (Filter(kinds=[2]), False),
        (Filter(since=100, until=100), True),
        (Filter(since=101), False),
        (Filter(until=99), False),
        (Filter(until=0), False),
        (Filter(limit=0), True),
        (Filter(search="anything"), True),
        (Filter(tags={"#e": [C]}), True),
        (Filter(tags={"#e": [A, C], "#t": ["x", "y"]}), True),
        (Filter(tags={"#e": [C], "#t": ["z"]}), False),
        (Filter(tags={"#T": ["x"]}), False),
        (Filter(tags={"#t": [""]}), False),
        (Filter(kinds=[1], authors=[A]), False),
    ],
    ids=lambda value: str(value)[:60],
)
def test_matching(query: Filter, matches: bool) -> None:
    made = event(tags=(("e",), ("e", C, "wss://x"), ("t", "x", "z")))
    assert query.matches(made) is matches


def test_the_order_of_attributes_and_values_is_kept() -> None:
    text = f'{{"#p":["{C}","{A}"],"kinds":[7,1],"#e":["{B}"],"#a":["z","b","z"]}}'
    query = Filter.from_json(text)
    assert query.to_json() == (
        f'{{"kinds":[7,1],"#p":["{C}","{A}"],"#e":["{B}"],"#a":["z","b","z"]}}'
    )
    assert list(query.replace(limit=5).to_dict()) == ["kinds", "#p", "#e", "#a", "limit"]


def test_zero_is_written_and_is_not_absence() -> None:
    assert Filter(since=0, until=0, limit=0).to_dict() == {"since": 0, "until": 0, "limit": 0}


@pytest.mark.parametrize(
    "query",
    [
        Filter(ids=[]),
        Filter(authors=[]),
        Filter(kinds=[]),
        Filter(tags={"#t": []}),
        Filter(since=2, until=1),
        Filter(kinds=[1], tags={"#t": ["x"], "#r": []}),
    ],
    ids=str,
)
def test_what_matches_nothing(query: Filter) -> None:
    assert query.matches_nothing
    assert not query.matches(event(tags=(("t", "x"),), created_at=1))


def test_the_cache_key_forgets_order_and_repetition_alone() -> None:
    one = Filter(kinds=[1, 7, 1], tags={"#t": ["x", "y"], "#e": [A]}, limit=3)
    two = Filter(kinds=[7, 1], tags={"#e": [A], "#t": ["y", "x", "x"]}, limit=3)
    assert one.cache_key() == two.cache_key()
    assert one != two
    others = [two.replace(limit=4), two.replace(since=0), two.replace(kinds=[7]), Filter()]
    assert len({query.cache_key() for query in [one, *others]}) == 5
    assert Filter.from_json(one.cache_key()).cache_key() == one.cache_key()


@given(FILTERS, EVENTS)
def test_the_cache_key_is_a_filter_that_matches_the_same(query: Filter, made: Event) -> None:
    assert Filter.from_json(query.cache_key()).matches(made) is query.matches(made)


BAD: list[dict[str, Any]] = [
    {"ids": [A.upper()]},
    {"ids": [A[:63]]},
    {"ids": ["aa"]},  # prefixes left NIP-01 in 2023
    {"ids": [5]},
    {"ids": A},
    {"authors": [" " * 64]},
    {"authors": ["npub1x"]},
    {"kinds": ["1"]},
    {"kinds": [1.0]},
    {"kinds": [True]},
    {"kinds": [-1]},
    {"kinds": [65536]},
    {"kinds": 1},
    {"since": "1"},
    {"since": -1},
    {"since": 1.5},
    {"since": True},
    {"until": 2**63},
    {"until": 10**30},
    {"limit": -1},
    {"limit": [1]},
    {"search": 5},
    {"search": ["x"]},
    {"#e": ["note1x"]},
    {"#p": [A.upper()]},
    {"#t": [5]},
    {"#t": [None]},
    {"#t": "x"},
    {"#tt": ["x"]},
    {"#": ["x"]},
    {"#1": ["x"]},
    {"#ü": ["x"]},
    {"t": ["x"]},
    {"unknown": 1},
    {"&t": ["x"]},
    {"kinds": None},
    {"since": None},
    {"#t": None},
    {"tags": {"#t": ["x"]}},
]


@pytest.mark.parametrize("fields", BAD, ids=str)
def test_bad_fields_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidFilter):
        Filter.from_json(json.dumps(fields))
    with pytest.raises(InvalidFilter):
        Filter.from_json(fields)


@pytest.mark.parametrize("raw", ["", "[]", "null", "{", '{"kinds":' + "[" * 100_000, "\ud800"])
def test_what_is_no_filter_text(raw: str) -> None:
    with pytest.raises(InvalidFilter):
        Filter.from_json(raw)


@pytest.mark.parametrize("fields", [{"search": "\ud800"}, {"#t": ["\ud800"]}, {5: 6}])
def test_what_json_cannot_hold(fields: Any) -> None:
    with pytest.raises(InvalidFilter):
        Filter.from_json(fields)


@given(st.dictionaries(st.text(max_size=4), st.none() | st.integers() | st.lists(st.text())))
def test_any_object_is_a_filter_or_invalid(fields: dict[str, Any]) -> None:
    try:
        query = Filter.from_json(fields)
    except InvalidFilter:
        return
    assert query.to_dict() == fields


def test_any_iterable_is_taken_once() -> None:
    query = Filter(
        kinds=(k for k in (1, 2)), authors={A}, tags={"#t": iter("xy"), "#p": dict.fromkeys([B])}
    )
    assert query.kinds == (1, 2)
    assert query.tags == (("#t", ("x", "y")), ("#p", (B,)))
    with pytest.raises(InvalidFilter):
        Filter(tags={"#t": "xy"})
    with pytest.raises(InvalidFilter):
        Filter(kinds="12")


def test_a_filter_is_frozen() -> None:
    query = Filter(kinds=[1])
    with pytest.raises(AttributeError):
        query.kinds = (2,)
    with pytest.raises(AttributeError):
        query.other = 1
    with pytest.raises(AttributeError):
        del query.kinds
    assert query.replace(kinds=None) == Filter()
    assert "kinds" in repr(query)
    assert query != 5
