"""Who may come in: hosts, origins, tokens, and addresses to listen on."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.relay.guard import admit, bearer, check_listen, host_name, is_loopback
from agent.relay.options import RelayAccess
from nostr_client.errors import InvalidInput

TLS = {"tls_cert": Path("c.pem"), "tls_key": Path("k.pem")}
MINE = RelayAccess(origins=frozenset({"https://my.example"}))


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST", "127.0.0.1", "127.3.2.1", "::1", "[::1]"]
)
def test_loopback(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "192.168.1.2", "example.com", "localhost.evil", ""]
)
def test_not_loopback(host: str) -> None:
    assert not is_loopback(host)


@pytest.mark.parametrize(
    ("header", "name"),
    [("localhost:4869", "localhost"), ("[::1]:4869", "::1"), ("A.example", "a.example"),
     ("", ""), ("[::1", ""), ("a@b:1", "b")],
)  # fmt: skip
def test_host_name(header: str, name: str) -> None:
    assert host_name(header) == name


@pytest.mark.parametrize(
    ("host", "origin", "access", "may_enter", "may_write"),
    [
        ("localhost:4869", None, RelayAccess(), True, True),
        ("[::1]:4869", None, RelayAccess(), True, True),
        ("rebound.example:4869", None, RelayAccess(), False, None),
        ("", None, RelayAccess(), False, None),
        ("192.168.1.5:4869", None, RelayAccess(), True, True),
        ("[2001:db8::5]", None, RelayAccess(), True, True),
        ("192.168.1.5", "http://192.168.1.5", RelayAccess(), False, None),
        ("192.168.1.5.rebound.example", None, RelayAccess(), False, None),
        ("relay.example", None, RelayAccess(hosts=frozenset({"relay.example"})), True, True),
        ("localhost", "https://evil.example", RelayAccess(), False, None),
        ("localhost", "null", RelayAccess(), False, None),
        ("localhost", "https://evil.example", RelayAccess(foreign_origins="read"), True, False),
        ("localhost", "https://My.example", MINE, True, True),
        ("localhost", "https://any.example", RelayAccess(origins=frozenset({"*"})), True, True),
        ("localhost", "http://my.example", MINE, False, None),
    ],
)  # fmt: skip
def test_host_and_origin(
    host: str, origin: str | None, access: RelayAccess, may_enter: bool, may_write: bool | None
) -> None:
    entry = admit(host, origin, None, access, "127.0.0.1")
    assert (not entry.refusal) == may_enter
    if may_enter:
        assert entry.write == may_write
        assert bool(entry.read_only_reason) == (not may_write)


def test_the_name_listened_on_is_known_in_any_case() -> None:
    assert not admit("relay.example:4869", None, None, RelayAccess(), "Relay.Example").refusal


def test_token_is_for_writing() -> None:
    access = RelayAccess(token="s3cret")
    assert admit("localhost", None, "s3cret", access, "").write
    for wrong in (None, "", "s3cre", "S3CRET", "é", "\udcff"):
        entry = admit("localhost", None, wrong, access, "")
        assert not entry.refusal
        assert entry.read_only_reason == "restricted: writing here needs the token"


@pytest.mark.parametrize(
    ("authorization", "query", "token"),
    [("Bearer abc", None, "abc"), ("bearer  abc ", "q", "abc"), ("Basic abc", "q", "q"),
     (None, "q", "q"), ("Bearer ", None, None), (None, None, None)],
)  # fmt: skip
def test_bearer(authorization: str | None, query: str | None, token: str | None) -> None:
    assert bearer(authorization, query) == token


def test_loopback_needs_nothing() -> None:
    check_listen("127.0.0.1", RelayAccess(), has_policy=False)


def test_elsewhere_needs_tls_and_a_token_or_a_policy() -> None:
    for access, policy in [
        (RelayAccess(), True),
        (RelayAccess(token="t"), False),
        (RelayAccess(**TLS), False),
    ]:
        with pytest.raises(InvalidInput):
            check_listen("0.0.0.0", access, has_policy=policy)
    check_listen("0.0.0.0", RelayAccess(token="t", **TLS), has_policy=False)
    check_listen("0.0.0.0", RelayAccess(**TLS), has_policy=True)


def test_half_of_tls_is_refused() -> None:
    with pytest.raises(InvalidInput):
        check_listen("127.0.0.1", RelayAccess(tls_cert=Path("c.pem")), has_policy=False)
