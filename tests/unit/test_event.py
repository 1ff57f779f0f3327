"""Structure, canonical bytes and ids of events."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nostr_client.codecs.event import (
    MAX_TIME,
    Event,
    check_event,
    compute_id,
    has_plain_fields,
    has_valid_id,
    parse_event,
    require_hex,
    serialize,
)
from nostr_client.errors import InvalidEvent
from tests.conftest import shared_path
from tests.unit.strategies import EVENTS, HEX32, KINDS, TAGS, TEXT, TIMES, signed

GOOD: dict[str, Any] = {
    "id": "a" * 64,
    "pubkey": "b" * 64,
    "created_at": 1_700_000_000,
    "kind": 1,
    "tags": [["e", "c" * 64], ["t"]],
    "content": "hello",
    "sig": "d" * 128,
}
SHORT = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}


def quoted(text: str) -> str:
    """NIP-01's string as JSON.stringify writes it, one character at a time."""
    return '"' + "".join(SHORT.get(c) or (f"\\u{ord(c):04x}" if c < " " else c) for c in text) + '"'


def canonical(pubkey: str, created_at: int, kind: int, tags: Any, content: str) -> bytes:
    inner = ",".join("[" + ",".join(map(quoted, tag)) + "]" for tag in tags)
    return f'[0,"{pubkey}",{created_at},{kind},[{inner}],{quoted(content)}]'.encode()


@given(HEX32, TIMES, KINDS, TAGS, TEXT)
def test_the_bytes_are_what_nip01_and_json_stringify_say(
    pubkey: str, created_at: int, kind: int, tags: Any, content: str
) -> None:
    expected = canonical(pubkey, created_at, kind, tags, content)
    assert serialize(pubkey, created_at, kind, tags, content) == expected
    assert (
        compute_id(pubkey, created_at, kind, tags, content) == hashlib.sha256(expected).hexdigest()
    )


def test_every_control_character_and_the_ones_others_escape() -> None:
    text = "".join(map(chr, [*range(0x100), 0x2028, 0x2029, 0xFEFF, 0xFFFD, 0xFFFF, 0x10FFFF]))
    assert serialize("", 0, 1, [[text]], text) == canonical("", 0, 1, [[text]], text)


@given(EVENTS)
def test_json_there_and_back(event: Event) -> None:
    text = event.to_json()
    assert list(json.loads(text)) == list(GOOD)
    assert parse_event(text) == parse_event(text.encode()) == parse_event(json.loads(text)) == event
    check_event(event)


BAD_FIELDS = [
    {"id": "A" * 64},
    {"id": "a" * 63},
    {"id": "a" * 65},
    {"id": "g" * 64},
    {"id": "a" * 62 + " a"},
    {"id": "ａ" * 64},  # full-width letter
    {"id": 5},
    {"id": None},
    {"pubkey": "B" * 64},
    {"pubkey": " " * 64},
    {"sig": "d" * 127},
    {"sig": "D" * 128},
    {"created_at": -1},
    {"created_at": MAX_TIME + 1},
    {"created_at": 10**30},
    {"created_at": 1.0},
    {"created_at": 1.5},
    {"created_at": "1"},
    {"created_at": True},
    {"created_at": None},
    {"kind": -1},
    {"kind": 65536},
    {"kind": 1.0},
    {"kind": False},
    {"kind": "1"},
    {"tags": None},
    {"tags": {}},
    {"tags": "e"},
    {"tags": [[]]},
    {"tags": ["e"]},
    {"tags": [["e", 1]]},
    {"tags": [["e", None]]},
    {"tags": [["e", ["x"]]]},
    {"content": None},
    {"content": 1},
    {"content": ["x"]},
]


@pytest.mark.parametrize("bad", BAD_FIELDS, ids=repr)
def test_bad_fields_are_refused_in_every_form(bad: dict[str, Any]) -> None:
    fields = GOOD | bad
    with pytest.raises(InvalidEvent):
        parse_event(json.dumps(fields))
    with pytest.raises(InvalidEvent):
        parse_event(fields)
    with pytest.raises(InvalidEvent):
        check_event(Event(**fields))
    for made in (fields, {key: tupled(value) for key, value in fields.items()}):
        assert not passes_quickly(Event(**made))


def tupled(value: Any) -> Any:
    return tuple(map(tupled, value)) if isinstance(value, list) else value


def passes_quickly(event: Event) -> bool:
    """What `keys.verify` asks before the id."""
    try:
        return has_plain_fields(event) and require_hex(event) is event
    except InvalidEvent:
        return False


@given(EVENTS)
def test_what_is_well_formed_needs_no_second_look(event: Event) -> None:
    assert passes_quickly(event)
    assert passes_quickly(parse_event(event.to_json()))


@pytest.mark.parametrize("name", list(GOOD))
def test_every_field_is_needed(name: str) -> None:
    fields = {key: value for key, value in GOOD.items() if key != name}
    with pytest.raises(InvalidEvent):
        parse_event(json.dumps(fields))


NO_TEXT = json.dumps(GOOD)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"null",
        b"[]",
        b"7",
        b"{",
        NO_TEXT.replace("hello", "\ud800"),
        NO_TEXT.replace("hello", "\\ud800"),
        NO_TEXT.replace("hello", "\\udc00\\ud800"),
        NO_TEXT.replace("hello", "a\nb"),
        NO_TEXT.encode().replace(b"hello", b"\xff\xfe"),
        NO_TEXT.encode().replace(b"hello", b"\xed\xa0\x80"),  # a surrogate in UTF-8
        NO_TEXT.encode().replace(b"hello", b"\xc3"),  # half a character
        NO_TEXT.replace("1700000000", "1" * 5000),
        NO_TEXT.replace("1700000000", "NaN"),
        NO_TEXT.replace("1700000000", "1e9"),
        b'{"x":' + b"[" * 200_000,
        b'{"tags":' + b"[" * 200_000,
        NO_TEXT + "x",
        NO_TEXT.replace('"', "'"),
    ],
    ids=lambda raw: repr(raw[:60]),
)
def test_what_is_no_event_text(raw: str | bytes) -> None:
    with pytest.raises(InvalidEvent):
        parse_event(raw)


@pytest.mark.parametrize("where", ["content", "tags"])
def test_a_lone_surrogate_in_a_mapping_is_refused(where: str) -> None:
    bad = "\ud800" if where == "content" else [["t", "\ud800"]]
    with pytest.raises(InvalidEvent):
        parse_event(GOOD | {where: bad})
    event = Event(**(GOOD | {where: bad}))
    assert not has_valid_id(event)
    with pytest.raises(InvalidEvent):
        event.to_json()
    with pytest.raises(InvalidEvent):
        check_event(event)


def test_a_hand_made_event_with_lists_for_tuples_is_refused() -> None:
    with pytest.raises(InvalidEvent, match="types"):
        check_event(Event(**(GOOD | {"tags": [["e", "x"]]})))


@given(st.binary(max_size=200) | st.text(max_size=200))
def test_noise_is_an_event_or_invalid_event(raw: bytes | str) -> None:
    with pytest.raises(InvalidEvent):
        parse_event(raw)


@given(st.recursive(st.none() | st.booleans() | st.integers() | TEXT, st.lists, max_leaves=8))
def test_any_json_as_tags(value: object) -> None:
    try:
        event = parse_event(json.dumps(GOOD | {"tags": value}))
    except InvalidEvent:
        return
    assert json.loads(event.to_json())["tags"] == value


def test_unknown_keys_are_dropped_and_the_last_of_two_equal_keys_counts() -> None:
    event = parse_event(NO_TEXT[:-1] + ', "content": "later", "seenOn": ["wss://x"]}')
    assert event.content == "later"
    assert set(json.loads(event.to_json())) == set(GOOD)


def test_helpers_over_tags() -> None:
    tags = (("e", "1"), ("e",), ("p", "2"), ("e", "3", "wss://x"))
    event = Event(**(GOOD | {"tags": tags}))
    assert list(event.tag_values("e")) == ["1", "3"]
    assert (event.first_tag("e"), event.first_tag("d")) == ("1", None)


def test_an_event_is_frozen_and_hashes_by_id() -> None:
    event = parse_event(GOOD)
    with pytest.raises(AttributeError):
        event.kind = 2
    assert hash(event) == hash(event.id)
    assert {event, parse_event(NO_TEXT)} == {event}


def test_has_valid_id() -> None:
    event = signed(content="x").event
    assert has_valid_id(event)
    assert not has_valid_id(msgspec.structs.replace(event, content="y"))


def test_all_shared_events_have_valid_ids_and_survive_our_json() -> None:
    lines = shared_path("data/events.jsonl").read_bytes().split(b"\n")
    events = [parse_event(line) for line in lines if line]
    assert events
    assert all(map(has_valid_id, events))
    assert [parse_event(event.to_json()) for event in events] == events
