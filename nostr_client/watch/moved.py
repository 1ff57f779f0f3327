"""How far the number of a watch moved, and its newest values.

The newest number of a watch enters, with its question and the relays that it believes. What leaves
is a change only if that is no error of an estimate. Numbers from registers differ by chance, so
their change is what rose and fell in the registers of the same relays. Numbers that were read, or
that relays say, differ as they are. Functions work over a connection, in the caller's transaction.
Times are Unix seconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from nostr_client import hll
from nostr_client.count.claims.periods import standings
from nostr_client.count.figures import LARGEST
from nostr_client.count.merge import CountUnit, Method
from nostr_client.count.remembering import asked_of
from nostr_client.hll.risen import risen
from nostr_client.watch import points
from nostr_client.watch.history import DAY, FIRST, HOUR, fold
from nostr_client.watch.points import APART_S

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Sequence

    from nostr_client.count.queries import Query
    from nostr_client.watch.history import Point

SPARK: Final = 24
"""Hours of the line beside a number."""

_STEPS: Final = (60, 300, 900, HOUR)
"""Seconds between two values of the line, while the numbers are young."""

SPANS: Final = {"1h": HOUR, "1d": DAY, "1w": 7 * DAY}
"""The times over which changes are shown, in seconds."""

_ESTIMATED: Final = (
    "SELECT url FROM claim JOIN claim_query USING (q) JOIN claim_relay USING (r)"
    " WHERE key = ?1 AND answered AND method = ?2 UNION"
    " SELECT url FROM claim_past JOIN claim_query USING (q) JOIN claim_relay USING (r)"
    " WHERE key = ?1 AND method = ?2 AND day >= ?3"
)
"""Relays that answered by registers alone since a day."""


class Change(NamedTuple):
    """How far a number moved; 0 if it did not, or if no change is seen.

    `estimated`: numbers from registers were compared, so 0 says only that no change is seen.
    """

    value: int
    estimated: bool = False


class Moved(NamedTuple):
    """How far a number moved over each time of SPANS and since FIRST, and its newest values.

    A time from before the first number is missing in `changes`. None: the watch has a number of
    that time, and nobody knows whether it changed. `spark`: hourly values, or closer ones where the
    numbers began within a day. `since`: the time of the first number; None before it.
    """

    changes: dict[str, int | None]
    spark: tuple[int, ...]
    since: int | None = None


def moved(
    conn: sqlite3.Connection,
    name: str,
    query: Query,
    now: Point,
    *,
    relays: Collection[str] | None = None,
) -> Moved:
    """Return how far the newest number of a watch moved; `relays` as for `change`."""
    then = {
        span: points.newest(conn, name, now.at - 2 * seconds, now.at - seconds)
        for span, seconds in SPANS.items()
    }
    since = points.first_at(conn, name)
    if since is not None and since < now.at < since + DAY:
        then[FIRST] = points.number_at(conn, name, since)
    found = {
        span: change(conn, query, point, now, relays=relays)
        for span, point in then.items()
        if point is not None
    }
    changes = {span: None if one is None else one.value for span, one in found.items()}
    return Moved(changes, spark(conn, name, now.at), since)


def change(
    conn: sqlite3.Connection,
    query: Query,
    then: Point,
    now: Point,
    *,
    relays: Collection[str] | None = None,
) -> Change | None:
    """Return how far a number moved between two points; None if nobody knows.

    `relays`: the normalised relays that the number believes; None: all that were asked.
    """
    difference = now.value - then.value
    if now.exact and then.exact:
        return Change(difference)
    if query.unit is CountUnit.EVENTS or not _is_estimated(conn, query, then.at, relays):
        return Change(difference)
    joint = _joint(conn, query, then.at, now.at, relays)
    if not joint and _are_apart(then, now):  # other relays are asked by now
        return Change(difference, estimated=True)
    return None if joint is None else Change(joint, estimated=True)


def _is_estimated(
    conn: sqlite3.Connection, query: Query, since: int, relays: Collection[str] | None
) -> bool:
    """Whether a relay gave only registers since a time."""
    key = (asked_of(query).key, Method.HLL.value, since // DAY)
    return any(relays is None or url in relays for (url,) in conn.execute(_ESTIMATED, key))


def _joint(
    conn: sqlite3.Connection, query: Query, then: int, now: int, relays: Collection[str] | None
) -> int | None:
    """Return how many more people the registers of the same relays show, if that is not 0.

    None: no relay gave registers at both times.
    """
    key = asked_of(query).key
    before, after = standings(conn, key, then), standings(conn, key, now)
    pairs = [
        (one.registers, after[url].registers)
        for url, one in before.items()
        if url in after and (relays is None or url in relays)
    ]
    known = [(old, new) for old, new in pairs if old is not None and new is not None]
    if not known:
        return None
    old, new = hll.merge(*(one for one, _ in known)), hll.merge(*(one for _, one in known))
    came, left = risen(old, new), risen(new, old)
    low = came.low * bool(came.registers) - left.high * bool(left.registers)
    high = came.high * bool(came.registers) - left.low * bool(left.registers)
    if low <= 0 <= high:
        return 0
    value = came.value - left.value
    return max(1, round(min(value, LARGEST))) if low > 0 else min(-1, round(max(value, -LARGEST)))


def _are_apart(one: Point, other: Point) -> bool:
    """Whether the intervals of two numbers have nothing in common."""
    low, high = sorted((one, other), key=lambda point: point.value)
    return low.high is not None and low.high < high.low


def spark(conn: sqlite3.Connection, name: str, now: int) -> tuple[int, ...]:
    """Return the newest values of a watch, as `Moved` has them."""
    recent = _by_hours(conn, name, now)
    if len(recent) < SPARK:  # asked less often than every hour, or for less than a day
        found = points.series(conn, name, most=SPARK * HOUR // APART_S)
        recent = fold(found, _step(found))
    return tuple(point.value for point in recent[-SPARK:])


def _step(found: Sequence[Point]) -> int:
    """Return the shortest step, an hour at most, by which points make a line of SPARK values."""
    span = found[-1].at - found[0].at if found else 0
    return next((step for step in _STEPS if span < SPARK * step), HOUR)


def _by_hours(conn: sqlite3.Connection, watch: str, now: int) -> list[Point]:
    """Return the last point of each of the newest hours that have one: a day may have 10,000
    points."""
    this = now // HOUR * HOUR
    starts = range(this - SPARK * HOUR, this + 1, HOUR)
    found = (points.newest(conn, watch, start - 1, start + HOUR - 1) for start in starts)
    return [point for point in found if point is not None]
