"""What the tests of one relay share."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from nostr_client.event import Event, EventTemplate
from nostr_client.filters import Filter
from nostr_client.keys import KeySigner
from nostr_client.options import Options, Timeouts
from nostr_client.relay import Relay
from tests.faulty_relay import Behaviour, FaultyRelay

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

SIGNER = KeySigner(bytes(31) + b"\x07")
NOTES = Filter(kinds=[1])
QUICK = Options(timeouts=Timeouts(count=0.3, publish=0.3, eose=0.3, auth=0.3, close=0.2))


def note(number: int) -> Event:
    """A signed note; its time is its number."""
    template = EventTemplate(kind=1, content=f"note {number}", created_at=number)
    return SIGNER.sign_now(template).event


@asynccontextmanager
async def talking(
    behaviour: Behaviour | None = None,
    *,
    events: Sequence[Event] = (),
    info: Any = None,
    compress: bool = False,
    **relay_args: Any,
) -> AsyncIterator[tuple[FaultyRelay, Relay]]:
    """A server that behaves so, and a relay of ours that talks to it."""
    server = FaultyRelay(behaviour, events=events, info=info, compress=compress)
    async with server, Relay(server.url, **relay_args) as relay:
        yield server, relay
