"""Values as an event: round trips, versions, encryption, and contents that are none."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from nostr_client.codecs.keys import KeySigner, verify
from nostr_client.counters import lineage, nostr
from nostr_client.counters.lineage import StreamHead
from nostr_client.counters.sealing import MOST_READERS, PART, Sealer, is_sealed
from nostr_client.counters.sqlite.remotes import Values
from nostr_client.errors import InvalidInput, NostrTallyError

if TYPE_CHECKING:
    from nostr_client.codecs.event import Event

WRITER, READER, STRANGER = (KeySigner(bytes([n]) * 32) for n in (1, 2, 3))
OWN = lineage.node("app", "s" * 32)


def signed(content: str, now: float = 1_700_000_000, last: int = -1, stream: str = "app") -> Event:
    return WRITER.sign_now(nostr.template(stream, content, nostr.next_time(now, last))).event


def values(**found: str) -> Values:
    return Values(StreamHead("s" * 32, "e" * 16, 1, 7, (("run", 3),)), ((OWN,),), found)


@given(
    st.dictionaries(
        st.from_regex(r"[a-z]{1,8}(\.[a-z0-9é]{1,8}){0,3}", fullmatch=True),
        st.integers(-(10**60), 10**60).map(str),
        max_size=50,
    ),
    st.integers(0, 2**53),
)
@settings(max_examples=60)
def test_what_is_rendered_is_read(found: dict[str, str], seq: int) -> None:
    head = StreamHead("s" * 32, "e" * 16, 1, seq, (("one", 0), ("two", 5)))
    event = verify(signed(nostr.render(Values(head, ((OWN,), (OWN, "far@store")), found)))).event
    if not seq and found:
        with pytest.raises(InvalidInput):
            nostr.parse(event.content, "app", event)
        return
    batch = nostr.parse(event.content, "app", event)
    assert {one.subject: one.value for one in batch.arrivals} == found
    assert batch.head == head
    assert batch.ways == ((OWN,), (OWN, "far@store"))
    assert batch.version == (event.created_at, event.id)
    assert batch.whole


def test_a_new_version_is_later_whatever_the_clock_says() -> None:
    assert signed("", now=100.9, last=-1).created_at == 100
    assert signed("", now=100.9, last=100).created_at == 101
    assert signed("", now=50, last=100).created_at == 101
    assert signed("", now=500, last=100).created_at == 500
    assert signed("").tag_values("d").__next__() == "app"


def test_the_newest_version_counts_and_of_one_second_the_lower_id() -> None:
    asked = nostr.address(WRITER.pubkey, "app")
    old = signed("old", now=100)
    pair = sorted((signed("one", now=200), signed("two", now=200)), key=lambda event: event.id)
    foreign = STRANGER.sign_now(nostr.template("app", "x", 900)).event
    other = signed("x", now=900, stream="other")
    ahead = signed("x", now=100_000)
    events = [old, pair[1], foreign, pair[0], other, ahead]
    assert nostr.newest(events, asked, 1_000) == pair[0]
    assert nostr.newest(events, asked, 100_000 - nostr.AHEAD_S) == ahead
    assert nostr.newest([foreign, other], asked, 1_000) is None


GOOD: dict[str, Any] = {"v": 1, "store": "s", "epoch": "e", "seq": 3, "values": {"a": "1"}}


@pytest.mark.parametrize(
    "changes",
    [
        {"v": 2},
        {"store": ""},
        {"store": "s" * 65},
        {"epoch": 5},
        {"seq": -1},
        {"seq": 2**60},
        {"seq": 1.5},
        {"values": []},
        {"values": {"a": 1}},
        {"values": {"a": None}},
        {"runs": [["r"]]},
        {"runs": [["r", 1]] * 33},
        {"lineage": [["x@y"]]},
        {"lineage": [["app@s", "x" * 1000]]},
        {"lineage": 7},
        {"seq": 0},
    ],
)
def test_a_content_that_is_none_is_refused(changes: dict[str, Any]) -> None:
    event = signed("")
    assert nostr.parse(json.dumps(GOOD), "app", event).head.last_seq == 3
    with pytest.raises(InvalidInput):
        nostr.parse(json.dumps({**GOOD, **changes}), "app", event)


@pytest.mark.parametrize(
    "content", ["", "{}", "[1]", "null", "[" * 100_000, '{"v":1', "\x00", "x" * 1_000_001]
)
def test_any_text_is_refused_or_read(content: str) -> None:
    with pytest.raises(InvalidInput):
        nostr.parse(content, "app", signed(""))


@given(st.text(max_size=300))
@settings(max_examples=100)
def test_no_content_crashes(content: str) -> None:
    try:
        nostr.parse(content, "app", signed(""))
    except InvalidInput:
        return


def test_only_the_readers_can_read() -> None:
    text = nostr.render(values(**{f"app.n{n}": str(n) for n in range(3_000)}))
    assert len(text) > 2 * PART
    content = Sealer(WRITER).seal(text, [READER.pubkey, WRITER.pubkey])
    assert is_sealed(content)
    assert not is_sealed(text)
    assert "app.n1" not in content
    for signer in (READER, WRITER):
        assert Sealer(signer).open(content, WRITER.pubkey) == text
    with pytest.raises(InvalidInput, match="not to this agent's key"):
        Sealer(STRANGER).open(content, WRITER.pubkey)


def test_what_somebody_else_sealed_does_not_pass_as_the_writers() -> None:
    forged = Sealer(STRANGER).seal("lies", [READER.pubkey])
    with pytest.raises(InvalidInput, match="cannot decrypt"):
        Sealer(READER).open(forged, WRITER.pubkey)


@pytest.mark.parametrize("spoil", ["key", "part", "swap", "parts", "none"])
def test_a_spoilt_message_is_refused(spoil: str) -> None:
    content = Sealer(WRITER).seal("x" * (PART + 1), [READER.pubkey])
    found = json.loads(content)
    match spoil:
        case "key":
            found["keys"][READER.pubkey] = found["keys"][READER.pubkey][:-8] + "AAAAAAA="
        case "part":
            found["parts"][0] = "no base64"
        case "swap":
            found["keys"][READER.pubkey] = found["parts"][0]
        case "parts":
            found["parts"] *= 100
        case "none":
            found["keys"] = {READER.pubkey: 5}
    with pytest.raises(NostrTallyError):
        Sealer(READER).open(json.dumps(found), WRITER.pubkey)


def test_readers_are_bounded_and_must_be_keys() -> None:
    with pytest.raises(InvalidInput, match="more than"):
        Sealer(WRITER).seal("x", [READER.pubkey] * (MOST_READERS + 1))
    with pytest.raises(InvalidInput, match="cannot encrypt"):
        Sealer(WRITER).seal("x", ["00" * 32])


@pytest.mark.parametrize("content", ["", "{", "[]", '{"keys":5}', "[" * 100_000, '{"keyz":{}}'])
def test_other_contents_are_not_sealed_or_refused(content: str) -> None:
    if is_sealed(content):
        with pytest.raises(InvalidInput):
            Sealer(READER).open(content, WRITER.pubkey)
