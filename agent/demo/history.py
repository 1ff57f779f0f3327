"""Computes the history of the week before, as the agent would have written it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from agent.demo.world import WEEK
from nostr_client import hll
from nostr_client.count.merge import Claim, ClaimStatus, Method, merge_claims
from nostr_client.watch import repository
from nostr_client.watch.points import point_at

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator, Sequence

    from agent.demo.world import Post
    from nostr_client.count.queries import Query
    from nostr_client.store.file.database import Database
    from nostr_client.watch.history import Point

FINE: Final = 2 * 86_400
FINE_S: Final = 600
COARSE_S: Final = 3600


async def write(
    database: Database, watch: str, query: Query, posts: Sequence[Post], now: int
) -> None:
    """Store the history of a watch up to `now` (Unix seconds). Raises StoreError."""
    found = list(points(posts, query, now - WEEK, now))
    await database.write(partial(_add, watch=watch, found=found))


def _add(conn: sqlite3.Connection, watch: str, found: Iterable[Point]) -> None:
    for point in found:
        repository.asked(conn, watch, point.at, point)


def points(posts: Sequence[Post], query: Query, since: int, now: int) -> Iterator[Point]:
    """A number every hour, then every ten minutes, as the relays' claims of then give it."""
    offset = query.offset
    assert offset is not None
    held: dict[int, _Held] = {}
    matching = [one for one in posts if query.filters[0].matches(one.event.event)]
    found = sorted(matching, key=lambda one: one.at)
    n = 0
    for at in (*range(since, now - FINE, COARSE_S), *range(now - FINE, now - 60, FINE_S)):
        while n < len(found) and found[n].at <= at:
            for relay in found[n].relays:
                held.setdefault(relay, _Held(relay, offset)).add(found[n].event.event.pubkey)
            n += 1
        claims = [one.claim() for one in held.values()]
        merged = merge_claims(claims, one_per_author=query.one_per_author)
        if merged.figure is not None:
            yield point_at(at, merged.figure, "distinct_authors")


class _Held:
    """What one relay holds of a query, up to some time."""

    def __init__(self, relay: int, offset: int) -> None:
        self._name, self._offset = str(relay), offset
        self._count, self._registers = 0, bytearray(hll.M)

    def add(self, pubkey: str) -> None:
        self._count += 1
        hll.add(self._registers, pubkey, self._offset)

    def claim(self) -> Claim:
        return Claim(
            relay=self._name,
            status=ClaimStatus.OK,
            method=Method.HLL,
            count=self._count,
            registers=bytes(self._registers),
        )
