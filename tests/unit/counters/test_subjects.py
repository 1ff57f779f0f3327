"""NATS subjects: matching, overlap, transforms."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nostr_client.counters.subjects import (
    Transform,
    is_pattern,
    is_subject,
    literal_prefix,
    matches,
    overlaps,
    subject_token,
)
from nostr_client.errors import InvalidInput

TOKENS = st.sampled_from(["a", "b", "*", ">"])
PATTERNS = st.lists(TOKENS, min_size=1, max_size=4).map(".".join).filter(is_pattern)
SUBJECTS = st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=5).map(".".join)


@pytest.mark.parametrize(
    ("pattern", "subject", "named"),
    [
        ("a.b", "a.b", True),
        ("a.*", "a.b", True),
        ("a.*", "a.b.c", False),
        ("a.>", "a.b.c", True),
        ("a.>", "a", False),
        (">", "a", True),
        ("*", "a.b", False),
        ("a.*.c", "a.b.c", True),
        ("a+b", "aab", False),
    ],
)
def test_matches(pattern: str, subject: str, named: bool) -> None:
    assert matches(pattern, subject) is named


@pytest.mark.parametrize(
    "text", ["", ".", "a.", ".a", "a..b", "a b", "a\n", ">.a", "a\0", "x" * 3000]
)
def test_what_is_no_subject(text: str) -> None:
    assert not is_pattern(text)
    assert not is_subject(text)


def test_wildcards_inside_a_token_are_ordinary() -> None:
    assert is_subject("a*.b>")
    assert not matches("a*", "ab")


@given(PATTERNS, PATTERNS, SUBJECTS)
def test_overlap_agrees_with_matching(one: str, other: str, subject: str) -> None:
    if matches(one, subject) and matches(other, subject):
        assert overlaps(one, other)
        assert overlaps(other, one)


@given(PATTERNS, SUBJECTS)
def test_every_match_begins_with_the_literal_prefix(pattern: str, subject: str) -> None:
    if matches(pattern, subject):
        assert subject.startswith(literal_prefix(pattern))


@pytest.mark.parametrize(
    ("src", "dest", "subject", "became"),
    [
        ("count.es.*", "count.{{wildcard(1)}}", "count.es.hits", "count.hits"),
        ("count.es.*", "count.$1", "count.es.hits", "count.hits"),
        ("count.*.*", "{{Wildcard(2)}}.{{wildcard( 1 )}}", "count.es.hits", "hits.es"),
        ("in.>", "out.>", "in.a.b", "out.a.b"),
        ("in.*.>", "out.$1.x.>", "in.a.b.c", "out.a.x.b.c"),
        (">", ">", "a.b", "a.b"),
        ("count.*.hits", "count.hits", "count.es.hits", "count.hits"),
        ("count.es.*", "x", "count.eu.hits", None),
        ("*", "a.$1", "$1", "a.$1"),
    ],
)
def test_transform(src: str, dest: str, subject: str, became: str | None) -> None:
    assert Transform(src, dest).apply(subject) == became


@pytest.mark.parametrize(
    ("src", "dest"),
    [
        ("a.*", "b.{{wildcard(2)}}"),
        ("a.*", "b.{{wildcard(0)}}"),
        ("a.*", "b.$2"),
        ("a.*", "b.{{partition(3,1)}}"),
        ("a.b", "c.>"),
        ("a..b", "c"),
        ("a.*", "c.*"),
        ("a.*", "c. d"),
        ("a.*", "b.{{wildcard(" + "9" * 5_000 + ")}}"),
    ],
)
def test_what_is_no_transform(src: str, dest: str) -> None:
    with pytest.raises(InvalidInput):
        Transform(src, dest)


@given(st.text(min_size=1, max_size=40), st.text(min_size=1, max_size=40))
def test_a_token_stands_for_one_text(one: str, other: str) -> None:
    token = subject_token(one)
    assert is_subject(token)
    assert "." not in token
    clean = [text.encode("utf-8", "replace") for text in (one, other)]
    assert (token == subject_token(other)) == (clean[0] == clean[1])


def test_a_host_as_a_token() -> None:
    assert subject_token("relay.example.com:443") == "relay_example_com%3A443"
    with pytest.raises(InvalidInput):
        subject_token("")
