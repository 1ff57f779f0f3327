"""What a reaction is to, and where in a thread a reply is."""

from __future__ import annotations

import pytest

from nostr_client.codecs.references import (
    DIRECT,
    THREAD,
    reacted_to,
    reaction_label,
    receivers,
    reply_place,
)
from tests.unit.strategies import signed

A, B, C = "aa" * 32, "bb" * 32, "cc" * 32


@pytest.mark.parametrize(
    ("tags", "place"),
    [
        ([("e", A, "", "root")], DIRECT),
        ([("e", A, "", "reply")], DIRECT),
        ([("e", B, "", "root"), ("e", A, "", "reply")], DIRECT),
        ([("e", A, "", "root"), ("e", B, "", "reply")], THREAD),
        ([("e", A, "", "mention"), ("e", B, "", "root")], None),
        ([("e", A), ("e", B, "", "root")], None),
        ([("e", A, "", "mention")], None),
        ([("e", A)], DIRECT),
        ([("e", B), ("e", A)], DIRECT),
        ([("e", A), ("e", B)], THREAD),
        ([("e", A, "wss://r.example"), ("e", C), ("e", B)], THREAD),
        ([("e", C), ("e", A), ("e", B)], None),
        ([("e", C), ("e", A), ("e", A)], DIRECT),
        ([("e",), ("q", A)], None),
        ([], None),
    ],
)
def test_where_in_a_thread_a_reply_is(tags: list[tuple[str, ...]], place: str | None) -> None:
    assert reply_place(signed(tags=tuple(tags)).event, A) == place


ADDRESS = f"30023:{C}:a:b"


@pytest.mark.parametrize(
    ("tags", "place"),
    [
        ([("a", ADDRESS)], DIRECT),
        ([("a", ADDRESS, "", "root")], DIRECT),
        ([("a", ADDRESS, "", "reply")], DIRECT),
        ([("a", ADDRESS, "", "root"), ("e", A, "", "root")], DIRECT),
        ([("a", ADDRESS), ("e", A, "", "root")], DIRECT),
        ([("a", ADDRESS, "", "root"), ("e", B, "", "reply")], THREAD),
        ([("a", ADDRESS), ("e", A, "", "root"), ("e", B, "", "reply")], THREAD),
        ([("a", ADDRESS), ("e", B)], THREAD),
        ([("e", A), ("a", ADDRESS), ("e", B)], THREAD),
        ([("a", ADDRESS, "", "mention"), ("e", B, "", "root")], None),
        ([("a", ADDRESS, "", "mention")], None),
        ([("e", A)], None),
        ([("a", f"30023:{C}:other")], None),
    ],
)
def test_where_in_the_thread_of_an_address_a_reply_is(
    tags: list[tuple[str, ...]], place: str | None
) -> None:
    assert reply_place(signed(tags=tuple(tags)).event, ADDRESS) == place


def test_a_reaction_is_to_the_last_event_that_it_names() -> None:
    assert reacted_to(signed(kind=7, tags=(("e", A), ("p", C), ("e", B))).event) == B
    assert reacted_to(signed(kind=7).event) is None


@pytest.mark.parametrize(
    ("content", "label"),
    [
        ("", "+"),
        ("+", "+"),
        ("-", "-"),
        (" 🤙 ", "🤙"),
        (":soapbox:", ":soapbox:"),
        ("\x1b", r"\x1b"),
    ],
)
def test_what_a_reaction_says(content: str, label: str) -> None:
    assert reaction_label(signed(kind=7, content=content).event) == label


def test_long_reactions_are_cut() -> None:
    assert len(reaction_label(signed(kind=7, content="x" * 10_000).event)) < 80


def test_a_zap_may_pay_the_author_and_the_splits() -> None:
    event = signed(tags=(("zap", A, "wss://r.example", "1"), ("zap", B), ("zap",))).event
    assert receivers(event) == {event.pubkey, A, B}
