"""Events, identifiers and filters against nostr-sdk: each side reads what the other wrote."""

from __future__ import annotations

import json
from typing import Any

import nostr_sdk as sdk
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nostr_client.codecs import nip19
from nostr_client.codecs.event import parse_event
from nostr_client.codecs.filters import Filter
from nostr_client.codecs.keys import KeySigner, verify
from nostr_client.errors import InvalidEvent
from tests.conftest import SHARED
from tests.unit.strategies import HEX32, KINDS, TAGS, TEXT, signed

pytestmark = pytest.mark.interop

TIMES = st.integers(0, 2**53)
RELAYS = st.sampled_from([(), ("wss://x.example",), ("wss://a.example", "ws://b.example:7777")])


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), TAGS, TEXT, TIMES, KINDS)
def test_nostr_sdk_verifies_what_we_sign(
    seed: int, tags: object, text: str, at: int, kind: int
) -> None:
    event = signed(seed, tags=tags, content=text, created_at=at, kind=kind).event
    theirs = sdk.Event.from_json(event.to_json())
    assert theirs.verify()
    assert theirs.id().to_hex() == event.id
    assert parse_event(theirs.as_json()) == event


@settings(max_examples=60, deadline=None)
@given(TEXT, KINDS)
def test_we_verify_what_nostr_sdk_signs(text: str, kind: int) -> None:
    made = sdk.EventBuilder(sdk.Kind(kind), text).sign_with_keys(sdk.Keys.generate())
    event = verify(parse_event(made.as_json())).event
    assert (event.id, event.content) == (made.id().to_hex(), text)


@settings(deadline=None)
@given(st.integers(1, 2**64))
def test_the_same_key_from_the_same_nsec(secret: int) -> None:
    ours = KeySigner(secret.to_bytes(32, "big"))
    theirs = sdk.Keys.parse(ours.nsec())
    assert theirs.public_key().to_hex() == ours.pubkey
    assert theirs.public_key().to_bech32() == nip19.PublicKey(ours.pubkey).encode()
    assert theirs.secret_key().to_bech32() == ours.nsec()


@settings(max_examples=60, deadline=None)
@given(HEX32, RELAYS, st.integers(1, 2**64), st.none() | KINDS)
def test_nevent(event_id: str, relays: tuple[str, ...], secret: int, kind: int | None) -> None:
    author = KeySigner(secret.to_bytes(32, "big")).pubkey
    ours = nip19.EventPointer(event_id, relays, author, kind)
    theirs = sdk.Nip19Event.from_bech32(ours.encode())
    assert theirs.event_id().to_hex() == event_id
    assert theirs.author().to_hex() == author
    assert [str(relay) for relay in theirs.relays()] == list(relays)
    assert (theirs.kind() and theirs.kind().as_u16()) == kind
    assert nip19.decode(theirs.to_bech32()) == ours
    assert nip19.decode(theirs.to_nostr_uri()) == ours


@settings(max_examples=60, deadline=None)
@given(st.integers(30_000, 39_999), st.integers(1, 2**64), TEXT, RELAYS)
def test_naddr_and_nprofile(kind: int, secret: int, d: str, relays: tuple[str, ...]) -> None:
    pubkey = KeySigner(secret.to_bytes(32, "big")).pubkey
    address = nip19.Address(kind, pubkey, d, relays)
    theirs = sdk.Nip19Coordinate.from_bech32(address.encode())
    assert theirs.coordinate().identifier() == d
    assert nip19.decode(theirs.to_bech32()) == address
    profile = nip19.Profile(pubkey, relays)
    assert nip19.decode(sdk.Nip19Profile.from_bech32(profile.encode()).to_bech32()) == profile


def lines() -> list[bytes]:
    path = SHARED / "data" / "events.jsonl"
    return path.read_bytes().split(b"\n")[:-1:37] if path.exists() else []


FILTERS: list[dict[str, Any]] = [
    {},
    {"kinds": [1, 7]},
    {"kinds": [3], "since": 1_650_000_000},
    {"until": 1_700_000_000, "limit": 5},
    {"#t": ["nostr", "bitcoin"]},
    {"#p": ["32e1827635450ebb3c5a7d12c1f8e7b2b514439ac10a67eef3d9fd9c5c68e245"]},
    {"authors": ["79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798"]},
]


@pytest.mark.parametrize("fields", FILTERS, ids=str)
def test_filters_match_the_same_events(fields: dict[str, Any]) -> None:
    ours, theirs = Filter.from_json(fields), sdk.Filter.from_json(json.dumps(fields))
    # It sorts the values of an attribute; the keys for caching are equal all the same.
    assert Filter.from_json(theirs.as_json()).cache_key() == ours.cache_key()
    for line in lines():
        assert ours.matches(parse_event(line)) is theirs.match_event(
            sdk.Event.from_json(line.decode())
        )


@pytest.mark.parametrize("field", ["id", "pubkey", "content", "sig"])
def test_both_refuse_the_same_forgery(field: str) -> None:
    fields = json.loads(signed(1, content="x").event.to_json())
    other = json.loads(signed(2, content="y").event.to_json())
    text = json.dumps(fields | {field: other[field]})
    assert not sdk.Event.from_json(text).verify()
    with pytest.raises(InvalidEvent):
        verify(parse_event(text))
