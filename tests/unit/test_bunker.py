"""The link of a bunker, what is refused before it is asked, and what it may not sign."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from nostr_client.assertions.card_key import card_signer, check_key
from nostr_client.codecs.event import EventTemplate
from nostr_client.codecs.keys import KeySigner
from nostr_client.errors import DeadlineExceeded, InvalidEvent, InvalidInput, RelayError
from nostr_client.network.bunker import BunkerRequests, BunkerSigner, read_link
from nostr_client.options import ConnectionOptions

if TYPE_CHECKING:
    from pathlib import Path

KEY, CLIENT, OTHER = (KeySigner(bytes([n]) * 32) for n in (5, 6, 7))
LINK = f"bunker://{KEY.pubkey}?relay=wss%3A%2F%2FRelay.example%2F&relay=ws://b.example&secret=p%26q"


def test_a_link_is_read_and_written_with_its_secret_or_without() -> None:
    link = read_link(f" {LINK}\n")
    assert (link.bunker, link.secret) == (KEY.pubkey, "p&q")
    assert link.relays == ("wss://relay.example", "ws://b.example")
    assert read_link(link.text(secret=True)) == link
    assert read_link(link.text(secret=False)).secret == ""
    assert "p&q" not in repr(link)


@pytest.mark.parametrize(
    "text",
    [
        "bunker://",
        "bunker://[?secret=hush",
        f"bunker://{KEY.pubkey}?secret=hush",
        "bunker://nobody?relay=wss://a.example&secret=hush",
        f"nostrconnect://{KEY.pubkey}?relay=wss://a.example&secret=hush",
        f"bunker://{KEY.pubkey}?relay=ftp://a.example&secret=hush",
        f"bunker://{KEY.pubkey}?secret=hush" + "&relay=wss://a%d.example" * 11 % tuple(range(11)),
    ],
)
def test_what_is_no_link_is_refused_without_its_secret(text: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        read_link(text)
    assert "hush" not in str(refused.value)


async def test_a_link_needs_a_file_and_no_proxy_before_it(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="is read from a file"):
        await card_signer(LINK, None, ConnectionOptions())
    proxied = ConnectionOptions(proxy="socks5h://127.0.0.1:9")
    with pytest.raises(InvalidInput, match="reached directly"):
        await card_signer(LINK, tmp_path / "link", proxied)
    assert not (tmp_path / "link.client").exists()


async def test_no_name_server_is_asked_for_an_onion_host(tmp_path: Path) -> None:
    link = f"bunker://{KEY.pubkey}?relay=ws://{'a' * 56}.onion&secret=s"
    with pytest.raises(InvalidInput, match="onion"):
        await card_signer(link, tmp_path / "link", ConnectionOptions())
    assert os.listdir(tmp_path) == []


async def test_a_lost_answer_does_not_lose_the_key_that_the_bunker_knows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first request may spend the secret of a link: the next run has to be the same client."""
    clients: list[str] = []

    async def connect(link: Any, client: KeySigner, *_: Any, **how: Any) -> BunkerSigner:
        clients.append(client.pubkey)
        if len(clients) == 1:
            raise DeadlineExceeded("no answer", relay="ws://b.example")
        return BunkerSigner(Lies("{}"), KEY.pubkey)

    monkeypatch.setattr(BunkerSigner, "connect", connect)
    with pytest.raises(DeadlineExceeded):
        await card_signer(LINK, tmp_path / "link", ConnectionOptions())
    await card_signer(LINK, tmp_path / "link", ConnectionOptions())
    assert len(set(clients)) == 1
    assert os.listdir(tmp_path) == ["link.client"]


def test_a_key_or_a_link_is_checked_without_asking_anybody() -> None:
    check_key(LINK, "file")
    check_key(KEY.nsec(), "file")
    for text in ("bunker://x", "hello"):
        with pytest.raises(InvalidInput):
            check_key(text, "file")


def test_an_error_of_the_library_repeats_no_secret() -> None:
    requests = BunkerRequests(read_link(LINK), CLIENT, 1.0, paired=False)
    with pytest.raises(RelayError) as failed, requests.errors():
        raise requests.sdk.NostrSdkError(f"bad p&q of {CLIENT.nsec()}")
    assert "p&q" not in str(failed.value)
    assert CLIENT.nsec() not in str(failed.value)


class Lies(BunkerRequests):
    """A bunker that signs what it likes."""

    def __init__(self, signed: str) -> None:
        self.signed = signed

    async def sign(self, fields: tuple[Any, ...]) -> str:
        return self.signed


WANTED = EventTemplate(kind=1, content="hello", created_at=1_000)
SIGNED = KEY.sign_now(WANTED).event


async def test_what_the_bunker_signs_is_verified() -> None:
    signer = BunkerSigner(Lies(SIGNED.to_json()), KEY.pubkey)
    assert (await signer.sign(WANTED)).event == SIGNED


@pytest.mark.parametrize(
    "signed",
    [
        OTHER.sign_now(WANTED).to_json(),
        KEY.sign_now(EventTemplate(kind=1, content="bye", created_at=1_000)).to_json(),
        KEY.sign_now(EventTemplate(kind=1, content="hello", created_at=1_001)).to_json(),
        SIGNED.to_json().replace(SIGNED.sig, "00" * 64),
        "{}",
    ],
    ids=["another key", "another content", "another time", "a bad signature", "no event"],
)
async def test_another_event_or_a_bad_signature_is_refused(signed: str) -> None:
    with pytest.raises(InvalidEvent):
        await BunkerSigner(Lies(signed), KEY.pubkey).sign(WANTED)
