"""Frames that a hostile or broken client might send, as hypothesis strategies."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from tests.agent.relay.kit import auth_event, frame, signed

if TYPE_CHECKING:
    from nostr_client.codecs.event import Event

LABELS = ["EVENT", "REQ", "CLOSE", "COUNT", "AUTH", "NEG-OPEN", "NEG-MSG", "NEG-CLOSE"]
IDS = st.sampled_from(["a", "b", "x" * 64, "x" * 65, "", "\x00", "é" * 64, '"\\', "ab" * 32])
HEX = st.sampled_from(["ab" * 32, "AB" * 32, "0" * 64, "f" * 64, "zz" * 32, "ab", ""])
NUMBERS = st.sampled_from(
    [0, 1, -1, 4, 5, 7, 62, 1059, 20_001, 65_535, 65_536, 2**31, 2**53, 2**63 - 1, 2**63, 10**30]
)
ODD = st.one_of(
    st.none(),
    st.booleans(),
    NUMBERS,
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=8),
    st.sampled_from(["\x00", "\ud800", "\u2028", "\x7f", "ALL_RELAYS", "-"]),
)
JSON = st.recursive(
    ODD, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner)
)
MINE = [
    signed(1),
    signed(2, 4, [["p", signed(1).pubkey]]),
    signed(1, 5, [["e", signed(1).id], ["a", "30023::"]]),
    signed(3, 30_023, [["d", "a:b"], ["-"]]),
    signed(3, 20_001),
    signed(1, 1, [["expiration", "1"]]),
    signed(2, 3, [["p", "ab" * 32]] * 50),
    signed(1, 1, [["e", "note1"], ["e"], ["", ""]]),
    signed(1, 1, content='{"kinds":[1],"limit":5}'),
    signed(1, 1, content='[{"kinds":"x"}]'),
    auth_event(1),
]
FILTER_VALUES = {
    "ids": st.lists(HEX | st.sampled_from([e.id for e in MINE]), max_size=3),
    "authors": st.lists(HEX, max_size=3),
    "kinds": st.lists(NUMBERS, max_size=3),
    "#e": st.lists(HEX, max_size=2),
    "#p": st.lists(HEX, max_size=2),
    "#t": st.lists(st.text(max_size=3), max_size=2),
    "since": NUMBERS,
    "until": NUMBERS,
    "limit": NUMBERS,
    "search": st.text(max_size=3),
    "&e": JSON,
    "#long": JSON,
}
FILTERS = st.fixed_dictionaries(
    {}, optional={key: values | ODD for key, values in FILTER_VALUES.items()}
)
SANE_FILTERS = st.fixed_dictionaries(
    {},
    optional={
        "kinds": st.lists(st.sampled_from([1, 3, 4, 5, 7, 1059]), max_size=2),
        "#p": st.lists(st.just("ab" * 32), max_size=1),
        "limit": st.integers(0, 10),
        "ids": st.lists(st.sampled_from([e.id for e in MINE]), max_size=3),
    },
)
LIST_OF_2_TO_THE_60 = "61000002" + "90" + "80" * 7 + "00"
"""13 bytes of negentropy that announce 2^60 ids of 32 bytes."""

NEG = st.sampled_from(
    [
        "61",
        "6100000200",
        "61000001" + "00" * 16,
        "62",
        "60",
        "",
        "6",
        "zz",
        "6100",
        "61000003ff",
        LIST_OF_2_TO_THE_60,
        "61" + "0000" * 40,
        "61ffffffffffffffffffff01",
        "6100ff",
    ]
) | st.binary(max_size=60).map(lambda b: "61" + b.hex())


def _as_dict(event: Event) -> dict[str, Any]:
    return json.loads(event.to_json())


@st.composite
def _broken_event(draw: st.DrawFn) -> dict[str, Any]:
    """A signed event with one field changed, taken out, or added."""
    event = _as_dict(draw(st.sampled_from(MINE)))
    key = draw(st.sampled_from([*event, "extra"]))
    if draw(st.booleans()):
        event.pop(key, None)
    else:
        event[key] = draw(JSON)
    return event


EVENTS = st.sampled_from(MINE).map(_as_dict) | _broken_event()
SANE = st.one_of(
    st.tuples(st.just("EVENT"), EVENTS),
    st.tuples(st.just("AUTH"), EVENTS),
    st.tuples(st.just("REQ"), IDS, SANE_FILTERS),
    st.tuples(st.just("REQ"), IDS, FILTERS, FILTERS),
    st.tuples(st.just("COUNT"), IDS, SANE_FILTERS, SANE_FILTERS),
    st.tuples(st.just("COUNT"), IDS, FILTERS),
    st.tuples(st.just("CLOSE"), IDS),
    st.tuples(st.just("NEG-OPEN"), IDS, SANE_FILTERS | st.sampled_from([e.id for e in MINE]), NEG),
    st.tuples(st.just("NEG-OPEN"), IDS, FILTERS | HEX | JSON, NEG),
    st.tuples(st.just("NEG-MSG"), IDS, NEG),
    st.tuples(st.just("NEG-CLOSE"), IDS),
).map(list)
ANY = st.lists(JSON, max_size=5) | st.builds(
    lambda label, rest: [label, *rest], st.sampled_from(LABELS), st.lists(JSON, max_size=4)
)


@st.composite
def _mutated(draw: st.DrawFn) -> str:
    """The text of a frame, cut, doubled, or with some characters exchanged."""
    text = frame(*draw(SANE))
    at = draw(st.integers(0, len(text)))
    upto = draw(st.integers(at, len(text)))
    junk = draw(st.sampled_from(["", "\x00", "[", "]", '"', "\\u", "1e999", "[" * 3_000, "\ufffd"]))
    return text[:at] + junk + text[upto:]


FRAMES = st.one_of(
    SANE.map(lambda parts: frame(*parts)),
    ANY.map(lambda parts: json.dumps(parts)),
    _mutated(),
    st.text(max_size=40),
    st.binary(max_size=10),
    st.sampled_from(["[" * 100_000, '{"a":' * 50_000, "9" * 10_000, "\u0000" * 1_000]),
)
