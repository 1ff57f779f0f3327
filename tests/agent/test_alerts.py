"""Alerts: how conditions are written, when they hold, and what a text says of people."""

from __future__ import annotations

import json

import pytest

from agent.alerts.bodies import Crossing, body_of, text_of
from agent.alerts.conditions import Condition, Sample, holds, parse_condition
from agent.api import schema
from nostr_client.errors import InvalidInput
from nostr_client.watch import Watch

DAY = 86_400.0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("> 1000", Condition(kind="level", sign=">", amount=1000)),
        ("<=5", Condition(kind="level", sign="<=", amount=5)),
        ("+10 % in a day", Condition(kind="rate", sign="+", amount=10, percent=True, within=DAY)),
        ("+10% in 1d", Condition(kind="rate", sign="+", amount=10, percent=True, within=DAY)),
        ("-5 in 30m", Condition(kind="rate", sign="-", amount=5, within=1800)),
        ("  relay   lies ", Condition(kind="lies")),
    ],
)
def test_conditions_are_read(text: str, expected: Condition) -> None:
    assert parse_condition(text) == expected


@pytest.mark.parametrize("text", ["", ">", "> x", "10", "+10%", "+10% in soon", "+1 in 0s", "> -1"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        parse_condition(text)


@pytest.mark.parametrize(
    ("text", "value", "expected"),
    [("> 10", 11, True), ("> 10", 10, False), (">= 10", 10, True), ("< 10", 9, True)],
)
def test_levels(text: str, value: int, expected: bool) -> None:
    assert holds(parse_condition(text), Sample(0, value), [], liars=0) is expected


@pytest.mark.parametrize(
    ("text", "before", "after", "expected"),
    [
        ("+10 % in 1d", 100, 110, True),
        ("+10 % in 1d", 100, 109, False),
        ("+10 % in 1d", 0, 1, True),
        ("+10 % in 1d", 0, 0, False),
        ("-5 in 1d", 10, 5, True),
        ("-5 in 1d", 10, 6, False),
        ("-50 % in 1d", 10, 20, False),
    ],
)
def test_rates(text: str, before: int, after: int, expected: bool) -> None:
    past = [Sample(DAY - 10, before)]
    assert holds(parse_condition(text), Sample(DAY, after), past, liars=0) is expected


def test_rates_look_no_further_back_than_told() -> None:
    past = [Sample(0, 1), Sample(DAY * 1.5, 99)]
    assert not holds(parse_condition("+10 in 1d"), Sample(2 * DAY, 100), past, liars=0)


def test_lies() -> None:
    condition = parse_condition("relay lies")
    assert holds(condition, Sample(0, 1), [], liars=1)
    assert not holds(condition, Sample(0, 1), [], liars=0)


def test_a_text_names_the_newest_people_with_their_keys() -> None:
    state = schema.WatchState(
        spec=Watch(name="w", query="followers", target="a" * 64),
        origin="api",
        unit="distinct_authors",
        figure=schema.Figure.exactly(5),
    )
    people = tuple(
        schema.Person(
            act="followed", pubkey=f"{n:064x}", at=1, seen_at=9 - n, event="00", name=name
        )
        for n, name in enumerate(["Ada", None, "Cleo *", "Dan", None])
    )
    crossing = Crossing("id", state, "> 4", 10.0, people)
    text = text_of(crossing)
    assert text.startswith("w: 5 distinct authors; > 4; Ada (npub1")
    assert text.endswith("followed; and 2 more")
    assert "Dan" not in text
    assert [one["name"] for one in json.loads(body_of(crossing).data)["people"]][:3] == [
        "Ada",
        None,
        "Cleo *",
    ]
    assert "Cleo \\\\*" in body_of(crossing, "discord").data.decode()
    assert text_of(crossing._replace(people=())) == "w: 5 distinct authors; > 4"
