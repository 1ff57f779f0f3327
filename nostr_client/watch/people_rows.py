"""Read the people of a watch from the store: functions over a connection, for `people`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from nostr_client.codecs import kinds
from nostr_client.codecs.profiles import names_of
from nostr_client.count.claims import VOID
from nostr_client.count.claims.rows import proven
from nostr_client.count.merge import Unit
from nostr_client.count.remembering import KEEP, asked_of
from nostr_client.store import select
from nostr_client.store.lookup import Authors, rows_in
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
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from nostr_client.codecs.event import Event
    from nostr_client.count.figures import Figure
    from nostr_client.count.queries import Query
    from nostr_client.watch.people import Person

MOST: Final = 200
"""People of one answer, by default."""

MOST_STORED: Final = 2_000
"""Matching events of the store that are read, newest first."""

_CHANGES: Final = (
    "SELECT r, member, author, id, created_at, amount, known_at, found_at, lost_at"
    " FROM claim_change WHERE q = ?"
)
_RECEIVED: Final = (
    "SELECT member, author, id, created_at, amount, received_at, received_at, NULL, is_new"
    " FROM claim_received WHERE q = ?"
)
_LEFT: Final = "SELECT author, created_at, id, size, earlier, proven_at FROM claim_left WHERE q = ?"
_GIVEN: Final = "SELECT r, author, id, created_at, amount FROM claim_event WHERE q = ?"
_NAMELESS: Final = (
    "SELECT r FROM claim WHERE q = ? AND answered AND registers IS NOT NULL AND method <> 'events'"
)
_NAMED: Final = "SELECT r, author, id FROM claim_event WHERE q = ? AND amount <> ?"
_FOUND: Final = (
    "SELECT r, author, author, id, created_at, amount, NULL, seen_at FROM claim_event"
    " WHERE q = ? AND amount <> ?"
)


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
    whose claims the number excludes. `figure`: the watch's number, of which the nameless part is
    computed.
    """
    row = conn.execute("SELECT q FROM claim_query WHERE key = ?", (asked_of(query).key,)).fetchone()
    if row is None:
        return People(since=since, people=())
    q, relays = int(row[0]), _relays(conn, urls)
    changes = [one for one in conn.execute(_CHANGES, (q,)).fetchall() if one[0] in relays]
    received = [Fact(*one) for one in conn.execute(_RECEIVED, (q,))]
    given = [
        one for one in conn.execute(_GIVEN, (q,)).fetchall() if one[0] in relays and one[-1] != VOID
    ]
    if query.one_per_author:
        found = _of_lists(conn, query, q, changes, received, given, since)
    else:
        found = _of_events(conn, query, changes, received, given, since, now)
    people = newest_first(found)
    known = len({author for _, author, *_ in given})
    counted = _counted(conn, q, relays, _relays(conn, excluded), now) if figure else 0
    is_nameless = any(r in relays for (r,) in conn.execute(_NAMELESS, (q,)))
    return People(
        since=since,
        people=_named(conn, people[:limit]),
        more=max(0, len(people) - limit),
        known=known,
        unnamed=unnamed(figure, counted) if is_nameless and query.unit is Unit.AUTHORS else None,
    )


def _counted(
    conn: sqlite3.Connection, q: int, relays: Collection[int], excluded: Collection[int], now: int
) -> int:
    """Return how many authors the number counts by name, as `Counter` does: not those of answers
    that are too old, and not by lists or events that a relay proves to count no longer."""
    found = {r: proven(conn, q, r, now - KEEP) for r in relays}
    proofs = {r: proof for r, proof in found.items() if proof is not None}
    left = {id for one in proofs.values() for id in (*one.retracted.lists, *one.retracted.ids)}
    read = {r for r, proof in proofs.items() if proof.was_read and r not in excluded}
    rows = conn.execute(_NAMED, (q, VOID))
    return len({author for r, author, id in rows if r in read and id not in left})


def _relays(conn: sqlite3.Connection, urls: Collection[str] | None) -> set[int]:
    rows = conn.execute("SELECT r, url FROM claim_relay")
    return {r for r, url in rows if urls is None or url in urls}


def _of_lists(
    conn: sqlite3.Connection,
    query: Query,
    q: int,
    changes: Sequence[Any],
    received: Sequence[Fact],
    given: Sequence[Any],
    since: int,
) -> list[Person]:
    """Return the people of a question about lists: a row of a change stands for an author."""
    changed = {(r, member) for r, member, *_ in changes}
    constant = {author for r, author, *_ in given if (r, author) not in changed}
    facts = [Fact(*one[1:]) for one in changes] + list(received)
    left = {author: Left(*rest) for author, *rest in conn.execute(_LEFT, (q,))}
    gone = {fact.author for fact in facts if fact.lost_at is not None} - constant
    for author, one in _left_in_store(conn, query, gone).items():
        before = left.get(author)
        if before is None or before.created_at < one.created_at:
            left[author] = one
    facts += _lists_since(conn, q, {r for r, *_ in given}, left)
    return of_lists(facts, constant, left, since)


def _lists_since(
    conn: sqlite3.Connection, q: int, relays: Collection[int], left: Mapping[bytes, Left]
) -> list[Fact]:
    """Return the lists with the key that relays give of authors with a list that lacks it.

    A newer version of what a relay gave from the start has no change of its own.
    """
    if not left:
        return []
    rows = conn.execute(_FOUND, (q, VOID))
    return [Fact(*fact) for r, *fact in rows if r in relays and fact[0] in left]


def _left_in_store(
    conn: sqlite3.Connection, query: Query, authors: Collection[bytes]
) -> dict[bytes, Left]:
    """Return the newest lists of authors, as far as the store has them, that do not match."""
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
    conn: sqlite3.Connection,
    query: Query,
    changes: Sequence[Any],
    received: Sequence[Fact],
    given: Sequence[Any],
    since: int,
    now: int,
) -> list[Person]:
    """Return the people of a question about events: each of them is an act."""
    present = {(r, id): (author, at, amount) for r, author, id, at, amount in given}
    facts = list(received)
    noted = set()
    for r, member, author, id, at, amount, *times in changes:
        noted.add((r, id))
        row = present.get((r, id))
        if times[-1] is None and row is None:  # judged since: it does not count
            continue
        facts.append(Fact(member, author, id, at, amount if row is None else row[2], *times))
    lost = {fact.id for fact in facts if fact.lost_at is not None}
    facts += [
        Fact(id, author, id, at, amount)
        for (r, id), (author, at, amount) in present.items()
        if (r, id) not in noted and (at >= since or id in lost)
    ]
    facts += _stored(conn, query, since, now)
    return of_events(facts, ACTS.get(query.name, "wrote"), since)


def _stored(conn: sqlite3.Connection, query: Query, since: int, now: int) -> list[Fact]:
    """Return matching events of the store that say a time since then, newest first."""
    (key,) = conn.execute("SELECT value FROM meta WHERE key = ?", (HASH_KEY,)).fetchone()
    if query.searches or query.needs_target:
        return []
    context = select.Context(TagHasher(key), Authors(), now)
    filters = [
        one.replace(since=max(since, one.since or 0), limit=MOST_STORED) for one in query.filters
    ]
    found = (query.hold(event) for event in select.events(conn, context, filters))
    return [
        Fact(one.id, one.author, one.id, one.created_at, one.amount)
        for one in found
        if one is not None
    ]


def _named(conn: sqlite3.Connection, people: Iterable[Person]) -> tuple[Person, ...]:
    """Return people with the names of their profiles, where the store has these."""
    shown = list(people)
    keys = {bytes.fromhex(one.pubkey) for one in shown}
    names = names_of(_newest(conn, kinds.METADATA, keys))
    return tuple(msgspec.structs.replace(one, name=names.get(one.pubkey)) for one in shown)


def _newest(conn: sqlite3.Connection, kind: int, authors: Collection[bytes]) -> list[Event]:
    """Return the stored events of a replaceable kind by these authors."""
    sql = f"SELECT {EVENT_COLUMNS} FROM {EVENT_TABLES} WHERE e.kind = {kind:d} AND u.pubkey IN"
    return read_events(rows_in(conn, sql, sorted(authors))) if authors else []
