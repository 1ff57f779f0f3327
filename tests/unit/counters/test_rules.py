"""The rules of ADR-49 as functions."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nostr_client.counters import rules
from nostr_client.errors import CounterError, InvalidInput


@pytest.mark.parametrize("text", ["+1", "-1", "0", "007", "  +5", "9" * 65_000])
def test_increments(text: str) -> None:
    found = rules.increment(((rules.INCR, text),), b"", counter=True)
    assert found == text.lstrip(" ")


@pytest.mark.parametrize("text", ["abc", "1e3", "1_000", "1.5", "+", "+-1", "１", "1 ", "\t1"])
def test_what_is_no_increment(text: str) -> None:
    with pytest.raises(CounterError) as caught:
        rules.increment(((rules.INCR, text),), b"", counter=True)
    assert caught.value.code == 10171


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b'{"val":"5"}', "5"),
        (b' {"val" : "-0012"} ', "-12"),
        (b'{"VAL":"5"}', "5"),
        (b'{"val":"5","VAL":"6"}', "6"),
        (b'{"VAL":"6","val":"5","VAL":"7"}', "7"),
        (b'{"val":"5","val":null}', "5"),
        (b'{"val":""}', "0"),
        (b"{}", "0"),
        (b"null", "0"),
        (b'{"x":' + b"9" * 5_000 + b',"val":"1"}', "1"),
    ],
)
def test_bodies(body: bytes, value: str) -> None:
    assert rules.read_body(body) == value


@pytest.mark.parametrize(
    "body",
    [
        b"", b"hello", b"[1]", b'"5"', b"5", b"true", b'{"val":5}', b'{"val":"12x"}',
        b'{"val":" 5"}', b'{"val":"1_0"}', b'{"val":["5"]}', b'{"val":"5"}x', b'{"val":NaN}',
        b"[" * 100_000, b'{"a":' * 100_000, b'{"val":5,"val":"6"}', b'{"val":"\xff"}',
        '{"val":"５"}'.encode(),
    ],
)  # fmt: skip
def test_broken_bodies(body: bytes) -> None:
    with pytest.raises(CounterError) as caught:
        rules.read_body(body)
    assert caught.value.code == 10172


@given(st.binary(max_size=60))
def test_any_bytes_are_a_value_or_broken(body: bytes) -> None:
    with contextlib.suppress(CounterError):
        value = rules.read_body(body)
        assert rules.read_body(rules.render_body(value).encode()) == value


MAPS = st.dictionaries(
    st.text(max_size=5),
    st.dictionaries(st.text(max_size=5), st.integers().map(str), max_size=3),
    max_size=3,
)


@given(MAPS)
def test_source_maps_come_back_sorted_and_compact(sources: rules.SourceMap) -> None:
    text = rules.render_sources(sources)
    assert rules.parse_sources(text) == sources
    assert text == rules.render_sources(dict(reversed(list(sources.items()))))


@pytest.mark.parametrize(
    "text", ["", "not json", "[]", '{"a":1}', '{"a":{"b":1}}', '{"a":{"b":"x"}}']
)
def test_what_is_no_source_map(text: str) -> None:
    with pytest.raises(CounterError) as caught:
        rules.parse_sources(text)
    assert caught.value.code == 10172


@given(st.integers(), st.integers())
def test_the_delta_rule(seen: int, value: int) -> None:
    assert rules.delta(None, str(value)) == str(value)
    assert rules.delta(str(seen), str(value)) == str(value - seen)


def test_a_header_is_the_first_of_its_exact_name() -> None:
    headers = (("nats-incr", "9"), ("Nats-Incr", "  1"), ("Nats-Incr", "2"))
    assert rules.header(headers, "Nats-Incr") == "1"
    assert rules.header(headers, "Nats-Msg-Id") is None


def test_what_travels_to_an_aggregate() -> None:
    headers = (("X", "1"), ("Nats-Batch-Id", "b"), ("Nats-Expected-Stream", "S"),
               ("Nats-Stream-Source", "A 1 > > x"), ("Nats-Msg-Id", "m"))  # fmt: skip
    assert rules.travelling(headers) == (("X", "1"), ("Nats-Msg-Id", "m"))


@pytest.mark.parametrize(
    "pair",
    [("", "v"), ("a b", "v"), ("a:", "v"), ("n", "v\r\nNats-Incr: 5"), ("n", "\0"), ("ä", "v")],
)
def test_headers_that_cannot_be_sent(pair: tuple[str, str]) -> None:
    with pytest.raises(InvalidInput):
        rules.check_syntax((pair,))
