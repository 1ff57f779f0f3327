"""Lightning addresses, LNURLs and the answers of wallets: what can be used, and nothing else."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nostr_client.codecs import bech32
from nostr_client.codecs.lnurl import address_url, lnurl_url, parse_pay_answer, pay_url
from nostr_client.errors import InvalidIdentifier, ProtocolError

KEY = "ab" * 32
URLS = st.from_regex(
    r"https://[a-z]{1,20}\.example(:[0-9]{1,4})?/[a-z0-9/?=&.-]{0,200}", fullmatch=True
)
OUTSIDE_JSON = st.one_of(st.binary(max_size=200), st.text(max_size=200).map(str.encode))


def lnurl(url: str | bytes) -> str:
    return bech32.encode("lnurl", url if isinstance(url, bytes) else url.encode())


@given(URLS, st.sampled_from(["", "lightning:", "LIGHTNING:"]), st.booleans())
def test_an_lnurl_gives_the_url_inside(url: str, prefix: str, upper: bool) -> None:
    text = lnurl(url)
    assert lnurl_url(prefix + (text.upper() if upper else text)) == url


@given(URLS, st.integers(min_value=0), st.sampled_from("qpzry9x8gf2tvdw0s3jn54khce6mua7l"))
def test_one_wrong_character_is_noticed(url: str, at: int, char: str) -> None:
    text = lnurl(url)
    at = 6 + at % (len(text) - 6)
    broken = text[:at] + char + text[at + 1 :]
    if broken != text:
        with pytest.raises(InvalidIdentifier):
            lnurl_url(broken)


@given(st.one_of(st.text(max_size=300), st.binary(max_size=300).map(lnurl)))
def test_any_text_is_a_url_or_refused(text: str) -> None:
    try:
        found = lnurl_url(text)
    except InvalidIdentifier:
        return
    assert found.startswith("https://") or ".onion" in found


@pytest.mark.parametrize(
    "url",
    [
        "http://wallet.example/x",
        "ftp://wallet.example/x",
        "https://user:secret@wallet.example/x",
        "https:///x",
        "https://wallet.example:99999/x",
        "https://wallet.example/ x",
        "https://wallet.example/\r\nHost: other",
        "http://localhost/x",
        "file:///etc/passwd",
        "https://wallet.example/" + "x" * 2_000,
    ],
)
def test_urls_that_no_wallet_has_are_refused(url: str) -> None:
    with pytest.raises(InvalidIdentifier):
        lnurl_url(lnurl(url))


def test_other_bech32_is_no_lnurl() -> None:
    with pytest.raises(InvalidIdentifier, match="begins with 'npub'"):
        lnurl_url(bech32.encode("npub", bytes(32)))


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("me@wallet.example", "https://wallet.example/.well-known/lnurlp/me"),
        (" Me@Wallet.Example ", "https://wallet.example/.well-known/lnurlp/me"),
        ("a+b.c_d-e@w.example:8443", "https://w.example:8443/.well-known/lnurlp/a+b.c_d-e"),
        ("me@abc.onion", "http://abc.onion/.well-known/lnurlp/me"),
    ],
)
def test_an_address_gives_its_url(address: str, url: str) -> None:
    assert address_url(address) == url


@pytest.mark.parametrize(
    "address",
    ["me", "@wallet.example", "me@", "me@a/b", "../x@w.example", "a b@w.example", "m@[::1]"],
)
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(InvalidIdentifier):
        address_url(address)


def test_this_machine_is_asked_by_http_only_where_that_is_allowed() -> None:
    assert address_url("me@localhost:1").startswith("https://")
    assert address_url("me@localhost:1", local=True).startswith("http://")
    assert address_url("me@wallet.example", local=True).startswith("https://")


@pytest.mark.parametrize(
    ("profile", "url"),
    [
        ({"lud16": "me@w.example"}, "https://w.example/.well-known/lnurlp/me"),
        ({"lud06": lnurl("https://w.example/p")}, "https://w.example/p"),
        (
            {"lud16": "me@w.example", "lud06": lnurl("https://o.example/p")},
            "https://w.example/.well-known/lnurlp/me",
        ),
        ({"lud16": "", "lud06": lnurl("https://w.example/p")}, "https://w.example/p"),
        ({"lud16": 7, "lud06": None}, None),
        ({}, None),
        ([], None),
    ],
)
def test_a_profile_names_a_wallet_or_none(profile: Any, url: str | None) -> None:
    assert pay_url(json.dumps(profile)) == url


@given(st.text(max_size=100))
def test_a_profile_that_is_no_json_names_none(text: str) -> None:
    assert pay_url("{" * 100_000 + text) is None


def answer(**fields: Any) -> bytes:
    made = {"tag": "payRequest", "allowsNostr": True, "nostrPubkey": KEY} | fields
    return json.dumps(made).encode()


def test_an_answer_names_the_key() -> None:
    assert parse_pay_answer(answer()) == KEY


@pytest.mark.parametrize("allows", [False, None, "true", 1])
def test_a_wallet_that_does_not_allow_zaps_has_no_key(allows: Any) -> None:
    assert parse_pay_answer(answer(allowsNostr=allows)) is None


@pytest.mark.parametrize("key", [None, "", KEY.upper(), KEY[:-1], "npub1x", 7, [KEY]])
def test_a_bad_key_is_no_answer(key: Any) -> None:
    with pytest.raises(ProtocolError, match="key"):
        parse_pay_answer(answer(nostrPubkey=key))


def test_the_wallets_own_error_is_told() -> None:
    with pytest.raises(ProtocolError, match="no such user"):
        parse_pay_answer(b'{"status": "ERROR", "reason": "no such user"}')


@pytest.mark.parametrize(
    "raw", [b"", b"[]", b'"x"', b"\xff", b"[" * 100_000, answer(tag="withdraw")]
)
def test_other_documents_are_no_answers(raw: bytes) -> None:
    with pytest.raises(ProtocolError):
        parse_pay_answer(raw)


@given(OUTSIDE_JSON)
def test_any_bytes_are_an_answer_or_refused(raw: bytes) -> None:
    try:
        assert parse_pay_answer(raw) is None
    except ProtocolError:
        return
