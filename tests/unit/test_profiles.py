"""Names of people: nothing invisible is shown, and nothing that looks like another key."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nostr_client.codecs import nip19
from nostr_client.codecs.event import Event
from nostr_client.codecs.profiles import (
    MOST_CONTENT,
    MOST_MARKS,
    NAME_BYTES,
    is_address,
    names_of,
    person,
    profile_name,
    visible,
)

KEY = "ab" * 32
MARKS = ("Mn", "Me")
UNSEEN = (
    "\u200b\u200c\u200d\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2060\u2066\u2067\u2068\u2069"
    "\ufeff\u00ad\u034f\u061c\u115f\u1160\u17b4\u180e\u2800\u3164\uffa0\ufe01\U000e0100\U000e0041"
    "\x00\x1b\x7f\x85\n\r\t\u2028\u2029\ud800"
)
HOSTILE = st.text(st.one_of(st.characters(), st.sampled_from(UNSEEN + "ab \u0301\ufe0f")))
SHOWS_NOTHING = set(UNSEEN) | {chr(c) for c in range(0xFE00, 0xFE10)}
"""What the standard's tables (DerivedCoreProperties.txt) call ignorable, beside controls."""


def profile(name: object, at: int = 1, pubkey: str = KEY, field: str = "name") -> Event:
    content = json.dumps({field: name})
    return Event(
        id=f"{at:064x}",
        pubkey=pubkey,
        created_at=at,
        kind=0,
        tags=(),
        content=content,
        sig="0" * 128,
    )


@given(HOSTILE)
def test_a_shown_name_has_no_character_that_cannot_be_seen(text: str) -> None:
    shown = visible(text)
    for char in shown:
        assert unicodedata.category(char) not in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"), char
        assert char not in SHOWS_NOTHING
    marks = 0
    for n, char in enumerate(shown):
        marks = marks + 1 if unicodedata.category(char) in MARKS else 0
        assert marks <= min(n, MOST_MARKS)


@given(HOSTILE)
def test_a_name_of_a_profile_is_safe_and_short(text: str) -> None:
    shown = profile_name(json.dumps({"name": text}))
    if shown is not None:
        assert shown == visible(text)
        assert len(shown) <= 10 * NAME_BYTES


@given(st.text(max_size=300))
def test_any_content_gives_a_name_or_none(content: str) -> None:
    profile_name(content)


@pytest.mark.parametrize("char", UNSEEN)
def test_each_of_them_is_shown_as_an_escape(char: str) -> None:
    shown = visible(f"al{char}ice")
    assert char not in shown
    assert "\\x" in shown or char == "\ud800"


@pytest.mark.parametrize("name", ["Zoë", "علي", "नमस्ते", "⚡ Satoshi", "李小龙", "a [red] b"])
def test_names_of_any_script_stay_as_they_are(name: str) -> None:
    assert visible(name) == name


def test_an_emoji_loses_only_the_choice_of_its_style() -> None:
    assert visible("\u26a1\ufe0f Ann") == "\u26a1 Ann"


def test_a_mark_without_a_letter_is_an_escape() -> None:
    assert visible("\u0301a") == "\\x301a"


@pytest.mark.parametrize(
    "content",
    ["", "[]", "{", "null", '{"name": 7}', '{"name": ""}', '{"name": "  "}', "[" * 5_000],
)
def test_a_profile_without_a_name_has_none(content: str) -> None:
    assert profile_name(content) is None


def test_a_profile_that_is_too_long_is_not_parsed() -> None:
    assert profile_name(json.dumps({"name": "ann", "about": "x" * MOST_CONTENT})) is None


def test_the_display_name_comes_first_where_it_is_one() -> None:
    assert profile_name('{"name": "ann", "display_name": "Ann"}') == "Ann"
    assert profile_name('{"name": "ann", "display_name": " "}') == "ann"


@pytest.mark.parametrize(
    "name", [f"Ann ({nip19.PublicKey('cd' * 32).encode()})", "NPUB1abcdefgh", "cd" * 32]
)
def test_a_name_that_looks_like_a_key_is_not_shown(name: str) -> None:
    assert profile_name(json.dumps({"name": name})) is None


def test_the_newest_profile_names_its_author() -> None:
    old, new = profile("old", 1), profile("new", 2)
    other = profile("Bo", 1, "cd" * 32)
    assert names_of([new, old, other]) == {KEY: "new", "cd" * 32: "Bo"}
    assert names_of([old, profile(None, 3)]) == {}


def test_the_key_stands_behind_the_name() -> None:
    npub = nip19.PublicKey(KEY).encode()
    assert person(KEY, {KEY: "Ann"}) == f"Ann ({npub})"
    assert person(KEY, {}) == npub


@pytest.mark.parametrize(
    "name",
    ["ｎｐｕｂ１qqqqqqqqqqqq", "npub1qqqqq…zzzzzz", "NPUB1x", "nprofile1…", "ab" * 19 + "０ａ"],
)
def test_a_name_that_looks_like_a_part_of_a_key_is_not_shown(name: str) -> None:
    assert names_of([profile(name)]) == {}


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("https://evil.example/login", True),
        ("evil.example", True),
        ("ｅｖｉｌ．ｅｘａｍｐｌｅ", True),
        ("@room", True),
        ("me@evil", True),
        ("Mr. Ada", False),
        ("Ada 2.0", False),
        ("ada", False),
    ],
)
def test_a_name_that_programs_make_a_link_of(name: str, is_one: bool) -> None:
    assert is_address(name) is is_one
