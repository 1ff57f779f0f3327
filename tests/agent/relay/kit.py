"""Signed events and sessions for the relay's tests, from seeded keys."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from agent.relay.context import Peer, RelayClock, RelayContext
from agent.relay.limits import events_bucket
from agent.relay.options import RelayOptions
from agent.relay.session import ServerSession
from nostr_client.codecs.event import Event, EventTemplate
from nostr_client.codecs.keys import KeySigner
from nostr_client.store.rows import JsonEvent

if TYPE_CHECKING:
    from collections.abc import Iterable

    from agent.relay.outputs import Output

URL = "ws://127.0.0.1:4869"
CHALLENGE = "c" * 32
NOW = 1_800_000_000


def key(seed: int) -> KeySigner:
    """A signer from a seed, with fixed auxiliary randomness: the same events every time."""
    secret = hashlib.sha256(f"relay-test:{seed}".encode()).digest()
    return KeySigner(secret, rand=bytes)


def signed(
    seed: int = 1,
    kind: int = 1,
    tags: Iterable[Iterable[str]] = (),
    content: str = "",
    created_at: int = NOW,
) -> Event:
    """An event signed by the key of `seed`."""
    listed = tuple(tuple(tag) for tag in tags)
    template = EventTemplate(kind=kind, tags=listed, content=content, created_at=created_at)
    return key(seed).sign_now(template).event


def auth_event(
    seed: int = 1, challenge: str = CHALLENGE, relay: str = URL, created_at: int = NOW
) -> Event:
    """An answer to a challenge by the key of `seed`."""
    tags = (("relay", relay), ("challenge", challenge))
    return signed(seed, 22242, tags, created_at=created_at)


class FakeClock:
    """Two clocks that stand until moved; seconds."""

    def __init__(self) -> None:
        self.monotonic_now = 1_000.0
        self.wall_now = float(NOW)

    def clock(self) -> RelayClock:
        """The clock for a context."""
        return RelayClock(lambda: self.monotonic_now, lambda: self.wall_now)


def make_session(
    options: RelayOptions | None = None,
    clock: FakeClock | None = None,
    *,
    search: bool = False,
    read_only_reason: str = "",
) -> ServerSession:
    """A session as the server would make it, on a clock of the test's own."""
    options = options or RelayOptions()
    clock = clock or FakeClock()
    limits = options.limits
    peer = Peer(
        address="127.0.0.1",
        challenge=CHALLENGE,
        bucket=events_bucket(limits.events_per_s, limits, clock.monotonic_now),
        address_bucket=events_bucket(limits.address_events_per_s, limits, clock.monotonic_now),
        read_only_reason=read_only_reason,
    )
    context = RelayContext(
        options=options, urls=frozenset({URL}), search=search, clock=clock.clock()
    )
    return ServerSession(context, peer)


def say(session: ServerSession, *parts: Any) -> list[Output]:
    """Send one frame, given as the items of its array."""
    return session.receive(frame(*parts))


def frame(*parts: Any) -> str:
    """A client's frame."""
    plain = [json.loads(p.to_json()) if isinstance(p, Event) else p for p in parts]
    return json.dumps(plain)


def texts(outputs: Iterable[Output | bytes]) -> list[Any]:
    """The frames among outputs, decoded."""
    return [json.loads(output) for output in outputs if isinstance(output, str | bytes)]


def as_json(event: Event) -> JsonEvent:
    """An event as the store answers a page."""
    return JsonEvent(event.id, event.created_at, event.kind, event.to_json().encode())


def jobs(outputs: Iterable[Output], kind: type[Any]) -> list[Any]:
    """The outputs of one type."""
    return [output for output in outputs if isinstance(output, kind)]


def numbered(count: int, **fields: Any) -> list[Event]:
    """Events that differ in their content."""
    return [signed(content=str(i), **fields) for i in range(count)]
