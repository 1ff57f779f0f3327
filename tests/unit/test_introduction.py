"""Which events of a card key the program may have signed, and which a person signed."""

from __future__ import annotations

import msgspec
import pytest

from nostr_client.assertions.fields import FIELDS
from nostr_client.assertions.introduction import OF_PEOPLE, Introduction, is_of_cards
from nostr_client.codecs.event import Event, EventTemplate
from nostr_client.codecs.keys import KeySigner
from nostr_client.codecs.private_kinds import PRIVATE_KINDS

KEY = KeySigner(bytes([3]) * 32)
INTRODUCTION = Introduction(("wss://a.example",), "counts", "Counts of everything.")
CARD = f"30382:{KEY.pubkey}:{'ab' * 32}"


def made(kind: int, content: str = "", *tags: tuple[str, ...]) -> Event:
    template = EventTemplate(kind=kind, content=content, tags=tags, created_at=1_000)
    return KEY.sign_now(template).event


@pytest.mark.parametrize("kind", FIELDS)
def test_a_card_is_ours(kind: int) -> None:
    assert is_of_cards(made(kind, "", ("d", "x")))


def test_no_private_kind_is_asked_for_by_name() -> None:
    """Relays refuse such a filter without AUTH, and then nobody knows whose key it is."""
    assert not PRIVATE_KINDS.keys() & set(OF_PEOPLE)
    assert {0, 3, 10000, 10002} < set(OF_PEOPLE)


def test_a_deletion_is_ours_if_it_deletes_cards_alone() -> None:
    assert is_of_cards(made(5, "", ("a", CARD), ("k", "30382")))
    for tags in (
        [],
        [("e", "ab" * 32)],
        [("a", CARD), ("e", "ab" * 32)],
        [("a", CARD), ("a", f"30023:{KEY.pubkey}:x")],
        [("a", f"30382:{'cd' * 32}:x")],
    ):
        assert not is_of_cards(made(5, "", *tags)), tags


@pytest.mark.parametrize("kind", [0, 1, 3, 4, 6, 7, 16, 1111, 10000, 10002, 10040, 30023, 30078])
def test_what_a_person_signs_is_not_ours(kind: int) -> None:
    event = made(kind, "hello", ("r", "wss://a.example"))
    assert not is_of_cards(event)
    assert not INTRODUCTION.wrote(event)


def test_a_profile_and_a_relay_list_are_ours_as_the_program_writes_them() -> None:
    for kind, content, tags in INTRODUCTION.parts():
        assert INTRODUCTION.wrote(made(kind, content, *tags))
        assert not INTRODUCTION.wrote(made(kind, content, *tags, ("r", "wss://b.example")))
        assert not INTRODUCTION.wrote(made(kind, content + " ", *tags))
    (_, renamed, _), _ = INTRODUCTION._replace(name="other").parts()
    assert INTRODUCTION.wrote(made(0, renamed))
    for about in ("me", ""):
        other = msgspec.json.encode({"name": "counts", "about": about}).decode()
        assert not INTRODUCTION.wrote(made(0, other))
    for hostile in ("", "[]", "{", '{"name": 1}', "[" * 10_000):
        assert not INTRODUCTION.wrote(made(0, hostile))
