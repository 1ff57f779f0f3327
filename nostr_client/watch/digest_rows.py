"""Read what changed for a watch from the store: functions over a connection, for `digest`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

from nostr_client import hll
from nostr_client.count.claims.periods import standings
from nostr_client.count.figures import LARGEST
from nostr_client.count.merge import CountUnit
from nostr_client.count.remembering import asked_of
from nostr_client.hll.risen import risen
from nostr_client.sync.coverage import history as coverage_runs
from nostr_client.watch import people_rows, points
from nostr_client.watch.digest import (
    MOST_NAMED,
    LowCoverage,
    Newcomers,
    WatchDigest,
    acts_of,
    low_coverage,
)

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Mapping

    from nostr_client.count.claims.periods import Standing
    from nostr_client.count.queries import Query

MOST_PEOPLE: Final = 10_000
"""People of one watch that are counted by what they did."""

_PAST: Final = (
    "SELECT url, spelled, failed_at, asked_at, p.status, p.registers FROM claim_past p"
    " JOIN claim_query USING (q) JOIN claim_relay USING (r)"
    " JOIN (SELECT q, r, max(name) AS spelled,"
    " max(asked_at) FILTER (WHERE answered = 0 AND status <> 'ok') AS failed_at"
    " FROM claim GROUP BY q, r)"
    " USING (q, r) WHERE key = ? ORDER BY day"
)


class _Answer(NamedTuple):
    """The last answer of a time; `failed_at`: when the relay failed last, None if it answered
    since.

    A failure of the day of an answer is in `failed_at` alone.
    """

    failed_at: float | None
    asked_at: float
    status: str
    registers: bytes | None

    def answers(self, until: float) -> bool:
        """Whether it stands at a time: the relay did not fail between it and then."""
        failed = self.failed_at is not None and self.asked_at < self.failed_at <= until
        return self.status == "ok" and not failed

    @property
    def last_asked(self) -> float:
        return max(self.asked_at, self.failed_at or 0.0)


def read(
    conn: sqlite3.Connection,
    name: str,
    query: Query,
    since: int,
    now: int,
    *,
    urls: Collection[str] | None = None,
    excluded: Collection[str] = (),
) -> WatchDigest:
    """Return what changed for a watch since a time.

    `urls`: the normalised relays that count; None: all that were asked. `excluded`: those that are
    not believed; neither their registers nor their people count.
    """
    names, then, newest = _answers(conn, query, since, urls)
    asked_at = max((int(one.last_asked) for one in newest.values()), default=None)
    found = people_rows.read(
        conn, query, since, now, urls=urls, excluded=excluded, limit=MOST_PEOPLE
    )
    trusted = {url: (then[url], newest[url]) for url in then if url not in excluded}
    answered_now = {url for url, one in newest.items() if one.answers(now)}
    answered_then = {url for url, one in then.items() if one.answers(since)}
    numbers = points.series(conn, name, most=1)
    return WatchDigest(
        name=name,
        query=query.name,
        since=since,
        asked_at=asked_at,
        now=numbers[-1] if numbers else None,
        then=points.number_at(conn, name, since),
        new=_newcomers(trusted, since) if query.unit is CountUnit.AUTHORS else None,
        acts=acts_of(found.people),
        people=found.people[:MOST_NAMED],
        more=found.more + len(found.people[MOST_NAMED:]),
        came=tuple(sorted(names[u] for u in answered_now - answered_then if then)),
        went=tuple(sorted(names[u] for u in answered_then - answered_now)),
    )


def low_coverages(conn: sqlite3.Connection) -> tuple[LowCoverage, ...]:
    """Return the coverages of a store whose newest run found relays below 95 %, by name.

    The store does not have the lines of alerts.
    """
    found = [low_coverage(name, run) for name, run in coverage_runs.last(conn).items()]
    return tuple(one for one in found if one is not None)


def _answers(
    conn: sqlite3.Connection, query: Query, since: int, urls: Collection[str] | None
) -> tuple[dict[str, str], dict[str, _Answer], dict[str, _Answer]]:
    """Return by relay its name, its last answer of the time, and its newest one.

    Where the store does not have how the relay stood at that time, the last answer of a day before
    takes its place.
    """
    names: dict[str, str] = {}
    then: dict[str, _Answer] = {}
    newest: dict[str, _Answer] = {}
    key = asked_of(query).key
    for url, name, *fields in conn.execute(_PAST, (key,)):
        if urls is not None and url not in urls:
            continue
        names[url], newest[url] = name, _Answer(*fields)
        if newest[url].asked_at <= since:
            then[url] = newest[url]
    known = standings(conn, key, since)
    then |= {url: _answer(one) for url, one in known.items() if url in newest}
    return names, then, newest


def _answer(one: Standing) -> _Answer:
    """Return how a relay stood at a time as its last answer until then."""
    at = one.seen_at if one.answered_at is None else one.answered_at
    return _Answer(None, at, "ok" if one.answers else "failed", one.registers)


def _newcomers(answers: Mapping[str, tuple[_Answer, _Answer]], since: int) -> Newcomers | None:
    """Return who is new in the union of the relays that gave registers then, and since."""
    pairs = [
        (then.registers, now.registers, then.asked_at)
        for then, now in answers.values()
        if now.asked_at > since and then.registers is not None and now.registers is not None
    ]
    if not pairs:
        return None
    before = hll.merge(*(then for then, _, _ in pairs))
    after = hll.merge(*(now for _, now, _ in pairs))
    found = risen(before, after)
    return Newcomers(
        value=round(min(found.value, LARGEST)),
        low=int(min(found.low, LARGEST)),
        high=math.ceil(min(found.high, LARGEST)),
        registers=found.registers,
        since=int(min(at for *_, at in pairs)),
    )
