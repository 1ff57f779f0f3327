"""Queries: what people copy becomes the filters of NIP-45, and several filters become few."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nostr_client import count
from nostr_client.codecs.event import Event
from nostr_client.codecs.filters import Filter
from nostr_client.codecs.nip19 import Address, EventPointer, Note, Profile, PublicKey
from nostr_client.count.merge import CountUnit
from nostr_client.count.queries import fold
from nostr_client.errors import InvalidFilter, InvalidIdentifier
from tests.conftest import load_cases

KEY = "3bf0c63fcb93463407af97a5e5ee64fa883d107ef9e558472c4eb9aaaefa459d"
ID = "ab" * 31 + "0c"
ADDRESS = Address(kind=30023, pubkey=KEY, identifier="a:b")
VECTORS = load_cases("hll.json")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("reactions", {"#e": [ID], "kinds": [7]}),
        ("reposts", {"#e": [ID], "kinds": [6, 16]}),
        ("quotes", {"#q": [ID], "kinds": [1, 1111]}),
        ("replies", {"#e": [ID], "kinds": [1]}),
        ("comments", {"#E": [ID], "kinds": [1111]}),
    ],
)
@pytest.mark.parametrize(
    "target",
    [
        ID,
        ID.upper(),
        Note(ID).encode(),
        EventPointer(ID).encode(),
        f"nostr:{Note(ID).encode()}",
        f" {ID}\n",
    ],
)
def test_canonical_queries_about_events(name: str, expected: object, target: str) -> None:
    asked = count.CANONICAL[name](target)
    assert [f.to_dict() for f in asked.filters] == [expected]
    assert (asked.name, asked.target) == (name, ID)
    assert asked.offset == int(ID[32], 16) + 8
    assert not asked.one_per_author


@pytest.mark.parametrize("target", [KEY, PublicKey(KEY).encode(), Profile(KEY).encode()])
def test_followers(target: str) -> None:
    asked = count.followers(target)
    assert asked.to_dict() == {
        "name": "followers",
        "target": KEY,
        "filters": [{"kinds": [3], "#p": [KEY]}],
    }
    assert asked.one_per_author
    assert asked.offset == int(KEY[32], 16) + 8


@pytest.mark.parametrize(
    ("name", "tag"), [("reactions", "#a"), ("quotes", "#q"), ("comments", "#A"), ("replies", "#a")]
)
def test_addressable_targets(name: str, tag: str) -> None:
    asked = count.CANONICAL[name](ADDRESS.encode())
    (only,) = asked.filters
    assert dict(only.tags) == {tag: (f"30023:{KEY}:a:b",)}
    assert asked.offset == int(KEY[32], 16) + 8


@pytest.mark.parametrize("bad", ["", "npub1x", "hello", KEY[:-1], "nsec1" + "q" * 58])
@pytest.mark.parametrize("name", count.CANONICAL)
def test_anything_else_is_refused(name: str, bad: str) -> None:
    with pytest.raises(InvalidIdentifier):
        count.CANONICAL[name](bad)


def test_a_pubkey_is_no_event_and_the_other_way_round() -> None:
    with pytest.raises(InvalidIdentifier):
        count.reactions(PublicKey(KEY).encode())
    with pytest.raises(InvalidIdentifier):
        count.followers(Note(ID).encode())


def test_limit_is_stripped() -> None:
    asked = count.query(Filter(kinds=[1], limit=1))
    assert asked.filters == (Filter(kinds=[1]),)


def test_a_query_that_asks_nothing_is_refused() -> None:
    with pytest.raises(InvalidFilter, match="needs a filter"):
        count.query([])
    with pytest.raises(InvalidFilter, match="match nothing"):
        count.query(Filter(kinds=[]))


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([{"kinds": [1], "#e": [ID]}, {"kinds": [1111], "#e": [ID]}], 1),
        ([{"#p": [KEY]}, {"#p": [ID]}], 1),
        ([{"#p": [KEY]}, {"#p": [KEY], "kinds": [3]}], 2),
        ([{"#e": [ID], "kinds": [1]}, {"#E": [ID], "kinds": [1]}], 2),
        ([{"#e": [ID], "kinds": [1]}, {"#e": [KEY], "kinds": [7]}], 2),
        ([{"kinds": [1], "since": 5}, {"kinds": [1], "since": 6}], 2),
        ([{"kinds": [1], "limit": 5}, {"kinds": [1], "limit": 6}], 1),
        ([{"kinds": [1]}, {"kinds": []}], 1),
        ([{"kinds": [1], "authors": [KEY]}, {"kinds": [2], "authors": [ID]},
          {"kinds": [2], "authors": [KEY]}, {"kinds": [1], "authors": [ID]}], 1),
    ],
)  # fmt: skip
def test_folding(filters: list[dict[str, object]], expected: int) -> None:
    assert len(fold(Filter.from_json(f) for f in filters)) == expected


def test_folding_keeps_the_order_that_the_offset_depends_on() -> None:
    (folded,) = fold([Filter(tags={"#p": [KEY]}), Filter(tags={"#p": [ID, KEY]})])
    assert folded.tags == (("#p", (KEY, ID)),)


SMALL = st.fixed_dictionaries(
    {},
    optional={
        "kinds": st.lists(st.integers(1, 3), max_size=2),
        "#t": st.lists(st.sampled_from("abc"), max_size=2),
        "since": st.integers(0, 2),
        "limit": st.integers(0, 1),
    },
)
WORLD = [
    Event(
        id="00" * 32,
        pubkey=KEY,
        created_at=time,
        kind=kind,
        tags=tuple(("t", v) for v in values),
        content="",
        sig="00" * 64,
    )
    for kind, time in itertools.product((1, 2, 3), (0, 1, 2))
    for values in ("", "a", "ab", "c")
]


@settings(max_examples=200)
@given(st.lists(SMALL, max_size=5))
def test_folded_filters_match_the_same_events(raw: list[dict[str, object]]) -> None:
    filters = [Filter.from_json(f) for f in raw]
    folded = fold(filters)
    assert len(folded) <= len(filters)
    for event in WORLD:
        assert any(f.matches(event) for f in filters) == any(f.matches(event) for f in folded)


def test_offset_of_several_filters_needs_one_offset() -> None:
    same = count.query([Filter(tags={"#e": [ID]}), Filter(tags={"#q": [ID]})])
    assert len(same.filters) == 2
    assert same.offset == int(ID[32], 16) + 8
    other = count.query([Filter(tags={"#e": [ID]}), Filter(tags={"#q": [KEY]})])
    assert other.offset is None
    assert count.query(Filter(kinds=[1])).offset is None
    assert count.query(Filter(tags={"#e": [ID, KEY]})).offset == int(ID[32], 16) + 8
    assert count.query(Filter(tags={"#e": [ID], "#p": [KEY]})).offset is None


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([{"kinds": [3]}], True),
        ([{"kinds": [10002], "#r": ["x"]}], True),
        ([{"kinds": [3, 3]}], True),
        ([{"kinds": [0, 3]}], False),
        ([{"kinds": [7]}], False),
        ([{"kinds": [30023]}], False),
        ([{}], False),
        ([{"kinds": [3], "#p": [KEY]}, {"kinds": [3], "#e": [ID]}], True),
        ([{"kinds": [3], "#p": [KEY]}, {"kinds": [0], "#e": [ID]}], False),
    ],
)
def test_where_counts_are_people(filters: list[dict[str, object]], expected: bool) -> None:
    assert count.query([Filter.from_json(f) for f in filters]).one_per_author is expected


@pytest.mark.skipif(VECTORS is None, reason="the shared folder is not here")
def test_canonical_queries_of_the_vectors_may_be_merged() -> None:
    seen = 0
    for case in VECTORS["filters"]:
        if case["canonical"] is None or not case["mergeable"]:
            continue
        try:
            asked = count.query(Filter.from_json(case["filter_json"]))
        except InvalidFilter:
            continue
        assert asked.offset == case["offset"], case["name"]
        seen += 1
    assert seen >= 6


def test_named_questions_count_people_and_filters_count_events() -> None:
    for name in count.CANONICAL:
        if name != "zaps":
            assert (
                count.canonical(name, KEY if name == "followers" else ID).unit is CountUnit.AUTHORS
            )
    assert count.zaps(ID).unit is CountUnit.EVENTS
    for asked in ({"kinds": [1, 7]}, {"kinds": [7], "#e": [ID]}, {"kinds": [3], "#p": [KEY]}):
        assert count.query(Filter.from_json(asked)).unit is CountUnit.EVENTS


def test_registers_give_the_number_of_people_and_of_one_event_a_person() -> None:
    assert count.reactions(ID).by_registers
    assert count.query(Filter(kinds=[3], tags={"#p": [KEY]})).by_registers
    assert not count.query(Filter(kinds=[7], tags={"#e": [ID]})).by_registers
    assert not count.query(Filter(kinds=[1, 7])).by_registers
