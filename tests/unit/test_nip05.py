"""Names at a domain (NIP-05): how they are read, and whom an answer names."""

from __future__ import annotations

import json

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from nostr_client.codecs.nip05 import NamedPerson, is_name, parse_names, read_name
from nostr_client.errors import InvalidIdentifier, NetworkError, ProtocolError
from nostr_client.network.pool import RelayPool
from nostr_client.network.profiles import key_for_others
from tests.worlds import TARGET

BOB = NamedPerson("bob", "example.com")


@pytest.mark.parametrize(
    ("text", "url"),
    [
        (" Bob@Example.COM ", "https://example.com/.well-known/nostr.json?name=bob"),
        ("_@sub.example.com:8443", "https://sub.example.com:8443/.well-known/nostr.json?name=_"),
        ("a.b-c@abc.onion", "http://abc.onion/.well-known/nostr.json?name=a.b-c"),
    ],
)
def test_a_name_and_where_its_domain_answers(text: str, url: str) -> None:
    assert read_name(text).url == url


@pytest.mark.parametrize(
    "text",
    ["", "@", "bob", "@example.com", "bob@", "bob@localhost", "a b@example.com",
     "bob@example.com/x", "bob@example.com?x", "bob@example.com:x",
     "bob&x=1@example.com", "bob@[::1]", "bob@a..b",
     "böb@example.com", "a@b@example.com", f"bob@{'a.' * 200}com"],
)  # fmt: skip
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(InvalidIdentifier, match="not a name as bob@example"):
        read_name(text)


@pytest.mark.parametrize(
    ("text", "meant"),
    [("Bob@example.com", True), ("bob@localhost", True), ("@npub1abc", False),
     ("npub1abc", False), ("nostr:npub1abc@x", False),
     ("https://a.example/bob@b.example", False), ("(@npub1abc", False)],
)  # fmt: skip
def test_what_is_meant_as_a_name(text: str, meant: bool) -> None:
    assert is_name(text) is meant


def test_the_key_of_an_answer() -> None:
    raw = json.dumps({"names": {"bob": TARGET, "_": "x"}, "relays": {TARGET: ["wss://r"]}})
    assert parse_names(raw, BOB) == TARGET
    with pytest.raises(InvalidIdentifier, match=r"example\.com does not know the name eve"):
        parse_names(raw, NamedPerson("eve", "example.com"))


@pytest.mark.parametrize(
    "raw", ["", "[]", "{}", '{"names":[]}', '{"names":{"bob":7}}', '{"names":{"bob":"npub1x"}}']
)
def test_an_answer_that_is_not_of_nip_05(raw: str) -> None:
    with pytest.raises(ProtocolError):
        parse_names(raw, BOB)


@given(st.binary(max_size=200))
def test_any_answer_is_an_error_of_ours_or_a_key(raw: bytes) -> None:
    with pytest.raises((ProtocolError, InvalidIdentifier)):
        parse_names(raw, BOB)


async def test_a_name_does_not_lead_into_this_machine_or_its_network() -> None:
    """By the address as written; by a name that leads there, the sessions of strangers refuse."""
    asked: list[str] = []

    async def answer(request: web.BaseRequest) -> web.Response:
        asked.append(request.path)
        return web.json_response({"names": {"bob": TARGET}})

    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    port = runner.addresses[0][1]
    async with RelayPool() as pool:
        for host in ("127.0.0.1", "10.0.0.1", "169.254.169.254"):
            with pytest.raises(NetworkError):
                await key_for_others(
                    NamedPerson("bob", f"{host}:{port}"), pool.transport(stranger=True)
                )
    await runner.cleanup()
    assert asked == []
