"""What the agent would have written down in the week before: from the events of then."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from agent import watchbook
from agent.api.schema import Point
from nostr_client import hll

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator, Sequence

    from agent.sandbox.people import Deed
    from nostr_client.filters import Filter

STEP_S: Final = 600
FINE: Final = 2 * 86_400
COARSE_S: Final = 3600


def points(deeds: Sequence[Deed], filter: Filter, since: int, now: int) -> Iterator[Point]:
    """A number every ten minutes, at first every hour, by the registers of that time."""
    found = sorted(
        (deed.at, deed.event.event.pubkey) for deed in deeds if filter.matches(deed.event.event)
    )
    place = hll.offset(filter.to_dict())
    registers, n = bytearray(hll.M), 0
    for at in (*range(since, now - FINE, COARSE_S), *range(now - FINE, now, STEP_S)):
        while n < len(found) and found[n][0] <= at:
            if place is not None:
                hll.add(registers, found[n][1], place)
            n += 1
        yield _point(at, hll.estimate(bytes(registers)))


def _point(at: int, value: float) -> Point:
    low, high = hll.interval(value)
    return Point(at=at, value=round(value), low=int(low), high=-int(-high // 1), exact=False)


def write(conn: sqlite3.Connection, watch: str, found: Iterable[Point]) -> None:
    """Keep them as the history of a watch."""
    for point in found:
        watchbook.add_point(conn, watch, point, "distinct_authors")
