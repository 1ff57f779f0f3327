"""Starts local relays of every kind: with registers, without, slow, read-only, lying, refusing."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from agent.relay.options import RelayOptions
from agent.relay.server import serve
from nostr_client import hll
from nostr_client.codecs import kinds
from nostr_client.store.query.snapshot import Snapshot
from nostr_client.store.sqlite import SqliteStore

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AsyncExitStack

    from agent.demo.world import Post
    from nostr_client.codecs.filters import Filter

T = TypeVar("T")

LATE_S: Final = 0.8


class LateStore(SqliteStore):
    """Takes its time to count."""

    async def snapshot(self, work: Callable[[Snapshot], T]) -> T:
        await asyncio.sleep(LATE_S)
        return await super().snapshot(work)


class LyingSnapshot(Snapshot):
    """Counts twenty times as many people, with registers that no people make."""

    def count(self, filters: Sequence[Filter]) -> int:
        return 20 * super().count(filters)

    def registers(self, filter: Filter) -> bytes:
        return bytes([9]) * hll.M

    def figures(self, filter: Filter) -> tuple[int, bytes]:
        return self.count([filter]), self.registers(filter)


class LyingStore(SqliteStore):
    """Lies where it is counted."""

    async def snapshot(self, work: Callable[[Snapshot], T]) -> T:
        return await self.database.read(lambda c: work(LyingSnapshot(c, self._context())))


class DemoRelay(NamedTuple):
    """One relay: its name, what it does, what is behind it."""

    name: str
    options: RelayOptions
    store: type[SqliteStore] = SqliteStore


KINDS: Final = (
    DemoRelay("first", RelayOptions(name="first relay")),
    DemoRelay("second", RelayOptions(name="second relay")),
    DemoRelay("plain", RelayOptions(name="a relay without registers", hll=False)),
    DemoRelay(
        "reader", RelayOptions(name="a relay that cannot count", count=False, negentropy=False)
    ),
    DemoRelay("late", RelayOptions(name="a slow relay"), LateStore),
    DemoRelay("liar", RelayOptions(name="a relay that lies"), LyingStore),
    DemoRelay(
        "refuser",
        RelayOptions(
            name="a relay that refuses",
            private_kinds=frozenset({kinds.CONTACTS, kinds.REACTION}),
        ),
    ),
)
SPREAD: Final = 5
"""Posts are spread over the first relays; those that lie or refuse hold the posts of the past."""


async def start(stack: AsyncExitStack, posts: Sequence[Post]) -> dict[str, str]:
    """Start one relay of each kind with the posts that were sent to it; their names by URL."""
    names = {}
    for n, kind in enumerate(KINDS):
        store = await stack.enter_async_context(await kind.store.open(":memory:"))
        await store.save([post.event for post in posts if n in post.relays or n >= SPREAD])
        server = await stack.enter_async_context(serve(store, port=0, options=kind.options))
        names[server.url] = kind.name
    return names
