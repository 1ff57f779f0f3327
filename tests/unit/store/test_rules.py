"""The store's rules as functions of values: what is judged how, and in which order."""

from __future__ import annotations

import pytest

from nostr_client.codecs.event import MAX_TIME
from nostr_client.store import rules
from nostr_client.store.base import SaveStatus
from nostr_client.store.rules import Coordinate, PriorState, Version
from tests.conformance.store_events import NOW, make, pubkey

KEY = pubkey(0)


@pytest.mark.parametrize(
    ("a", "b", "beats"),
    [
        (Version(2, "bb"), Version(1, "aa"), True),
        (Version(1, "aa"), Version(2, "bb"), False),
        (Version(1, "aa"), Version(1, "bb"), True),
        (Version(1, "bb"), Version(1, "aa"), False),
        (Version(1, "aa"), Version(1, "aa"), False),
    ],
)
def test_the_later_wins_then_the_lowest_id(a: Version, b: Version, beats: bool) -> None:
    assert a.beats(b) is beats


@pytest.mark.parametrize(
    ("kind", "tags", "d"),
    [
        (1, (("d", "x"),), None),
        (0, (("d", "x"),), ""),
        (10_002, (), ""),
        (30_000, (), ""),
        (30_000, (("d",),), ""),
        (30_000, (("d",), ("d", "x")), ""),
        (30_000, (("e", "y"), ("d", "x:y"), ("d", "z")), "x:y"),
        (40_000, (("d", "x"),), None),
    ],
)
def test_under_which_d_one_version_is_kept(
    kind: int, tags: tuple[tuple[str, ...], ...], d: str | None
) -> None:
    assert rules.d_of(make(kind=kind, tags=tags).event) == d


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("0", 0), ("17", 17), ("0017", 17), (str(MAX_TIME), MAX_TIME),
        (str(MAX_TIME + 1), MAX_TIME),
        ("9" * 5_000, MAX_TIME), ("", None), ("-1", None), ("+1", None), ("1.0", None),
        (" 1", None), ("²", None),
    ],
)  # fmt: skip
def test_expirations(text: str, time: int | None) -> None:
    assert rules.expiration(make(tags=(("expiration", text),)).event) == time


def test_the_first_expiration_counts() -> None:
    event = make(tags=(("expiration", "5"), ("expiration", "9"))).event
    assert rules.expiration(event) == 5
    assert rules.expiration(make(tags=(("expiration",), ("expiration", "9"))).event) is None


@pytest.mark.parametrize(
    ("text", "address"),
    [
        (f"30023:{KEY}:a:b:", Coordinate(30_023, KEY, "a:b:")),
        (f"30023:{KEY}:", Coordinate(30_023, KEY, "")),
        (f"30023:{KEY}", Coordinate(30_023, KEY, "")),
        (f"0:{KEY}:", Coordinate(0, KEY, "")),
        (f"10002:{KEY}", Coordinate(10_002, KEY, "")),
        (f"0:{KEY}:d", None),
        (f"1:{KEY}:", None),
        (f"5:{KEY}:", None),
        (f"62:{KEY}:", None),
        (f"20001:{KEY}:", None),
        (f"30023:{KEY.upper()}:d", None),
        (f"030023:{KEY}:d", None),
        ("30023::d", None),
        ("", None),
    ],
)
def test_addresses(text: str, address: Coordinate | None) -> None:
    assert rules.parse_address(text) == address


def test_a_deletion_takes_ids_and_its_own_authors_addresses_once_each() -> None:
    other = pubkey(1)
    tags = (
        ("e", "ab" * 32), ("e", "ab" * 32, "wss://x"), ("e", "AB" * 32), ("E", "cd" * 32),
        ("a", f"30023:{KEY}:x"), ("a", f"30023:{KEY}:x"), ("a", f"30023:{other}:x"), ("k", "1"),
    )  # fmt: skip
    wanted = rules.deletion(make(kind=5, tags=tags).event)
    assert wanted == (("ab" * 32,), (Coordinate(30_023, KEY, "x"),))


NEWER = Version(NOW + 1, "00" * 32)


@pytest.mark.parametrize(
    ("kind", "known", "status"),
    [
        (1, PriorState(), SaveStatus.STORED),
        (1, PriorState(held=True, deleted=True, vanished_until=NOW), SaveStatus.DUPLICATE),
        (20_001, PriorState(held=True), SaveStatus.EPHEMERAL),
        (1, PriorState(deleted=True, vanished_until=NOW), SaveStatus.VANISHED),
        (1, PriorState(vanished_until=NOW - 1), SaveStatus.STORED),
        (1, PriorState(deleted=True), SaveStatus.DELETED),
        (5, PriorState(deleted=True), SaveStatus.STORED),
        (62, PriorState(deleted=True, vanished_until=NOW), SaveStatus.STORED),
        (30_023, PriorState(deleted_until=NOW), SaveStatus.DELETED),
        (30_023, PriorState(deleted_until=NOW - 1), SaveStatus.STORED),
        (0, PriorState(current=NEWER), SaveStatus.SUPERSEDED),
        (0, PriorState(current=NEWER, deleted_until=NOW), SaveStatus.DELETED),
        (0, PriorState(current=Version(NOW - 1, "ff" * 32)), SaveStatus.STORED),
    ],
)
def test_judgement(kind: int, known: PriorState, status: SaveStatus) -> None:
    event = make(kind=kind, at=NOW).event
    assert rules.judge(event, known, NOW).status is status


def test_the_past_expiration_is_refused_unless_a_stronger_reason_stands() -> None:
    event = make(tags=(("expiration", str(NOW)),)).event
    assert rules.judge(event, PriorState(), NOW).status is SaveStatus.EXPIRED
    assert rules.judge(event, PriorState(), NOW - 1).status is SaveStatus.STORED
    assert rules.judge(event, PriorState(deleted=True), NOW).status is SaveStatus.DELETED


def test_an_expired_ephemeral_event_is_not_passed_on() -> None:
    event = make(kind=20_001, tags=(("expiration", str(NOW)),)).event
    assert rules.judge(event, PriorState(), NOW - 1).status is SaveStatus.EPHEMERAL
    assert rules.judge(event, PriorState(), NOW).status is SaveStatus.EXPIRED


@pytest.mark.parametrize(
    ("tags", "here"),
    [
        ((("relay", "ALL_RELAYS"),), True),
        ((("relay", "wss://a.example"), ("relay", "wss://ours.example")), True),
        ((("relay", "wss://ours.example/"),), True),
        ((("relay", "WSS://Ours.Example:443"),), True),
        ((("relay", "wss://a.example"),), False),
        ((("relay", "ours.example"),), True),
        ((("relay", "wss://["),), False),
        ((("relay",),), False),
        ((), False),
    ],
)
def test_whom_a_request_to_vanish_speaks_to(tags: tuple[tuple[str, ...], ...], here: bool) -> None:
    assert rules.vanishes_here(make(kind=62, tags=tags).event, {"wss://ours.example"}) is here
