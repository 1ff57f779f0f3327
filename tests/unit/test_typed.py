"""Filters and tags as people type them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given

from nostr_client.codecs.filters import Filter
from nostr_client.codecs.keys import KeySigner
from nostr_client.codecs.nip19 import Address, EventPointer, Note, Profile, PublicKey
from nostr_client.codecs.typed import filter_of, tag_of
from nostr_client.errors import InvalidFilter, InvalidIdentifier, InvalidInput
from tests.unit.strategies import FILTERS

KEY, ID = "ab" * 32, "cd" * 32
NPUB, NOTE = PublicKey(KEY).encode(), Note(ID).encode()
NEVENT = EventPointer(ID, ("wss://x.example",)).encode()
NADDR = Address(30023, KEY, "slug").encode()
COORDINATE = f"30023:{KEY}:slug"


def test_identifiers_in_a_filter_are_read() -> None:
    raw = {
        "ids": [NOTE, NEVENT, ID.upper()],
        "authors": [NPUB, f"nostr:{NPUB}", f"https://viewer.example/p/{Profile(KEY).encode()}"],
        "kinds": [1],
        "#e": [NEVENT],
        "#p": [NPUB],
        "#a": [NADDR, COORDINATE],
        "#q": [NOTE, NADDR],
        "#t": [NPUB],
    }
    expected = Filter(
        ids=[ID] * 3,
        authors=[KEY] * 3,
        kinds=[1],
        tags={
            "#e": [ID],
            "#p": [KEY],
            "#a": [COORDINATE] * 2,
            "#q": [ID, COORDINATE],
            "#t": [NPUB],
        },
    )
    assert filter_of(raw) == filter_of(json.dumps(raw)) == expected
    assert list(filter_of(raw).to_dict()) == list(raw)


@given(FILTERS)
def test_a_filter_of_hex_is_what_it_was(asked: Filter) -> None:
    wire = asked.to_dict()
    if any(name in wire for name in ("#E", "#P", "#A", "#a", "#q")):
        return
    assert filter_of(wire) == asked


@pytest.mark.parametrize(
    ("raw", "place"),
    [
        ({"authors": [KEY, "npub1nonsense"]}, "authors[1]: 'npub1nonsense' is not a public key"),
        ({"authors": [NOTE]}, "authors[0]: "),
        ({"ids": [NADDR]}, "ids[0]: "),
        ({"#p": [NPUB, NPUB, "x"]}, "#p[2]: 'x' is not a public key"),
        ({"#a": [NOTE]}, "#a[0]: "),
        ({"#q": ["x"]}, "#q[0]: "),
    ],
)
def test_what_is_no_identifier_is_refused_with_its_place(
    raw: dict[str, list[str]], place: str
) -> None:
    with pytest.raises(InvalidIdentifier) as caught:
        filter_of(raw)
    assert str(caught.value).startswith(place)


@pytest.mark.parametrize("key", ["#t", "#p", "#x", "authors", "ids", "search", "{}"])
def test_a_secret_key_is_in_no_filter_and_is_not_repeated(key: str) -> None:
    nsec = KeySigner(bytes(31) + b"\x01").nsec()
    value = nsec if key == "search" else ["x", nsec] if key == "#t" else [nsec]
    with pytest.raises(InvalidIdentifier, match="secret key") as caught:
        filter_of({"kinds": [1], key.format(nsec): value})
    assert nsec not in str(caught.value)


@pytest.mark.parametrize("raw", ["", "[]", "{", '{"ids":"x"}', '{"ids":[7]}', '{"authors":null}'])
def test_what_is_no_filter_is_refused(raw: str) -> None:
    with pytest.raises(InvalidFilter):
        filter_of(raw)


@pytest.mark.parametrize(
    ("text", "tag"),
    [
        (f"p={NPUB}", ("p", KEY)),
        (f"e={ID.upper()}", ("e", ID)),
        ("t=a=b", ("t", "a=b")),
        ("t=", ("t", "")),
        ("-", ("-",)),
        (f'["e","{NEVENT}","wss://x","reply"]', ("e", ID, "wss://x", "reply")),
        ('["relays","wss://a","wss://b"]', ("relays", "wss://a", "wss://b")),
        (f'["a","{NADDR}"]', ("a", COORDINATE)),
        (f'["E","{NEVENT}","wss://x","{NPUB}"]', ("E", ID, "wss://x", KEY)),
        (f'["q","{NADDR}","","nostr:{NPUB}"]', ("q", COORDINATE, "", KEY)),
        (f'["zap","{NPUB}","wss://x","1"]', ("zap", KEY, "wss://x", "1")),
        (f"zap={Profile(KEY).encode()}", ("zap", KEY)),
        (f"P={NPUB}", ("P", KEY)),
        (f"A={NADDR}", ("A", COORDINATE)),
        (
            f'["e","{NOTE}","https://{NPUB}.example/","reply"]',
            ("e", ID, f"https://{NPUB}.example/", "reply"),
        ),
        ("content-warning", ("content-warning",)),
        ('["mine"]', ("mine",)),
        ('["-"]', ("-",)),
    ],
)
def test_a_tag_has_any_number_of_elements(text: str, tag: tuple[str, ...]) -> None:
    assert tag_of(text) == tag


@pytest.mark.parametrize(
    "text",
    ["", "=x", "[]", '["",1]', '[""]', "p=npub1x", "e=", '["p",7]', "x", "p", "d", "mine", "zap",
     '["x"]', '["e"]', '["zap"]', "zap=me", '["zap","npub1x"]', f'["e","{NOTE}","","npub1x"]'],
)  # fmt: skip
def test_a_broken_tag_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        tag_of(text)
