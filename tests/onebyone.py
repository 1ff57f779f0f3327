"""Relays of one question, each asked by itself and merged from the book, as the agent does it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from nostr_client.client import NostrClient
from nostr_client.count.asking import CountOptions
from nostr_client.count.claims import ClaimBook
from nostr_client.count.procedure import CountEngine
from nostr_client.options import Options, Timeouts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nostr_client.count import CountResult
    from nostr_client.count.queries import Query
    from tests.faulty_relay import FaultyRelay


class OneByOne:
    """See the module; an async context manager. `options` are those of `CountOptions`."""

    def __init__(self, relays: Sequence[FaultyRelay], asked: Query, **options: Any) -> None:
        self._urls = [relay.url for relay in relays]
        self._asked = asked
        self._options = Options(timeouts=Timeouts(group=8.0))
        self._count = CountOptions(timeouts=self._options.timeouts, **options)

    async def __aenter__(self) -> Self:
        self.book = await ClaimBook.open(":memory:")
        self._client = NostrClient(self._urls, options=self._options)
        await self._client.__aenter__()
        self._relays = [self._client.pool.relay(url) for url in self._urls]
        self._counter = CountEngine(self._count, book=self.book)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.close()
        await self.book.close()

    async def ask(self, *numbers: int) -> CountResult:
        """Ask these relays, one after the other; what all together say."""
        for number in numbers:
            relay = self._relays[number]
            beside = [one for one in self._relays if one is not relay]
            await self._counter.count(self._asked, [(relay.url, relay)], beside=beside)
        return await self._counter.explain(self._asked)
