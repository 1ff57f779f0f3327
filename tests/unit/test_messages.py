"""Messages of both directions: there and back, tolerance, hostile frames, shared wire vectors."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nostr_client import hll
from nostr_client.codecs import messages, reasons
from nostr_client.codecs.filters import Filter
from nostr_client.codecs.messages import (
    Auth,
    AuthChallenge,
    ClientMessage,
    Close,
    Closed,
    Count,
    CountAnswer,
    Eose,
    EventReceived,
    Hello,
    Hint,
    NegClose,
    NegErr,
    NegMsg,
    NegOpen,
    Notice,
    Ok,
    Publish,
    RelayMessage,
    Req,
    parse_client_message,
    parse_relay_message,
)
from nostr_client.codecs.reasons import Reason
from nostr_client.errors import InvalidEvent, InvalidFilter, MalformedMessage, ProtocolError
from tests.conftest import load_cases
from tests.faults import UNREADABLE
from tests.unit.strategies import EVENTS, FILTERS, HEX32, SUB_IDS, TEXT, signed

if TYPE_CHECKING:
    from nostr_client.codecs.event import Event

FLAGS = st.none() | st.booleans()
REGISTERS = st.binary(min_size=256, max_size=256).map(lambda raw: bytes(b % 58 for b in raw))
COUNTS = st.integers(1, messages.MAX_COUNT)
QUERIES = st.lists(FILTERS, min_size=1, max_size=3).map(tuple)

FROM_RELAY = st.one_of(
    st.builds(EventReceived, SUB_IDS, EVENTS),
    st.builds(Eose, SUB_IDS, st.none() | st.sampled_from(Hint)),
    st.builds(Ok, HEX32 | st.just("?"), st.booleans(), TEXT),
    st.builds(Closed, SUB_IDS, TEXT),
    st.builds(Notice, TEXT),
    st.builds(CountAnswer, SUB_IDS, COUNTS, FLAGS, FLAGS, st.none() | REGISTERS),
    st.builds(AuthChallenge, TEXT),
    st.builds(NegErr, SUB_IDS, TEXT, st.integers(1, messages.MAX_COUNT)),
    st.builds(NegMsg, SUB_IDS, st.binary(max_size=80)),
    st.builds(Hello, FLAGS),
)
FROM_CLIENT = st.one_of(
    st.builds(Req, SUB_IDS, QUERIES),
    st.builds(Close, SUB_IDS),
    st.builds(Publish, EVENTS),
    st.builds(Count, SUB_IDS, QUERIES),
    st.builds(Auth, EVENTS),
    st.builds(NegOpen, SUB_IDS, FILTERS | HEX32, st.binary(max_size=80)),
    st.builds(NegMsg, SUB_IDS, st.binary(max_size=80)),
    st.builds(NegClose, SUB_IDS),
)


@given(FROM_RELAY)
def test_relay_messages_there_and_back(message: RelayMessage) -> None:
    text = message.to_json()
    assert parse_relay_message(text) == parse_relay_message(text.encode() + b"\n") == message
    spaced = json.dumps(json.loads(text), indent=1)
    assert parse_relay_message(spaced) == message


@given(FROM_CLIENT)
def test_client_messages_there_and_back(message: ClientMessage) -> None:
    text = message.to_json()
    assert parse_client_message(text) == parse_client_message(text.encode()) == message
    assert json.loads(text)[0] == type(message).__name__.upper().replace("NEG", "NEG-").replace(
        "PUBLISH", "EVENT"
    )


SUB = "s"
A = "a" * 64


def relay(*parts: object) -> Any:
    return parse_relay_message(json.dumps(parts))


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        (["OK", A, True], Ok(A, True, "")),
        (["OK", A, False, None], Ok(A, False, "")),
        (["OK", "?", False, "invalid: x", "more"], Ok("?", False, "invalid: x")),
        (["CLOSED", SUB], Closed(SUB, "")),
        (["CLOSED", "r", ""], Closed("r", "")),
        (["NOTICE"], Notice("")),
        (["EOSE", SUB, 1, 2], Eose(SUB)),
        (["EOSE", SUB, ["finish"]], Eose(SUB, Hint.FINISH)),
        (["EOSE", SUB, ["soon", "more", 7, None, {}]], Eose(SUB, Hint.MORE)),
        (["EOSE", SUB, ["finish", "more"]], Eose(SUB)),
        (["EOSE", SUB, ["FINISH"]], Eose(SUB)),
        (["EOSE", SUB, []], Eose(SUB)),
        (["EOSE", SUB, "finish"], Eose(SUB)),
        (["EOSE", SUB, {"finish": True}], Eose(SUB)),
        (["HELLO", {"count": True, "x": 1}], Hello(True)),
        (["HELLO", {}], Hello(None)),
        (["HELLO", {"count": 1}], Hello(None)),
        (["AUTH", ""], AuthChallenge("")),
        (["NEG-ERR", SUB, "blocked: too big", 0], NegErr(SUB, "blocked: too big", None)),
        (["NEG-ERR", SUB, "blocked: too big", "5"], NegErr(SUB, "blocked: too big", None)),
        (["NEG-ERR", SUB, "blocked: too big", True], NegErr(SUB, "blocked: too big", None)),
        (["NEG-ERR", SUB], NegErr(SUB, "", None)),
        (["NEG-MSG", SUB, "6A"], NegMsg(SUB, b"\x6a")),
        (["NEG-MSG", SUB, ""], NegMsg(SUB, b"")),
    ],
    ids=str,
)
def test_tolerance(parts: list[object], expected: RelayMessage) -> None:
    assert relay(*parts) == expected


BAD_FROM_RELAY: list[list[object]] = [
    [],
    [1],
    [None, "x"],
    ["EVENTS", SUB],
    ["event", SUB, {}],
    ["EVENT"],
    ["EVENT", SUB],
    ["EVENT", SUB, {}],
    ["EVENT", SUB, None],
    ["EVENT", {}],
    ["EOSE"],
    ["EOSE", None],
    ["OK"],
    ["OK", A],
    ["OK", A, "true"],
    ["OK", A, 1],
    ["OK", None, True],
    ["OK", A, True, 5],
    ["CLOSED"],
    ["CLOSED", 5, "x"],
    ["CLOSED", SUB, {}],
    ["NOTICE", 404],
    ["NOTICE", ["x"]],
    ["COUNT", SUB],
    ["COUNT", SUB, None],
    ["COUNT", SUB, []],
    ["COUNT", SUB, 12],
    ["COUNT", SUB, {}],
    ["COUNT", SUB, {"count": None}],
    ["COUNT", SUB, {"count": "5"}],
    ["COUNT", SUB, {"count": True}],
    ["COUNT", SUB, {"count": -1}],
    ["COUNT", SUB, {"count": -1.0}],
    ["COUNT", SUB, {"count": 1.5}],
    ["COUNT", SUB, {"count": 10**30}],
    ["COUNT", SUB, {"count": 2**63}],
    ["COUNT", SUB, {"count": 1e30}],
    ["COUNT", 5, {"count": 1}],
    ["AUTH"],
    ["AUTH", None],
    ["AUTH", {}],
    ["NEG-MSG", SUB],
    ["NEG-MSG", SUB, 61],
    ["NEG-MSG", SUB, "6"],
    ["NEG-MSG", SUB, "6 1 "],
    ["NEG-MSG", SUB, "zz"],
    ["NEG-MSG", SUB, "６１"],
    ["NEG-ERR"],
    ["NEG-ERR", SUB, 5],
    ["HELLO"],
    ["HELLO", "x"],
    ["REQ", SUB, {}],
]


@pytest.mark.parametrize("parts", BAD_FROM_RELAY, ids=str)
def test_bad_relay_messages(parts: list[object]) -> None:
    with pytest.raises(MalformedMessage):
        relay(*parts)


FRAMES = [
    "",
    "\n",
    "x",
    "{}",
    "null",
    '"EVENT"',
    '["EVENT"',
    '["EVENT",]',
    "['EOSE','x']",
    '["NOTICE": 404]',
    '["NOTICE","a\nb"]',
    '["NOTICE","\\ud800"]',
    '["NOTICE","\ud800"]',
    b'["NOTICE","\xff"]',
    b'["NOTICE","\xc3',
    b'["NOTICE","\xed\xa0\x80"]',
    "[" * 100_000,
    '["COUNT","q",' + "[" * 100_000,
    '["COUNT","q",{"count":' + "1" * 5000 + "}]",
    '["COUNT","q",{"count":1e999}]',
    '["COUNT","q",{"count":NaN}]',
    '["EVENT","q",{"tags":' + "[" * 100_000,
    '["EOSE","x"]["EOSE","x"]',
    b"\x00",
    b"\xef\xbb\xbf[]",
]


@pytest.mark.parametrize("frame", FRAMES, ids=lambda frame: repr(frame[:30]))
def test_hostile_frames(frame: str | bytes) -> None:
    with pytest.raises(ProtocolError) as caught:
        parse_relay_message(frame)
    assert len(str(caught.value)) < 700
    with pytest.raises(ProtocolError):
        parse_client_message(frame)


@given(st.binary(max_size=100) | st.text(max_size=100))
def test_noise_is_malformed(frame: str | bytes) -> None:
    with pytest.raises(MalformedMessage):
        parse_relay_message(frame)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
LABELS = st.sampled_from(
    (
        "EVENT",
        "EOSE",
        "OK",
        "CLOSED",
        "NOTICE",
        "COUNT",
        "AUTH",
        "HELLO",
        "REQ",
        "CLOSE",
        "NEG-MSG",
        "NEG-ERR",
        "NEG-ERROR",
        "NEG-OPEN",
        "NEG-CLOSE",
    )
)


@given(LABELS, st.lists(JSON, max_size=4))
def test_any_elements_are_a_message_or_malformed(label: str, parts: list[object]) -> None:
    text = json.dumps([label, *parts])
    for parse in (parse_relay_message, parse_client_message):
        try:
            message = parse(text)
        except MalformedMessage:
            continue
        assert parse(message.to_json()).to_json() == message.to_json()


@given(
    st.sampled_from(("REQ", "COUNT", "CLOSE")),
    st.sampled_from(("s", "", "ü" * 64, "x" * 65, 5)),
    st.lists(
        st.sampled_from(({}, {"kinds": [1], "#e": [A]}, {"ids": ["x"]}, None, [])), max_size=3
    ),
)
def test_common_frames_are_read_as_others_are(label: str, sub_id: object, rest: list[Any]) -> None:
    text = json.dumps([label, sub_id, *rest])
    found: list[object] = []
    for frame in (text, f" {text}"):  # a space before it makes a frame an uncommon one
        try:
            found.append(parse_client_message(frame))
        except MalformedMessage as error:
            found.append((str(error), error.label, error.ref))
    assert found[0] == found[1]


def test_size_is_counted_in_bytes() -> None:
    text = Notice("ü" * 100).to_json()
    size = len(text.encode())
    assert parse_relay_message(text, max_size=size) == Notice("ü" * 100)
    for frame in (text, text.encode()):
        with pytest.raises(MalformedMessage, match="bytes"):
            parse_relay_message(frame, max_size=size - 1)
        with pytest.raises(MalformedMessage, match="bytes"):
            parse_client_message(frame, max_size=size - 1)


def test_an_error_tells_what_the_frame_was_about() -> None:
    with pytest.raises(MalformedMessage) as caught:
        relay("EVENT", "sub", {"id": "x"})
    assert (caught.value.label, caught.value.ref) == ("EVENT", "sub")
    assert isinstance(caught.value.__cause__, InvalidEvent)
    with pytest.raises(MalformedMessage) as caught:
        parse_client_message('["REQ","sub",{},{"ids":["x"]}]')
    assert (caught.value.label, caught.value.ref) == ("REQ", "sub")
    assert isinstance(caught.value.__cause__, InvalidFilter)
    with pytest.raises(MalformedMessage) as caught:
        parse_client_message(json.dumps(["EVENT", {"id": A, "kind": "x"}]))
    assert (caught.value.label, caught.value.ref) == ("EVENT", A)


@pytest.mark.parametrize(
    "parts",
    [
        ["REQ"],
        ["REQ", SUB],
        ["REQ", "", {}],
        ["REQ", "x" * 65, {}],
        ["REQ", 5, {}],
        ["REQ", SUB, []],
        ["REQ", SUB, {}, None],
        ["REQ", SUB, '{"kinds":[1]}'],
        ["REQ", {"id": SUB}, {}],
        ["REQ", SUB, {"foo": 1}],
        ["COUNT", SUB],
        ["CLOSE"],
        ["CLOSE", None],
        ["EVENT", SUB, {}],
        ["EVENT", []],
        ["AUTH", "challenge"],
        ["NEG-OPEN", SUB, {}],
        ["NEG-OPEN", SUB, {}, 16, "61"],  # five elements: protocol V0
        ["NEG-OPEN", SUB, {}, "6"],
        ["NEG-OPEN", SUB, 5, "61"],
        ["NEG-MSG", SUB],
        ["NEG-CLOSE"],
        ["EOSE", SUB],
        ["HELLO", {}],
    ],
    ids=str,
)
def test_bad_client_messages(parts: list[object]) -> None:
    with pytest.raises(MalformedMessage):
        parse_client_message(json.dumps(parts))


def test_a_query_keeps_the_order_of_its_filters() -> None:
    query = Req("s", (Filter(kinds=[2]), Filter(kinds=[1])))
    assert query.to_json() == '["REQ","s",{"kinds":[2]},{"kinds":[1]}]'


def test_an_event_goes_out_as_it_is_stored() -> None:
    event: Event = signed(content="ü\n\u2028").event
    assert Publish(event).to_json() == f'["EVENT",{event.to_json()}]'


def test_duplicate_counts_as_having_the_event() -> None:
    assert Ok(A, False, "duplicate: have it").holds_event
    assert Ok(A, True, "").holds_event
    assert not Ok(A, False, "blocked: no").holds_event
    assert Ok(A, False, "ERROR: pow: x").reason is Reason.POW
    assert not AuthChallenge("").usable


@pytest.mark.parametrize("text", ["z" * 512, "00", "0" * 513, 5, ["00"], {}], ids=str)
def test_a_bad_sketch_does_not_lose_the_count(text: object) -> None:
    answer = relay("COUNT", "q", {"count": 7, "hll": text})
    assert (answer.count, answer.hll) == (7, None)
    assert answer.warnings


def test_registers_above_57_are_clamped_with_a_warning() -> None:
    answer = relay("COUNT", "q", {"count": 7, "hll": "ff" + "00" * 255})
    assert answer.hll == bytes([57]) + bytes(255)
    assert answer.warnings


def test_flags_that_are_no_flags_are_warned_about() -> None:
    answer = relay("COUNT", "q", {"count": 7, "approximate": 1, "limited": None})
    assert (answer.approximate, answer.limited) == (None, None)
    assert answer.warnings == ("approximate: neither true nor false",)


WIRE = (load_cases("hll.json") or {}).get("wire", [])


@pytest.mark.parametrize("case", [pytest.param(c, id=c["name"]) for c in WIRE])
def test_wire_vectors_of_hll_json(case: dict[str, Any]) -> None:
    expect = case["expect"]
    if "error" in expect:
        with pytest.raises(ProtocolError):
            parse_relay_message(case["message"])
        return
    message: Any = parse_relay_message(case["message"])
    if "closed" in expect:
        assert isinstance(message, Closed)
        assert (message.prefix or "other") == expect["closed"]
    elif "notice" in expect:
        assert isinstance(message, Notice)
        assert reasons.means_count_unsupported(message.message)
    else:
        check_answer(message, expect)


def check_answer(message: CountAnswer, expect: dict[str, Any]) -> None:
    found = None if message.hll is None else hll.to_hex(message.hll)
    assert (message.count, found) == (expect["count"], expect.get("hll"))
    assert message.limited == expect.get("limited")
    if "approximate" in expect:
        assert message.approximate == expect["approximate"]
    assert bool(message.warnings) == ("warn" in expect)


NIP77 = (load_cases("negentropy.json") or {}).get("nip77", [])


@pytest.mark.parametrize("case", [pytest.param(c, id=json.dumps(c["frame"])) for c in NIP77])
def test_nip77_frames_of_negentropy_json(case: dict[str, Any]) -> None:
    message, expect = relay(*case["frame"]), case["expect"]
    if isinstance(message, Notice):
        assert message.reason.value == expect["code"]
        unsupported = expect["code"] == "unsupported"
        assert reasons.means_neg_unsupported(message.message) is unsupported
        return
    assert isinstance(message, NegErr)
    assert message.code.value == expect["code"]
    assert message.message == expect["message"]
    assert message.max_records == expect.get("maxRecords")
    assert message.overflow is (expect["code"] == "blocked")


@pytest.mark.parametrize("form", UNREADABLE)
def test_an_unreadable_event_names_its_subscription(form: str) -> None:
    """Who asked must learn that an event is lost, however broken its frame is."""
    event = UNREADABLE[form].format(id=A)
    with pytest.raises(MalformedMessage) as caught:
        parse_relay_message(f' [ "EVENT" , "{SUB}",{event}]')
    assert (caught.value.label, caught.value.ref) == ("EVENT", SUB)
