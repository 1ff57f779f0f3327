"""What the tests of one relay share."""

from __future__ import annotations

import asyncio
import functools
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from nostr_client.codecs.event import Event, EventTemplate
from nostr_client.codecs.filters import Filter
from nostr_client.codecs.keys import KeySigner
from nostr_client.network.relay import Relay
from nostr_client.options import Options, Timeouts
from tests.faulty_relay import Behaviour, FaultyRelay

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

SIGNER = KeySigner(bytes(31) + b"\x07")
NOTES = Filter(kinds=[1])
QUICK = Options(timeouts=Timeouts(count=0.3, publish=0.3, eose=0.3, auth=0.3, close=0.2))


@functools.cache
def note(number: int) -> Event:
    """A signed note, always the same for a number; its time is the number."""
    template = EventTemplate(kind=1, content=f"note {number}", created_at=number)
    return SIGNER.sign_now(template).event


@asynccontextmanager
async def talking(
    behaviour: Behaviour | None = None,
    *,
    events: Sequence[Event] = (),
    info: Any = None,
    server_args: dict[str, Any] | None = None,
    **relay_args: Any,
) -> AsyncIterator[tuple[FaultyRelay, Relay]]:
    """A server that behaves so, and a relay of ours that talks to it."""
    server = FaultyRelay(behaviour, events=events, info=info, **(server_args or {}))
    async with server, Relay(server.url, **relay_args) as relay:
        yield server, relay


class Naps:
    """A `sleep` that does not: it notes each pause and returns, and after `most` never again."""

    def __init__(self, most: int) -> None:
        self.pauses: list[float] = []
        self._most = most
        self._full = asyncio.Event()

    async def __call__(self, seconds: float) -> None:
        self.pauses.append(seconds)
        if len(self.pauses) < self._most:
            await asyncio.sleep(0)
        else:
            self._full.set()
            await asyncio.Event().wait()

    async def taken(self, *, within: float = 20.0) -> list[float]:
        """Wait for the last pause; all of them, in seconds."""
        async with asyncio.timeout(within):
            await self._full.wait()
        return self.pauses
