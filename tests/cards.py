"""What the tests of cards (NIP-85) share: keys, signed events, a relay that takes cards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nostr_client.codecs.event import EventTemplate
from nostr_client.codecs.keys import KeySigner
from tests.faulty_relay import Behaviour

if TYPE_CHECKING:
    from pathlib import Path

    from nostr_client.codecs.keys import VerifiedEvent
    from tests.faulty_relay import FaultyRelay, Peer

ME, FAN, PROVIDER = (KeySigner(bytes([n]) * 32) for n in (1, 2, 3))
AT = 1_700_000_000
CARDS = (30382, 30383)


def made(signer: KeySigner, kind: int, *tags: tuple[str, ...], at: int = AT) -> VerifiedEvent:
    """A signed event without content."""
    return signer.sign_now(EventTemplate(kind=kind, tags=tags, created_at=at))


class Takes(Behaviour):
    """Takes `most` events, refuses as `refuses` says, and answers nothing after that."""

    def __init__(self, refuses: str = "", most: int = 1_000_000) -> None:
        self.refuses = refuses
        self.left = most

    async def on_event(self, peer: Peer, message: list[Any]) -> None:
        self.left -= 1
        if self.left >= 0:
            await peer.send("OK", message[1]["id"], not self.refuses, self.refuses)


def sent(relay: FaultyRelay) -> list[dict[str, Any]]:
    """The events that a relay received, in order."""
    return [message[1] for message in relay.received if message[0] == "EVENT"]


def cards(relay: FaultyRelay) -> list[dict[str, Any]]:
    """The cards among them."""
    return [one for one in sent(relay) if one["kind"] in CARDS]


def key_file(path: Path, signer: KeySigner = PROVIDER) -> Path:
    """A new file with the secret key of a signer, as the programs ask for it."""
    path.write_text(signer.nsec())
    path.chmod(0o600)
    return path
