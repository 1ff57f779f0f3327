"""Lines of files as people have them: which events they hold, and what is said of the others."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nostr_client.codecs.event import Event
from nostr_client.errors import InvalidEvent
from nostr_client.store import event_lines
from nostr_client.store.event_lines import PRETTY, PSQL, TOO_LONG, parse_event_line
from tests.conformance.store_events import make

EVENTS = [make(n, content='a "}{" [b]\\').event for n in range(3)]
TEXTS = [event.to_json() for event in EVENTS]


def events_of(line: str) -> list[Event]:
    found = parse_event_line(line.encode())
    assert all(isinstance(one, Event) for one in found), found
    return [one for one in found if isinstance(one, Event)]


@pytest.mark.parametrize(
    "line",
    [
        "".join(TEXTS),
        " ".join(TEXTS),
        ",".join(TEXTS) + ",",
        "[" + ",".join(TEXTS) + "]",
        "[ " + " , ".join(TEXTS) + " ],",
        "[" + ",".join(TEXTS) + ",",
        ",".join(TEXTS) + "]",
    ],
)
def test_several_events_of_one_line_come_in_order(line: str) -> None:
    assert events_of(line) == EVENTS


@pytest.mark.parametrize(
    "form",
    [
        "{}",
        "{},",
        '["EVENT",{}]',
        '["EVENT","sub",{}]',
        '["EVENT","sub",{}],',
        "[{}]",
        "[{},",
        "{}]",
    ],
)
def test_one_event_of_a_line(form: str) -> None:
    assert events_of(form.replace("{}", TEXTS[0])) == EVENTS[:1]


@pytest.mark.parametrize("line", ["[", "]", "],", "[]", "[ ]", "[],"])
def test_brackets_around_an_array_and_an_empty_one_are_no_mistake(line: str) -> None:
    assert parse_event_line(line.encode()) == []


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("{", PRETTY),
        ('"id": "00",', PRETTY),
        ('"tags": [', PRETTY),
        ("},", PRETTY),
        ("-----------", PSQL),
        ("(12 rows)", PSQL),
        ("x" * 40, TOO_LONG),
    ],
)
def test_a_line_of_a_form_that_is_not_read_gets_a_hint(
    line: str, hint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_lines, "LINE_LIMIT", 30)
    (found,) = parse_event_line(line.encode())
    assert isinstance(found, InvalidEvent)
    assert str(found) == hint


def test_an_array_says_which_of_its_elements_are_no_events() -> None:
    found = parse_event_line(f'[{TEXTS[0]},{{"id":1}},{TEXTS[1]},7]'.encode())
    assert [isinstance(one, Event) for one in found] == [True, False, True, False]


def test_an_event_is_as_strictly_read_in_an_array_as_alone() -> None:
    odd = json.dumps({**json.loads(TEXTS[0]), "created_at": 1e3})
    assert all(isinstance(one, InvalidEvent) for one in parse_event_line(f"[{odd}]".encode()))
    assert all(isinstance(one, InvalidEvent) for one in parse_event_line((odd + odd).encode()))


@given(st.binary(max_size=200))
def test_no_line_raises(line: bytes) -> None:
    assert isinstance(parse_event_line(line), list)


@given(st.text('[]{},:" 0a\\', max_size=40))
def test_no_line_of_brackets_raises(text: str) -> None:
    assert isinstance(parse_event_line(text.encode()), list)


@pytest.mark.parametrize("line", ["[" * 200_000, '{"a":' * 200_000, "[{" * 100_000 + "}" * 9])
def test_a_deeply_nested_line_is_no_event(line: str) -> None:
    assert not any(isinstance(one, Event) for one in parse_event_line(line.encode()))
