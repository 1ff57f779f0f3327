"""The URL of a proxy, the variables that name one, and which URLs go through it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nostr_client.codecs.proxies import Proxies, choose_proxies, parse_proxy
from nostr_client.errors import InvalidInput, NetworkError
from nostr_client.network.access.routes import objection, route
from nostr_client.network.outbox import RelayChoice
from nostr_client.options import ConnectionOptions

ALL = {"ALL_PROXY": "socks5h://tor:9050"}
SECRET = "s3cr3t"


@pytest.mark.parametrize(
    ("text", "socks", "tls", "place"),
    [
        ("socks5h://127.0.0.1:9050", True, False, "127.0.0.1:9050"),
        ("socks5://Tor", True, False, "tor:1080"),
        ("socks://tor:1/", True, False, "tor:1"),
        ("http://proxy", False, False, "proxy:80"),
        ("https://proxy", False, True, "proxy:443"),
        ("proxy:3128", False, False, "proxy:3128"),
        (" http://[::1]:8080 ", False, False, "[::1]:8080"),
    ],
)
def test_a_proxy_is_read(text: str, socks: bool, tls: bool, place: str) -> None:
    found = parse_proxy(text)
    assert (found.socks, found.tls, found.place) == (socks, tls, place)


@pytest.mark.parametrize(
    "text",
    [
        "", "://", "http://", "ftp://h", "socks4://h", "http://h:0", "http://h:99999",
        "socks5h://a.onion:9050", "http://u:p@A.ONION.", "a。onion",
        "http://h/path", "http://h?q", "http://a b", "http://h\nx", "http://[::1",
        f"http://:{SECRET}@h", f"http://a%3Ab:{SECRET}@h", f"socks5h://ü:{SECRET}@h",
        "socks5h://user@h", f"http://u:{SECRET}{'x' * 256}@h", f"{SECRET}://h",
    ],
)  # fmt: skip
def test_what_is_no_proxy_is_refused_without_its_secret(text: str) -> None:
    with pytest.raises(InvalidInput) as wrong:
        parse_proxy(text)
    assert SECRET not in str(wrong.value)
    with pytest.raises(InvalidInput):
        ConnectionOptions(proxy=text)


@given(st.text())
def test_any_text_is_a_proxy_or_invalid_input(text: str) -> None:
    try:
        found = parse_proxy(text)
    except InvalidInput:
        return
    assert found.host
    assert 0 < found.port < 65_536


def test_user_and_password_are_read_and_never_shown() -> None:
    text = f"socks5h://alice:{SECRET}%40@tor"
    found = parse_proxy(text)
    assert (found.user, found.password) == ("alice", f"{SECRET}@")
    options = ConnectionOptions(proxy=text)
    shown = (found, options, options.proxies(), RelayChoice(connection=options), found.place)
    assert not [one for one in shown if SECRET in repr(one) or "alice" in str(one)]


def place(proxies: Proxies, url: str) -> str:
    found = proxies.for_url(url)
    return found.place if found else ""


def test_the_environment_names_a_proxy_by_scheme() -> None:
    environ = {
        "HTTPS_PROXY": "http://tls",
        "http_proxy": "http://plain",
        "HTTP_PROXY": "http://shadowed",
        **ALL,
    }
    proxies = choose_proxies(None, None, environ)
    assert place(proxies, "wss://a.example") == place(proxies, "https://a.example") == "tls:80"
    assert place(proxies, "ws://a.example") == place(proxies, "http://a.example") == "plain:80"
    assert place(proxies, "nats://a.example") == "tor:9050"
    assert place(choose_proxies(None, None, ALL), "wss://a.example") == "tor:9050"
    assert choose_proxies(None, None, {}).for_url("wss://a.example") is None


def test_a_cgi_client_names_no_proxy() -> None:
    environ = {"REQUEST_METHOD": "GET", "HTTP_PROXY": "http://evil"}
    assert choose_proxies(None, None, environ).for_url("ws://a.example") is None


def test_an_option_wins_and_none_means_none() -> None:
    assert place(choose_proxies("http://mine", None, ALL), "wss://a.example") == "mine:80"
    assert choose_proxies("none", None, ALL).for_url("wss://a.example") is None


@pytest.mark.parametrize("host", ["localhost", "a.localhost", "127.0.0.1", "127.9.9.9", "[::1]"])
def test_the_environment_spares_this_machine_and_an_option_does_not(host: str) -> None:
    assert choose_proxies(None, None, ALL).for_url(f"ws://{host}:1") is None
    assert choose_proxies("http://mine", None, {}).for_url(f"ws://{host}:1") is not None


@pytest.mark.parametrize(
    ("listed", "url", "direct"),
    [
        ("*", "wss://a.example", True),
        ("a.example", "wss://a.example", True),
        ("a.example", "wss://b.a.example", True),
        (".a.example", "wss://b.a.example", True),
        ("*.a.example", "wss://b.a.example", True),
        ("a.example", "wss://aa.example", False),
        ("A.Example", "wss://a.example.", True),
        ("a.example:443", "wss://a.example", True),
        ("a.example:443", "ws://a.example", False),
        ("a.example:7777", "ws://a.example:7777", True),
        ("x, 10.0.0.0/8", "ws://10.1.2.3", True),
        ("10.0.0.0/8", "ws://11.1.2.3", False),
        ("fd00::/8", "ws://[fd00::1]:80", True),
        ("[fd00::1]:80", "ws://[fd00::1]", True),
        ("[fd00::1]:81", "ws://[fd00::1]", False),
        ("x  y\tz", "ws://y", True),
        ("", "ws://y", False),
        (",. ", "ws://y", False),
        ("*", "ws://[", True),
        ("y", "ws://[", False),
    ],
)
def test_no_proxy_excludes_hosts_domains_and_networks(listed: str, url: str, direct: bool) -> None:
    for proxies in (
        choose_proxies("http://p", None, {"NO_PROXY": listed}),
        choose_proxies(None, None, {"all_proxy": "http://p", "no_proxy": listed}),
    ):
        assert (proxies.for_url(url) is None) is direct


def test_no_proxy_as_an_option_stands_in_for_the_variable() -> None:
    proxies = choose_proxies("http://p", ("a.example",), {"NO_PROXY": "*"})
    assert proxies.for_url("wss://a.example") is None
    assert proxies.for_url("wss://b.example") is not None


DIRECT = ConnectionOptions(proxy="none")
TOR = ConnectionOptions(proxy="socks5h://127.0.0.1:9050", no_proxy=("near.example",))


@pytest.mark.parametrize("url", ["ws://a.onion", "https://a.onion./x", "nats://a.onion:4222"])
def test_no_door_takes_an_onion_host_to_a_name_server(url: str) -> None:
    with pytest.raises(NetworkError, match="needs a proxy") as refused:
        route(url, DIRECT)
    assert "/x" not in str(refused.value)
    assert route(url, TOR) is not None


def test_a_strangers_name_is_refused_where_a_proxy_resolves_it() -> None:
    for url in ("wss://a.example", "https://a.example/secret", "ws://a.onion"):
        with pytest.raises(NetworkError, match="proxy resolves") as refused:
            route(url, TOR, stranger=True)
        assert "secret" not in str(refused.value)
        assert route(url, TOR) is not None
        assert "proxy resolves" in str(RelayChoice(connection=TOR).objection(url))
    assert route("wss://near.example", TOR, stranger=True) is None
    assert route("wss://9.9.9.9", TOR, stranger=True) is not None
    assert objection("wss://a.example", DIRECT) is None
    allowed = ConnectionOptions(proxy=TOR.proxy, strangers_by_proxy=True)
    assert route("https://user:pass@a.example/x", allowed, stranger=True) is not None
    for url in ("ws://[::1]:80", "http://10.0.0.1/x", "https://localhost"):
        with pytest.raises(NetworkError):
            route(url, allowed, stranger=True)
