"""Hosts that a stranger may not send us to, in every spelling that a resolver would take."""

from __future__ import annotations

import ipaddress
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nostr_client.codecs.relay_url import is_public, literal_address, refusal

PRIVATE = [
    "127.0.0.1",
    "127.255.255.254",
    "10.0.0.1",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.1.1",
    "169.254.169.254",
    "100.64.0.1",
    "0.0.0.0",
    "0.1.2.3",
    "224.0.0.1",
    "255.255.255.255",
    "198.18.0.1",
    "192.0.2.1",
    "::1",
    "::",
    "fe80::1",
    "fe80::1%eth0",
    "fc00::1",
    "fd12:3456::1",
    "fec0::1",
    "ff02::1",
    "2001:db8::1",
    "::ffff:127.0.0.1",
    "::ffff:10.1.2.3",
    "64:ff9b::7f00:1",
    "64:ff9b::a00:1",
    "2002:7f00:1::1",
    "2002:c0a8:101::",
    "2001:0:4136:e378:8000:63bf:f5ff:fffe",
    "::7f00:1",
    "::ffff:0:7f00:1",
    "64:ff9b:1::7f00:1",
    "2001:470:1f0b::5efe:127.0.0.1",
    "2001:470:1f0b::200:5efe:10.0.0.1",
    "3fff::1",
    "5f00::1",
    "168.63.129.16",
    "no address",
    "",
]

PUBLIC = ["1.1.1.1", "8.8.8.8", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "64:ff9b::101:101"]

SPELLED = [
    "ws://2130706433",
    "ws://0x7f000001",
    "ws://0x7f.0.0.1",
    "ws://0X7F.1",
    "ws://017700000001",
    "ws://0177.0.0.1",
    "ws://127.1",
    "ws://127.0.1",
    "ws://10.1",
    "ws://192.168.257",
    "ws://0",
    "ws://[::1]",
    "ws://[::ffff:7f00:1]",
    "ws://[fe80::1]:7000",
    "wss://169.254.169.254/latest/meta-data",
    "ws://127.0.0.1.",
    "ws://①②⑦.0.0.1",
]

LOCAL_NAMES = [
    "ws://localhost",
    "ws://localhost.",
    "ws://relay.localhost:7000",
    "ws://printer.local",
    "ws://router",
    "ws://nas.lan",
    "ws://vault.internal",
    "ws://db.corp",
    "ws://x.home.arpa",
    "wss://relay.example.123",
]


@pytest.mark.parametrize("address", PRIVATE)
def test_addresses_of_this_network_are_not_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", PUBLIC)
def test_addresses_of_the_internet_are_public(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize("url", SPELLED + LOCAL_NAMES)
def test_a_stranger_may_not_name_hosts_of_this_network(url: str) -> None:
    assert refusal(url)


@pytest.mark.parametrize(
    "url",
    ["wss://relay.example.com", "wss://1.1.1.1", "ws://0x1010101", "ws://[2606:4700::1111]:8080/x"],
)
def test_a_stranger_may_name_public_hosts(url: str) -> None:
    assert refusal(url) is None


def test_what_is_no_relay_url_is_refused_with_the_reason() -> None:
    assert "not a relay URL" in str(refusal("wss://"))
    assert "not a relay URL" in str(refusal("ftp://relay.example.com"))


def test_onion_hosts_need_a_proxy() -> None:
    url = f"ws://{'a' * 56}.onion"
    assert "proxy" in str(refusal(url))
    assert "proxy resolves" in str(refusal(url, proxied=True))
    assert refusal(url, proxied=True, unchecked=True) is None


def test_a_proxy_hides_where_names_lead_but_not_where_addresses_do() -> None:
    assert "proxy resolves" in str(refusal("wss://relay.example.com", proxied=True))
    assert refusal("wss://relay.example.com", proxied=True, unchecked=True) is None
    assert refusal("wss://9.9.9.9", proxied=True) is None
    for url in ("ws://10.0.0.1", "ws://0x7f.1", "ws://localhost", "ws://nas.local"):
        assert refusal(url, proxied=True, unchecked=True) is not None


@given(st.integers(0, 2**32 - 1), st.sampled_from(["{:d}", "0x{:x}", "0{:o}"]))
def test_numbers_stand_for_the_address_that_the_system_takes_them_for(n: int, form: str) -> None:
    text = form.format(n)
    assert literal_address(text) == ipaddress.ip_address(socket.inet_aton(text))


@given(st.lists(st.integers(0, 300), min_size=1, max_size=5).map(lambda p: ".".join(map(str, p))))
def test_dotted_numbers_are_read_as_the_system_reads_them(text: str) -> None:
    try:
        expected = ipaddress.ip_address(socket.inet_aton(text))
    except OSError:
        assert literal_address(text) is None
    else:
        assert literal_address(text) == expected


@given(st.text(max_size=40))
def test_any_text_is_judged_without_raising(text: str) -> None:
    refusal(text)
    is_public(text)
