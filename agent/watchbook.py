"""Watches in the store, in the SDK's own tables: `nostr-client watch` and the agent share them.

The agent's spec travels beside the SDK's definition, as it was written. Watches of the
configuration file have a row too, for their history; they are the file's all the same. Functions
over a connection, inside the caller's transaction. Times are Unix seconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from agent.api.schema import Point
from agent.watches import query_of
from nostr_client import nip19
from nostr_client.display import duration, seconds
from nostr_client.errors import InvalidInput
from nostr_client.watch import SHORTEST, Watch, rows
from nostr_client.watch.history import DAY, HOUR, fold
from nostr_client.watch.history import Point as Sample

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence

    from agent.specs import WatchSpec
    from nostr_client.count.queries import Query

APART_S: Final = 60
MOST_APART: Final = 6
"""Numbers of one minute that are kept where it moves: a flood brings a merge every second."""

SPARK: Final = 24
"""Hours of the line beside a number."""

_SPEC: Final = "agent"
_FILE: Final = "file"


class Moved(NamedTuple):
    """How far a number moved over a time, and its newest values."""

    changes: dict[str, int]
    spark: tuple[int, ...]


def specs(conn: sqlite3.Connection) -> list[str]:
    """The JSON of the spec of every stored watch by name, but for those of the file."""
    found = []
    for name, text in conn.execute(
        f"SELECT name, definition FROM watch WHERE {rows.ASKED} ORDER BY name"
    ):
        fields = msgspec.json.decode(text)
        extra = fields.get("extra", {})
        if not extra.get(_FILE):
            spec = extra.get(_SPEC) or _spec_of(name, fields)
            found.append(msgspec.json.encode(spec).decode())
    return found


def added(conn: sqlite3.Connection) -> frozenset[str]:
    """Names of the stored watches that are not the file's, those that cannot be read among them."""
    added = "json_extract(definition, '$.extra.file') IS NOT 1"
    sql = f"SELECT name FROM watch WHERE {rows.ASKED} AND {added}"
    return frozenset(name for (name,) in conn.execute(sql))


def put(conn: sqlite3.Connection, spec: WatchSpec, at: float, *, file: bool = False) -> None:
    """Keep a watch, in the place of one of the same name. Raises InvalidInput."""
    extra: dict[str, Any] = {_SPEC: msgspec.to_builtins(spec)}
    made = Watch(
        name=spec.name,
        query=query_of(spec),
        relays=spec.relays,
        trusted=spec.trusted,
        excluded=spec.excluded,
        interval=max(seconds(spec.interval), SHORTEST),
        created_at=int(at),
        extra=extra | {_FILE: True} if file else extra,
    )
    if rows.put(conn, made):  # lines that another question's number had crossed
        conn.execute("DELETE FROM agent_alert WHERE watch = ?", (spec.name,))


def take_file(conn: sqlite3.Connection, specs: Iterable[WatchSpec], at: float) -> None:
    """Give every watch of the file its row."""
    for spec in specs:
        put(conn, spec, at, file=True)


def remove(conn: sqlite3.Connection, name: str) -> bool:
    """Remove a watch and its history; False if it was not there."""
    return rows.remove(conn, name)


def add_point(
    conn: sqlite3.Connection,
    watch: str,
    point: Point,
    unit: str,
    query: Query | None = None,
    relays: Sequence[str] | None = None,
) -> None:
    """Keep a number; not where the watch asks something else by now than `query`."""
    at = int(point.at)
    sample = Sample.sample(at, point.value, point.low, point.high, exact=point.exact, unit=unit)
    rows.asked(conn, watch, at, sample, apart=APART_S, most=MOST_APART, query=query, relays=relays)


def history(conn: sqlite3.Connection, watch: str, since: float, limit: int) -> list[Point]:
    """The newest `limit` points since a time, oldest first: fine ones where they are still kept."""
    found = rows.points(conn, watch, int(since), most=limit)
    return [
        Point(at=one.at, value=one.value, low=one.low, high=one.high, exact=one.exact)
        for one in found
    ]


def values_since(conn: sqlite3.Connection, watch: str, since: float) -> list[tuple[float, int]]:
    """Times and values of the points since a time, for rates."""
    return [(point.at, point.value) for point in rows.points(conn, watch, int(since))]


def moved(conn: sqlite3.Connection, watch: str, value: int, now: float) -> Moved:
    """How a number changed over an hour, a day and a week, where it was known then."""
    changes: dict[str, int] = {}
    for name, span in (("1h", HOUR), ("1d", DAY), ("1w", 7 * DAY)):
        then = rows.newest(conn, watch, int(now - 2 * span), int(now - span))
        if then is not None:
            changes[name] = value - then.value
    recent = _by_hours(conn, watch, int(now))
    if len(recent) < SPARK:  # asked less often than every hour
        recent = fold(rows.points(conn, watch, most=SPARK * HOUR // APART_S), HOUR)
    return Moved(changes, tuple(point.value for point in recent[-SPARK:]))


def _by_hours(conn: sqlite3.Connection, watch: str, now: int) -> list[Sample]:
    """The last point of each of the newest hours that have one: a day may have 10,000 points."""
    this = now // HOUR * HOUR
    starts = range(this - SPARK * HOUR, this + 1, HOUR)
    found = (rows.newest(conn, watch, start - 1, start + HOUR - 1) for start in starts)
    return [point for point in found if point is not None]


def thin(conn: sqlite3.Connection, now: float, after: str, most: int) -> str | None:
    """Fold what got old of the next `most` watches by name; the last name, None at the end."""
    sql = "SELECT name, w FROM watch WHERE name > ? ORDER BY name LIMIT ?"
    found = conn.execute(sql, (after, most)).fetchall()
    for _, w in found:
        rows.thin(conn, w, int(now))
    return found[-1][0] if len(found) == most else None


def _spec_of(name: str, fields: dict[str, Any]) -> dict[str, Any]:
    """What the agent makes of a watch that was added by the SDK or its command line."""
    try:
        made = Watch.from_dict(fields)
        target = _identifier(made.query)
    except InvalidInput as error:
        return {"name": name, "unreadable": str(error)}  # refused, and told, by whoever decodes it
    spec: dict[str, Any] = {
        "name": name,
        "relays": made.relays,
        "interval": duration(made.interval),
    }
    spec |= {"trusted": made.trusted, "excluded": made.excluded}
    if target is None:
        return spec | {"filters": [one.to_dict() for one in made.query.filters]}
    return spec | {"query": made.query.name, "target": target}


def _identifier(query: Query) -> str | None:
    """How people name the target of a canonical query; None for plain filters."""
    target = query.target
    if target is None:
        return None
    if any(name == "#p" for one in query.filters for name, _ in one.tags):
        return nip19.Profile(target, query.hints).encode()
    if ":" in target:
        kind, author, d = target.split(":", 2)
        return nip19.Address(int(kind), author, d, query.hints).encode()
    return nip19.EventPointer(target, query.hints, query.author).encode()
