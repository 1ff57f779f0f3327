"""Made-up people and events for tests: seeded, signed, and the truth known."""

from __future__ import annotations

import functools
import random
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from nostr_client import hll
from nostr_client.codecs.event import Event, EventTemplate
from nostr_client.codecs.filters import Filter
from nostr_client.codecs.keys import KeySigner
from tests.faulty_relay import Behaviour, Peer

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

TARGET = sha256(b"target").hexdigest()
NOTE = sha256(b"note").hexdigest()
START = 1_700_000_000


@functools.cache
def signer(i: int) -> KeySigner:
    """The key of person `i`."""
    return KeySigner(sha256(b"person %d" % i).digest(), rand=bytes)


@functools.cache
def follow(i: int, at: int = START) -> Event:
    """Person `i` follows TARGET."""
    tags = (("p", TARGET),)
    template = EventTemplate(kind=3, tags=tags, created_at=at + i)
    return signer(i).sign_now(template).event


@functools.cache
def reaction(i: int, n: int = 0, *, at: int | None = None) -> Event:
    """The `n`-th reaction of person `i` to NOTE."""
    time = START + 10 * i + n if at is None else at
    template = EventTemplate(kind=7, content="+", tags=(("e", NOTE),), created_at=time)
    return signer(i).sign_now(template).event


def samples(people: int, relays: int, share: float, seed: int) -> list[list[int]]:
    """For each relay the people it holds: a random `share` of all."""
    rng = random.Random(seed)
    return [[i for i in range(people) if rng.random() < share] for _ in range(relays)]


def union(parts: Iterable[Sequence[int]]) -> int:
    """How many people are in any part."""
    return len(set().union(*parts))


class Sketches(Behaviour):
    """An honest relay that answers eligible COUNTs with registers; `changes` makes it lie."""

    def __init__(self, **changes: Any) -> None:
        self.changes = changes

    async def on_count(self, peer: Peer, message: list[Any]) -> None:
        asked = Filter.from_json(message[2]).replace(limit=None)
        found = peer.relay.query([asked])
        body: dict[str, Any] = {"count": len(found)}
        offset = hll.offset(asked.to_dict())
        if offset is not None and hll.eligible(asked.to_dict()):
            body["hll"] = hll.to_hex(hll.from_pubkeys([e.pubkey for e in found], offset))
        await peer.send("COUNT", message[1], body | self.changes)
