"""Alerts: how conditions are written, when they hold, and what a text says of people."""

from __future__ import annotations

import json

import pytest

from agent.alerts.bodies import Alert, Covered, body_of, text_of
from agent.alerts.conditions import (
    Condition,
    Sample,
    Shortfall,
    changed_from,
    falls_short,
    holds,
    parse_condition,
    parse_shortfall,
)
from agent.api import schema
from nostr_client.errors import InvalidInput
from nostr_client.watch.moved import Change
from tests.agent.states import coverage_run, watch_state

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


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("< 95 % on 3 relays", Shortfall(0.95, 3)),
        ("<95% on 1 relay", Shortfall(0.95, 1)),
        (" <  99.5 % ", Shortfall(0.995, 1)),
    ],
)
def test_lines_of_a_coverage_are_read(text: str, expected: Shortfall) -> None:
    assert parse_shortfall(text) == expected


@pytest.mark.parametrize(
    "text", ["", "< 95", "> 95 %", "< 0 %", "< 101 %", "< 95 % on 0 relays", "< 95 % on relays"]
)
def test_other_lines_of_a_coverage_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        parse_shortfall(text)


@pytest.mark.parametrize(
    ("shares", "expected"),
    [
        ((0.9, 0.5, 1.0), True),
        ((0.9, 0.5, None), True),
        ((0.9, 1.0, 1.0), False),
        ((0.9, 1.0, None), None),
        ((None, None, None), None),
        ((0.95, 0.95, 0.95), False),
        ((), False),
    ],
)
def test_a_relay_that_was_not_compared_neither_crosses_a_line_nor_clears_it(
    shares: tuple[float | None, ...], expected: bool | None
) -> None:
    assert falls_short(parse_shortfall("< 95 % on 2 relays"), coverage_run(*shares)) is expected


def test_what_an_alert_of_a_coverage_says() -> None:
    run = coverage_run(0.9499, 0.0, None, 1.0)
    crossing = Alert("ab", Covered("home", run, 0.95), "< 95 % on 2 relays", 7.0)
    assert text_of(crossing) == (
        "home: 2 of 4 relays lack too many of 1,162 events (wss://r1.example has 0.0 %,"
        " wss://r0.example has 94.9 %); 1 not compared; < 95 % on 2 relays"
    )
    assert json.loads(body_of(crossing).data) == {
        "id": "ab",
        "coverage": "home",
        "when": "< 95 % on 2 relays",
        "known": 1_162,
        "relays": 4,
        "below": [
            {"relay": "wss://r1.example", "share": 0.0},
            {"relay": "wss://r0.example", "share": 0.9499},
        ],
        "unknown": ["wss://r2.example"],
        "at": 7.0,
    }


def test_a_text_names_the_newest_people_with_their_keys() -> None:
    state = watch_state(schema.Figure.exactly(5), unit="distinct_authors")
    people = tuple(
        schema.Person(
            act="followed", pubkey=f"{n:064x}", at=1, seen_at=9 - n, event="00", name=name
        )
        for n, name in enumerate(["Ada", None, "Cleo *", "Dan", None])
    )
    crossing = Alert("id", state, "> 4", 10.0, people)
    text = text_of(crossing)
    assert text.startswith("w: 5 distinct authors; > 4; Ada (npub1")
    assert text.endswith("followed; and 2 more: nostr-client watch people w")
    assert "Dan" not in text
    assert [one["name"] for one in json.loads(body_of(crossing).data)["people"]][:3] == [
        "Ada",
        None,
        "Cleo *",
    ]
    assert "Cleo \\\\*" in body_of(crossing, "discord").data.decode()
    alone = crossing._replace(people=())
    assert text_of(alone) == "w: 5 distinct authors; > 4"
    assert json.loads(body_of(alone).data)["change"] is None


def test_an_alert_says_how_the_number_changed_and_from_which_one() -> None:
    state = watch_state(schema.Figure.exactly(1_017), unit="distinct_authors")
    for value, said in ((1_013, "+4"), (1_200, "-183"), (1_017, "no change")):
        moved = Change(1_017 - value)
        crossing = Alert("id", state, "> 13", 7_300.0, (), Sample(100.0, value), moved)
        text = f"w: 1,017 distinct authors, {said} in 2h (from {value:,}); > 13"
        assert text_of(crossing) == text
        found = json.loads(body_of(crossing).data)
        assert found["change"] == 1_017 - value
        assert found["before"] == {"at": 100.0, "value": value}


@pytest.mark.parametrize(
    ("text", "value"), [("> 13", 20), ("relay lies", 20), ("+2 in 1h", 13), ("-2 in 1h", 21)]
)
def test_a_change_is_from_the_oldest_number_or_the_furthest_of_a_rate(
    text: str, value: int
) -> None:
    past = [Sample(3, 21), Sample(1, 20), Sample(2, 13)]
    found = changed_from(parse_condition(text), past)
    assert found is not None
    assert found.value == value
    assert changed_from(parse_condition(text), []) is None
