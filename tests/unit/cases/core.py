"""event, event-id, filter, url, relay-message, client-message, relay-frame, hll."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from nostr_client import hll
from nostr_client.codecs import messages, reasons
from nostr_client.codecs.event import Event, check_event, compute_id, parse_event, serialize
from nostr_client.codecs.filters import Filter
from nostr_client.codecs.keys import verify
from nostr_client.codecs.relay_url import normalize
from nostr_client.errors import InvalidEvent, InvalidFilter, InvalidRelayURL, ProtocolError
from tests.unit.cases import Case, checks

ID_KEYS = ("id", "id_as_clients_compute")
WRONG_IDS = ("wrong_id_with_u0026", "wrong_id_if_u2028_is_escaped", "wrong_id_if_escaped")
NOTHING = "0" * 64


def verdict(expected: dict[str, Any]) -> bool:
    keys = ("valid", "strict_valid", "signature_valid")
    return next((bool(expected[key]) for key in keys if key in expected), True)


def hashed(fields: dict[str, Any]) -> str:
    names = ("pubkey", "created_at", "kind", "tags", "content")
    return compute_id(*(fields[name] for name in names))


@checks("event")
def check_an_event(case: Case) -> None:
    expected = case.expected
    if not verdict(expected):
        with pytest.raises(InvalidEvent):
            verify(parse_event(case.frame))
        return check_what_the_refused_event_was(case)
    event = verify(parse_event(case.frame)).event
    assert {expected[key] for key in ID_KEYS if key in expected} <= {event.id}
    assert event.id not in {expected.get(key) for key in WRONG_IDS}
    stored = json.loads(event.to_json())
    assert list(stored) == expected.get("stored_keys", list(Event.__struct_fields__))
    assert verify(parse_event(event.to_json())).event == event
    if "created_at_is_in_future" in expected:
        assert (event.created_at > time.time()) is expected["created_at_is_in_future"]
    return None


def check_what_the_refused_event_was(case: Case) -> None:
    """The id it would have had, where the case tells how it must be read for that."""
    if case.expected.get("valid_if_tags_null_read_as_empty"):
        mended = case.data | {"tags": []}
        assert verify(parse_event(mended)).event.id == case.expected["id"]
    if case.expected.get("signature_valid"):
        assert hashed(case.data) == case.data["id"]  # so only the value itself is at fault


@checks("event-id")
def check_an_event_id(case: Case) -> None:
    fields, expected = case.data, case.expected
    assert hashed(fields) == expected["id"]
    if "serialised" in expected:
        names = ("pubkey", "created_at", "kind", "tags", "content")
        text = serialize(*(fields[name] for name in names))
        assert text == expected["serialised"].encode()
    whole = {**fields, "id": expected["id"], "sig": "0" * 128}
    if expected.get("valid", True):
        check_event(parse_event(whole))
    else:
        with pytest.raises(InvalidEvent):
            parse_event(whole)


def event_of(fields: dict[str, Any]) -> Event:
    blank = {"id": NOTHING, "pubkey": NOTHING, "created_at": 0, "kind": 1}
    return parse_event({**blank, "tags": [], "content": "", "sig": NOTHING * 2, **fields})


@checks("filter")
def check_a_filter(case: Case) -> None:
    expected = case.expected
    if expected.get("valid") is False:
        with pytest.raises(InvalidFilter):
            Filter.from_json(filter_text(case))
        return
    fields = json.loads(filter_text(case))
    found = Filter.from_json(filter_text(case))
    assert json.loads(found.to_json()) == fields
    if "matches" in expected:
        assert found.matches(event_of(case.data["event"])) is expected["matches"]
    else:
        nothing = expected.get("local_matches") == "nothing" or expected.get("send") is False
        assert found.matches_nothing is nothing


def filter_text(case: Case) -> str | bytes:
    """The filter alone; a case with an event has both in one object."""
    try:
        data = case.data
    except ValueError:
        return case.frame
    whole = isinstance(data, dict) and "filter" in data
    return json.dumps(data["filter"]) if whole else case.frame


def key_of(url: str) -> str | None:
    try:
        return normalize(url)
    except InvalidRelayURL:
        return None


@checks("url")
def check_urls(case: Case) -> None:
    urls = case.data if isinstance(case.data, list) else [case.data]
    keys = [key_of(url) for url in urls]
    expected = case.expected["one_key_per_relay"]
    assert keys == (expected if isinstance(expected, list) else [expected])
    assert [key_of(key) for key in keys if key] == [key for key in keys if key]


LABELS = {
    "EVENT": messages.EventReceived,
    "EOSE": messages.Eose,
    "OK": messages.Ok,
    "CLOSED": messages.Closed,
    "NOTICE": messages.Notice,
    "COUNT": messages.CountAnswer,
    "AUTH": messages.AuthChallenge,
    "NEG-MSG": messages.NegMsg,
    "NEG-ERR": messages.NegErr,
    "HELLO": messages.Hello,
}
FIELDS = {"cap": "max_records", "lower_bound_only": "limited"}
ABOUT_THE_CASE = {"type", "valid", "action", "ends"}


def must_be_refused(expected: dict[str, Any]) -> bool:
    return expected.get("type") == "invalid" or expected.get("valid") is False


@checks("relay-message")
def check_a_relay_message(case: Case) -> None:
    expected = case.expected
    if must_be_refused(expected):
        with pytest.raises(ProtocolError):
            messages.parse_relay_message(case.frame)
        return
    message: Any = messages.parse_relay_message(case.frame)
    if "type" in expected:
        assert isinstance(message, LABELS[expected["type"]])
    check_fields(message, expected)
    check_what_it_ends(message, expected)


def check_fields(message: Any, expected: dict[str, Any]) -> None:
    """Each expectation that is called as a field of ours, or as `FIELDS` knows it."""
    for name in expected.keys() - ABOUT_THE_CASE:
        field = FIELDS.get(name, name)
        if hasattr(message, field):
            assert plain(getattr(message, field)) == plain(expected[name], name), name


def plain(value: object, name: str = "") -> object:
    """A value as JSON would have it; no prefix is written as null or as no text."""
    if isinstance(value, bytes):
        return value.hex()
    if name == "hll" and isinstance(value, str):
        return value.lower()
    return "" if name == "prefix" and value is None else value


def check_what_it_ends(message: Any, expected: dict[str, Any]) -> None:
    if "ends" in expected:
        ref = getattr(message, "sub_id", None) or message.query_id
        assert expected["ends"].endswith(f" {ref}")
    if "if_a_COUNT_is_pending" in expected:
        keeps = expected["if_a_COUNT_is_pending"].startswith("keep waiting")
        assert reasons.means_count_unsupported(message.message) is not keeps
    if "if_a_NEG_OPEN_is_pending" in expected:
        keeps = expected["if_a_NEG_OPEN_is_pending"].startswith("keep waiting")
        assert reasons.means_neg_unsupported(message.message) is not keeps
    if expected.get("action", "").startswith("AUTH"):
        assert message.reason is reasons.Reason.AUTH_REQUIRED


COMMANDS = {
    "EVENT": messages.Publish,
    "REQ": messages.Req,
    "CLOSE": messages.Close,
    "COUNT": messages.Count,
    "AUTH": messages.Auth,
    "NEG-OPEN": messages.NegOpen,
    "NEG-MSG": messages.NegMsg,
    "NEG-CLOSE": messages.NegClose,
}


@checks("client-message")
def check_a_client_message(case: Case) -> None:
    if must_be_refused(case.expected):
        with pytest.raises(ProtocolError):
            messages.parse_client_message(case.frame)
        return
    message: Any = messages.parse_client_message(case.frame)
    assert isinstance(message, COMMANDS[case.expected.get("type", case.data[0])])
    check_fields(message, case.expected)
    assert messages.parse_client_message(message.to_json()) == message


@checks("relay-frame")
def check_relay_frames(case: Case) -> None:
    """A frame is a message or a ProtocolError, and never anything else."""
    steps = case.data if case.encoding == "sequence" else [{"relay": case.frame}]
    for frame in [step["relay"] for step in steps if "relay" in step]:
        check_a_relay_frame(frame if isinstance(frame, (str, bytes)) else json.dumps(frame), case)


def check_a_relay_frame(frame: str | bytes, case: Case) -> None:
    refused = must_be_refused(case.expected)
    try:
        message: Any = messages.parse_relay_message(frame)
    except ProtocolError:
        assert refused or not {"type", "valid"} & case.expected.keys()
        return
    assert not refused
    assert isinstance(message, LABELS.get(case.expected.get("type", ""), object))
    check_fields(message, case.expected)


@checks("hll")
def check_hll(case: Case) -> None:
    values = case.data if isinstance(case.data, list) else [case.data]
    expected = case.expected
    if "accept" in expected:
        for text, accept in zip(values, expected["accept"], strict=True):
            registers, _ = hll.from_hex(text)
            assert (registers is not None) is bool(accept)
            frame = json.dumps(["COUNT", "q", {"count": 7, "hll": text}])
            message: Any = messages.parse_relay_message(frame)
            assert message.count == 7
        return
    offsets = expected.get("offsets", [expected.get("offset")])
    assert [hll.offset({"#a": [value]}) for value in values] == offsets
