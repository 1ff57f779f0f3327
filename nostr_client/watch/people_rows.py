"""Read the people of a watch from the store: functions over a connection, for `people`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from nostr_client import hll
from nostr_client.codecs import kinds
from nostr_client.codecs.profiles import names_of
from nostr_client.count.claims import VOID
from nostr_client.count.claims.rows import recall
from nostr_client.count.merge import CountUnit
from nostr_client.count.remembering import KEEP, asked_of
from nostr_client.store.lookup import Authors, rows_in
from nostr_client.store.query import select
from nostr_client.store.rows import EVENT_COLUMNS, EVENT_TABLES, TagHasher, read_events
from nostr_client.store.schema import HASH_KEY
from nostr_client.watch.people import (
    ACTS,
    Fact,
    Left,
    People,
    newest_first,
    of_events,
    of_lists,
    unnamed,
)

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Iterable, Sequence

    from nostr_client.codecs.event import Event
    from nostr_client.count.figures import Figure
    from nostr_client.count.queries import Query
    from nostr_client.watch.people import Person

MOST: Final = 200
"""People of one answer, by default."""

MOST_STORED: Final = 2_000
"""Matching events of the store, and newer lists of it, that are read; newest first."""

MOST_CHANGED: Final = 10_000
"""Members of one answer whose changes are read, and events of one relay's first reading; newest
first. As many as a digest counts."""

_NEWLY_CHANGED: Final = (
    "SELECT DISTINCT member FROM (SELECT member FROM claim_change WHERE q = ? AND r IN ({relays})"
    " AND coalesce(lost_at, found_at) >= ? ORDER BY coalesce(lost_at, found_at) DESC LIMIT ?)"
)
_CHANGES: Final = (
    "SELECT c.r, c.member, c.author, c.id, c.created_at, ifnull(e.amount, c.amount), c.known_at,"
    " c.found_at, c.lost_at, e.id IS NOT NULL FROM claim_change c LEFT JOIN claim_event e"
    " ON e.q = c.q AND e.r = c.r AND e.created_at = c.created_at AND e.id = c.id"
    " AND e.amount <> {void} WHERE c.q = {q} AND c.r IN ({relays}) AND c.member IN"
)
_RECEIVED: Final = (
    "SELECT member, author, id, created_at, amount, received_at, received_at, NULL, is_new"
    " FROM claim_received WHERE q = {q} AND r IN ({relays})"
)
_LEFT: Final = (
    "SELECT author, created_at, id, size, max(earlier), min(proven_at) FROM claim_left"
    " WHERE q = ? AND r IN ({relays}) GROUP BY author, id ORDER BY created_at, id DESC"
)
_GIVEN: Final = "claim_event WHERE q = ? AND r IN ({relays}) AND amount <> ?"
_FIRST_READING: Final = (
    "SELECT id, author, id, created_at, amount FROM claim_event e WHERE q = ?1 AND r = ?2"
    " AND created_at BETWEEN ?3 AND ?4 AND amount <> ?5 AND NOT EXISTS (SELECT 1 FROM claim_change"
    " c WHERE c.q = e.q AND c.r = e.r AND c.member = e.id) ORDER BY created_at DESC LIMIT ?6"
)
_AT_FIRST: Final = (
    "SELECT e.id, e.author, e.id, e.created_at, e.amount FROM claim_change l JOIN claim_event e"
    " ON e.q = l.q AND e.r IN ({relays}) AND e.created_at = l.created_at AND e.id = l.id"
    " AND e.amount <> {void} WHERE l.q = {q} AND l.r IN ({relays}) AND l.lost_at IS NOT NULL"
    " AND NOT EXISTS (SELECT 1 FROM claim_change c WHERE c.q = e.q AND c.r = e.r"
    " AND c.member = e.id) AND l.member IN"
)
_NAMELESS: Final = (
    "SELECT r FROM claim WHERE q = ? AND answered AND registers IS NOT NULL AND method <> 'events'"
)
_FOUND: Final = "SELECT author, author, id, created_at, amount, NULL, seen_at FROM " + _GIVEN


def read(
    conn: sqlite3.Connection,
    query: Query,
    since: int,
    now: int,
    *,
    urls: Collection[str] | None = None,
    excluded: Collection[str] = (),
    figure: Figure | None = None,
    limit: int = MOST,
) -> People:
    """Return who did what since a time.

    `urls`: the normalised relays that count; None: all that were asked. `excluded`: those
    whose claims the number excludes; their people are not listed. `figure`: the watch's number, of
    which the nameless part is computed.
    """
    log = log_of(conn, query, urls)
    if log is None:
        return People(since=since, people=())
    counted = log.but(excluded)
    people = seen(conn, query, counted, since, now)
    is_nameless = any(r in log.relays for (r,) in conn.execute(_NAMELESS, (log.q,)))
    nameless = None
    if figure and is_nameless and query.unit is CountUnit.AUTHORS:
        known = _known(conn, query, log, excluded, now)
        nameless = unnamed(figure, len(known.counted), len(known.possible))
    return People(
        since=since,
        people=_named(conn, people[:limit]),
        more=max(0, len(people) - limit),
        known=counted.authors(),
        unnamed=nameless,
    )


def log_of(conn: sqlite3.Connection, query: Query, urls: Collection[str] | None) -> EventLog | None:
    """Return what is known of the events of these relays; None for a query that was never asked."""
    row = conn.execute("SELECT q FROM claim_query WHERE key = ?", (asked_of(query).key,)).fetchone()
    return None if row is None else EventLog(conn, int(row[0]), urls)


def seen(
    conn: sqlite3.Connection, query: Query, log: EventLog, since: int, now: int
) -> list[Person]:
    """Return who did what since a time, newest first, without names."""
    found = _of_lists if query.one_per_author else _of_events
    return newest_first(found(conn, query, log, since, now))


class _Known(NamedTuple):
    """The authors of a number whose keys are known: those that it counts, and others that it may
    count."""

    counted: set[bytes]
    possible: set[bytes]


def _known(
    conn: sqlite3.Connection, query: Query, log: EventLog, excluded: Collection[str], now: int
) -> _Known:
    """Return the authors of a number whose keys are known.

    A relay that was read counts its authors by name, as `CountEngine` does: answers that are too
    old do not count, nor do lists and events that a relay proves to be gone. Registers count the
    authors whose events their relay sent, if they have the author's key. They may count other
    known authors whose key they have, those of the store too: registers may have a key by chance.
    """
    found = {one.url: one.usable(now, KEEP) for one in recall(conn, asked_of(query), log.urls, now)}
    claims = {url: claim for url, claim in found.items() if claim is not None}
    left = {id for one in claims.values() for id in (*one.retracted.lists, *one.retracted.ids)}
    counted = {log.urls[url]: one for url, one in claims.items() if url not in excluded}
    read = {r for r, one in counted.items() if one.reading is not None}
    given = [one for one in log.given() if one.id not in left]
    named = {one.author for one in given if one.relay in read}
    sketches = [one.registers for r, one in counted.items() if r not in read and one.registers]
    sent = {one.author for one in given if one.relay in counted.keys() - read}
    sent |= log.but(excluded).live()
    named |= _held(sketches, sent - named, query.offset)
    stored = set() if query.one_per_author else _stored_authors(conn, query, now)
    others = ({one.author for one in given} | log.live() | stored) - named
    return _Known(named, _held(sketches, others, query.offset))


def _held(sketches: Sequence[bytes], authors: Iterable[bytes], offset: int | None) -> set[bytes]:
    """Return the authors whose keys are in these registers."""
    if not sketches or offset is None:
        return set()
    merged = hll.merge(*sketches)
    return {one for one in authors if _has(merged, one, offset)}


def _has(registers: bytes, author: bytes, offset: int) -> bool:
    more = bytearray(registers)
    hll.add(more, author, offset)
    return more == registers


class _Given(NamedTuple):
    """An event that a relay gives."""

    relay: int
    author: bytes
    id: bytes


class EventLog:
    """What is known of the events of some relays for one query; each answer is bounded."""

    def __init__(
        self, conn: sqlite3.Connection, q: int, urls: Collection[str] | None = None
    ) -> None:
        """Create it; `urls`: the normalised relays, by default all."""
        rows = conn.execute("SELECT url, r FROM claim_relay")
        self.q = q
        self.urls = {url: int(r) for url, r in rows if urls is None or url in urls}
        self.relays = list(self.urls.values())
        self._conn = conn
        self._names = {"q": q, "relays": ",".join(map(str, self.relays)), "void": VOID}

    def but(self, urls: Collection[str]) -> EventLog:
        """Return what is known of the events of the other relays."""
        return EventLog(self._conn, self.q, self.urls.keys() - set(urls)) if urls else self

    def authors(self) -> int:
        """Return how many distinct authors the relays give."""
        sql = "SELECT count(DISTINCT author) FROM " + _GIVEN.format_map(self._names)
        (number,) = self._conn.execute(sql, (self.q, VOID)).fetchone()
        return int(number)

    def given(self) -> list[_Given]:
        """Return the events that the relays give."""
        sql = "SELECT r, author, id FROM " + _GIVEN.format_map(self._names)
        return [_Given(*one) for one in self._conn.execute(sql, (self.q, VOID))]

    def sources(self, authors: Collection[bytes]) -> dict[bytes, set[str]]:
        """Return the relays that sent events of these authors, by author."""
        names = {r: url for url, r in self.urls.items()}
        found: dict[bytes, set[str]] = {}
        for table in ("claim_event", "claim_change", "claim_received"):
            sql = f"SELECT DISTINCT r, author FROM {table} WHERE q = ?"
            for r, author in self._conn.execute(sql, (self.q,)):
                if author in authors and r in names:
                    found.setdefault(author, set()).add(names[r])
        return found

    def live(self) -> set[bytes]:
        """Return the authors of live events whose newer list does not lack the key."""
        return {one.author for one in self.received()} - self.left().keys()

    def received(self) -> list[Fact]:
        """Return the live events of relays that give no events."""
        return [Fact(*one) for one in self._conn.execute(_RECEIVED.format_map(self._names))]

    def left(self) -> dict[bytes, Left]:
        """Return by author the newest list that lacks the key, of those that the relays gave.

        Of one list that several relays gave, the first proof counts.
        """
        rows = self._conn.execute(_LEFT.format_map(self._names), (self.q,))
        return {author: Left(*rest) for author, *rest in rows}

    def changed(self, since: int) -> set[bytes]:
        """Return who or what came or went since a time."""
        sql = _NEWLY_CHANGED.format_map(self._names)
        return {one for (one,) in self._conn.execute(sql, (self.q, since, MOST_CHANGED))}

    def changes(self, members: Iterable[bytes]) -> list[_Change]:
        """Return all changes of these members."""
        sql = _CHANGES.format_map(self._names)
        rows = rows_in(self._conn, sql, sorted(members))
        return [_Change(r, Fact(*fact), bool(given)) for r, *fact, given in rows]

    def giving(self, authors: Collection[bytes]) -> set[tuple[int, bytes]]:
        """Return which relays give events of these authors."""
        sql = "SELECT r, author FROM " + _GIVEN.format_map(self._names)
        rows = self._conn.execute(sql, (self.q, VOID))
        return {(r, author) for r, author in rows if author in authors}

    def lists_of(self, left: Collection[bytes]) -> list[Fact]:
        """Return the lists with the key that relays give of authors with a list that lacks it.

        A newer version of what a relay gave from the start has no change of its own.
        """
        if not left:
            return []
        rows = self._conn.execute(_FOUND.format_map(self._names), (self.q, VOID))
        return [Fact(*one) for one in rows if one[0] in left]

    def first_reading(self, since: int, now: int) -> list[Fact]:
        """Return the newest events of the first readings that say a time from `since` to `now`."""
        return [
            Fact(*one)
            for r in self.relays
            for one in self._conn.execute(
                _FIRST_READING, (self.q, r, since, now, VOID, MOST_CHANGED)
            )
        ]

    def still_given(self, lost: Iterable[bytes]) -> list[Fact]:
        """Return the events of first readings that another relay lost."""
        sql = _AT_FIRST.format_map(self._names)
        return [Fact(*one) for one in rows_in(self._conn, sql, sorted(lost))]


class _Change(NamedTuple):
    """A change of a relay, and whether it gives that event now."""

    relay: int
    fact: Fact
    is_given: bool


def _of_lists(
    conn: sqlite3.Connection, query: Query, log: EventLog, since: int, now: int
) -> list[Person]:
    """Return the people of a question about lists: a row of a change stands for an author."""
    received, left = log.received(), log.left()
    authors = log.changed(since) | {fact.author for fact in received}
    authors |= {author for author, one in left.items() if one.proven_at >= since}
    given = log.lists_of(left)
    authors |= {fact.author for fact in given if (fact.found_at or 0) >= since}
    changes = log.changes(authors)
    changed = {(one.relay, one.fact.author) for one in changes}
    constant = {author for _, author in log.giving(authors) - changed}
    facts = [one.fact for one in changes] + received
    read, left = left.keys(), {a: one for a, one in left.items() if a in authors}
    losses = sorted((f.lost_at, f.author) for f in facts if f.lost_at is not None)
    still = constant | {one.fact.author for one in changes if one.is_given}
    gone = {author: at for at, author in losses if author not in still}
    last = sorted(gone, key=gone.__getitem__)[-MOST_STORED:]
    for author, one in _left_in_store(conn, query, last).items():
        before = left.get(author)
        if before is None or before.created_at < one.created_at:
            is_past = one.created_at <= now
            left[author] = one if is_past else one._replace(proven_at=gone[author])
    given += log.lists_of(left.keys() - read)
    facts += [one for one in given if one.author in left]
    known = {fact.author for fact in facts}  # others left lists that only other relays gave
    return of_lists(facts, constant, {a: one for a, one in left.items() if a in known}, since)


def _left_in_store(
    conn: sqlite3.Connection, query: Query, authors: Collection[bytes]
) -> dict[bytes, Left]:
    """Return the newest lists of authors, as far as the store has them, that do not match.

    Nobody knows which relays gave them, so they are only for authors whom no relay gives any more.
    """
    from nostr_client.codecs.references import people_named

    (asked, *_) = query.filters
    if not asked.kinds or not authors:
        return {}
    lists = _newest(conn, asked.kinds[0], authors)
    return {
        bytes.fromhex(one.pubkey): Left(
            one.created_at, bytes.fromhex(one.id), len(people_named(one)), 0, one.created_at
        )
        for one in lists
        if not any(filter.matches(one) for filter in query.filters)
    }


def _of_events(
    conn: sqlite3.Connection, query: Query, log: EventLog, since: int, now: int
) -> list[Person]:
    """Return the people of a question about events: each of them is an act.

    Events of the store are none of these: the store does not have the relays that sent them.
    """
    facts = [*log.received(), *log.first_reading(since, now)]
    members = log.changed(since) | {fact.member for fact in facts}
    changes = [
        one.fact
        for one in log.changes(members)
        if one.is_given or one.fact.lost_at is not None  # else judged since: it does not count
    ]
    lost = {fact.id for fact in changes if fact.lost_at is not None}
    return of_events(
        [*facts, *changes, *log.still_given(lost)], ACTS.get(query.name, "wrote"), since, now
    )


def _stored_authors(conn: sqlite3.Connection, query: Query, now: int) -> set[bytes]:
    """Return the authors of matching events of the store, the newest that are not of the future."""
    (key,) = conn.execute("SELECT value FROM meta WHERE key = ?", (HASH_KEY,)).fetchone()
    if query.searches or query.needs_target:
        return set()
    context = select.QueryContext(TagHasher(key), Authors(), now)
    filters = [
        one.replace(until=now if one.until is None else min(now, one.until), limit=MOST_STORED)
        for one in query.filters
    ]
    found = (query.hold(event) for event in select.events(conn, context, filters))
    return {one.author for one in found if one is not None}


def _named(conn: sqlite3.Connection, people: Iterable[Person]) -> tuple[Person, ...]:
    """Return people with the names of their profiles, where the store has these."""
    shown = list(people)
    keys = {bytes.fromhex(one.pubkey) for one in shown}
    names = names_of(profiles(conn, keys))
    return tuple(msgspec.structs.replace(one, name=names.get(one.pubkey)) for one in shown)


def profiles(conn: sqlite3.Connection, authors: Collection[bytes]) -> list[Event]:
    """Return the stored profiles of these authors."""
    return _newest(conn, kinds.METADATA, authors)


def _newest(conn: sqlite3.Connection, kind: int, authors: Collection[bytes]) -> list[Event]:
    """Return the stored events of a replaceable kind by these authors."""
    sql = f"SELECT {EVENT_COLUMNS} FROM {EVENT_TABLES} WHERE e.kind = {kind:d} AND u.pubkey IN"
    return read_events(rows_in(conn, sql, sorted(authors))) if authors else []
