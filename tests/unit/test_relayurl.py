"""One key per relay."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nostr_client.codecs.keys import KeySigner
from nostr_client.codecs.relay_url import MAX_LENGTH, address, normalize
from nostr_client.errors import InvalidRelayURL, without_user


@pytest.mark.parametrize(
    ("url", "key"),
    [
        ("relay.example.com", "wss://relay.example.com"),
        ("  wss://x.com \n", "wss://x.com"),
        ("wss://x.com.", "wss://x.com"),
        ("https://x.com/", "wss://x.com"),
        ("ws://x.com:80", "ws://x.com"),
        ("ws://x.com:443", "ws://x.com:443"),
        ("wss://x.com:80", "wss://x.com:80"),
        ("wss://x.com:", "wss://x.com"),
        ("wss://x.com:007777/", "wss://x.com:7777"),
        ("wss://X.com/Path/", "wss://x.com/Path"),
        ("wss://x.com///", "wss://x.com"),
        ("wss://x.com/?", "wss://x.com"),
        ("wss://x.com/?b=2&a=1#f", "wss://x.com?b=2&a=1"),
        ("wss://x.com?b=2&a=1", "wss://x.com?b=2&a=1"),
        ("wss://x.com/%c3%bc", "wss://x.com/%C3%BC"),
        ("wss://x.com/ü", "wss://x.com/%C3%BC"),
        ("wss://bücher.example", "wss://xn--bcher-kva.example"),
        ("wss://xn--bcher-kva.example", "wss://xn--bcher-kva.example"),
        ("127.0.0.1:7777", "ws://127.0.0.1:7777"),
        ("[::1]:7777", "ws://[::1]:7777"),
        ("wss://[2001:0DB8::0001]/x", "wss://[2001:db8::1]/x"),
        ("10.0.0.1", "wss://10.0.0.1"),
        ("relay.localhost", "ws://relay.localhost"),
        ("umbrel:4848", "wss://umbrel:4848"),
        ("ws://abcdefghijklmnop.onion", "ws://abcdefghijklmnop.onion"),
        ("wss://under_score.example", "wss://under_score.example"),
    ],
)
def test_normal_forms(url: str, key: str) -> None:
    assert normalize(url) == key
    assert normalize(key) == key


@pytest.mark.parametrize(
    "url",
    [
        "",
        "   ",
        "wss://",
        "wss:///path",
        "ftp://x.com",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "mailto:a@b.com",
        "wss://user:pass@x.com",
        "wss://user@x.com",
        "wss://x.com:0",
        "wss://x.com:65536",
        "wss://x.com:abc",
        "wss://x.com:-1",
        "wss://x.com:٤٤",
        "wss://x com",
        "wss://x.com/a b",
        "wss://x.com\n.evil",
        "wss://x.com/\x00",
        "wss://x.com\\@y.com",
        "wss://x.com/\u202egpj",
        "wss://a\u200bb.com",
        "wss://x..com",
        "wss://-x.com",
        "wss://x-.com",
        "wss://" + "a" * 64 + ".com",
        "wss://" + "a." * 127 + "com",
        "wss://[::1",
        "wss://[::g]",
        "wss://[fe80::1%25eth0]",
        "wss://[v1.x]",
        "wss://%78.com",
        "wss://x.com/\ud800",
        "wss://\ud800.com",
        "wss://x.com/" + "a" * MAX_LENGTH,
    ],
    ids=lambda url: ascii(url[:40]),
)
def test_what_no_relay_can_live_at(url: str) -> None:
    with pytest.raises(InvalidRelayURL) as caught:
        normalize(url)
    assert len(str(caught.value)) < 300


@given(
    st.text(max_size=60)
    | st.text("wshtp:/.@[]%0123456789abx?#&=üé \\", max_size=40).map("wss://x".__add__)
)
def test_anything_has_a_stable_ascii_form_or_is_refused(text: str) -> None:
    try:
        key = normalize(text)
    except InvalidRelayURL:
        return
    assert key.isascii()
    assert key.startswith(("ws://", "wss://"))
    assert normalize(key) == key
    assert normalize(key.upper().replace("WSS:", "wss:")) is not None


@pytest.mark.parametrize(
    "url",
    [
        "wss://me:geheim@h",
        "me:geheim@h",
        "wss://me:ge heim@h",
        "ftp://me:geheim@h",
        "wss://me:ge/heim@h",
        "wss://geheim@h",
        "wss://me:p@geheim@h",
    ],
)
def test_a_refusal_does_not_repeat_a_password(url: str) -> None:
    with pytest.raises(InvalidRelayURL) as refused:
        normalize(url)
    assert "heim" not in str(refused.value)
    assert "h: " in str(refused.value)


@pytest.mark.parametrize("form", ["wss://{}", "{}", "wss://h/{}", "wss://h/?key={}", "wss://{}.h"])
def test_a_secret_key_is_no_relay_and_is_not_repeated(form: str) -> None:
    nsec = KeySigner(bytes(31) + b"\x01").nsec()
    with pytest.raises(InvalidRelayURL, match="secret key") as refused:
        address(form.format(nsec))
    assert nsec not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("nats://me:geheim@host:4222", "nats://host:4222"),
        ("nats://geheim@host", "nats://host"),
        ("me:geheim@host", "host"),
        ("https://agent.example/x?y=1", "https://agent.example/x?y=1"),
        ("host:4222", "host:4222"),
        ("nats://me:geheim", "nats://me:…"),
        ("nats://host:geheim/x?y=a:b", "nats://host:…/x?y=a:b"),
        ("wss://me:geheim@h/?to=http://x", "wss://h/?to=http://x"),
        ("ws://[::1]:80/a:b", "ws://[::1]:80/a:b"),
        ("ws://[::1]:geheim", "ws://[::1]:…"),
        ("", ""),
    ],
)
def test_without_user(url: str, shown: str) -> None:
    assert without_user(url) == shown
