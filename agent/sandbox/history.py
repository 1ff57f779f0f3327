"""What the agent would have written down in the week before: merged from the events of then."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from agent import views, watchbook
from agent.api.schema import Point
from nostr_client import hll
from nostr_client.merge import Claim, ClaimStatus, Method, merge_claims

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator, Sequence

    from agent.sandbox.people import Deed
    from nostr_client.count.queries import Query

FINE: Final = 2 * 86_400
FINE_S: Final = 600
COARSE_S: Final = 3600


class _Held:
    """What one relay holds of a query, up to some time."""

    def __init__(self, relay: int, place: int) -> None:
        self._name, self._place = str(relay), place
        self._count, self._registers = 0, bytearray(hll.M)

    def add(self, pubkey: str) -> None:
        self._count += 1
        hll.add(self._registers, pubkey, self._place)

    def claim(self) -> Claim:
        return Claim(
            relay=self._name,
            status=ClaimStatus.OK,
            method=Method.HLL,
            count=self._count,
            registers=bytes(self._registers),
        )


def points(
    deeds: Sequence[Deed], query: Query, relays: int, since: int, now: int
) -> Iterator[Point]:
    """A number every hour, then every ten minutes, as the relays' claims of then give it."""
    place = query.offset
    assert place is not None
    held = [_Held(n, place) for n in range(relays)]
    matching = [one for one in deeds if query.filters[0].matches(one.event.event)]
    found = sorted(matching, key=lambda one: one.at)
    n = 0
    for at in (*range(since, now - FINE, COARSE_S), *range(now - FINE, now - 60, FINE_S)):
        while n < len(found) and found[n].at <= at:
            for relay in found[n].relays:
                held[relay].add(found[n].event.event.pubkey)
            n += 1
        merged = merge_claims([one.claim() for one in held], one_per_author=query.one_per_author)
        figure = views.figure(merged.figure)
        if figure is not None:
            bounds = {"low": figure.low, "high": figure.high, "exact": figure.exact}
            yield msgspec.convert({"at": at, "value": figure.value, **bounds}, Point)


def write(conn: sqlite3.Connection, watch: str, found: Iterable[Point]) -> None:
    """Keep them as the history of a watch."""
    for point in found:
        watchbook.add_point(conn, watch, point, "distinct_authors")
