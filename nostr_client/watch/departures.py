"""Notice single people of a watch: those received live, and those whose newer list lacks the key.

A relay that gives only registers names nobody, so its live events do. A question about follow lists
never returns the list of an author who unfollowed: their newest lists are asked for by author, and
only a newer verified list that lacks the key proves it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from nostr_client import hll
from nostr_client.codecs.event import nip01_order
from nostr_client.codecs.references import people_named
from nostr_client.count.claims import VOID
from nostr_client.count.claims.changes import Departure, LiveEvent, leave
from nostr_client.count.claims.rows import query_number, relay_number
from nostr_client.count.reading.unfollowed import NewestLists
from nostr_client.count.remembering import asked_of

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from nostr_client.codecs.event import Event
    from nostr_client.count.asking import CountOptions
    from nostr_client.count.claims import ClaimBook, StoredQuery
    from nostr_client.count.merge import Claim, Retracted
    from nostr_client.count.queries import Query
    from nostr_client.network.relay import Relay
    from nostr_client.watch.scheduler import Moment

MOST_RECEIVED: Final = 1_000
"""Live events of one watch that wait to be stored; further ones are not remembered."""

MOST_ASKED: Final = 200
"""Authors whose lists are asked for at once; the others wait for the next round."""

AGAIN_S: Final = 6 * 3600.0
"""Seconds until an author is asked about again whose list no relay had."""

MOST_LOOKED: Final = 10_000
"""Authors of one watch who are not asked about again too soon; of more, the first may be."""

MOST_LOST: Final = 2 * MOST_LOOKED
"""Authors of one watch whose departure is looked for, those lost last; more than were looked for,
so that others get their turn."""


class Sightings:
    """What an engine noticed of the people of one watch, by relay."""

    def __init__(self) -> None:
        self.received: list[LiveEvent] = []
        """Live events that are not stored yet."""
        self.looked: dict[bytes, float] = {}
        """When the newest list of an author was last asked for; seconds of a monotonic clock."""
        self.more = False
        """Whether authors wait to be asked for."""
        self._read: set[str] = set()
        self._registers: dict[str, bytes | None] = {}
        self._seen: dict[str, tuple[int | None, Retracted]] = {}

    def due(self, authors: Iterable[bytes], mono: float) -> list[bytes]:
        """Return the authors whose list was not asked for lately."""
        times = self.looked.items()
        self.looked = {author: at for author, at in times if mono - at < AGAIN_S}
        return [author for author in authors if author not in self.looked]

    def look(self, authors: Iterable[bytes], mono: float) -> None:
        """Note that the lists of authors were asked for now; of many authors, the last stay."""
        self.looked |= dict.fromkeys(authors, mono)
        for author in list(self.looked)[:-MOST_LOOKED]:
            del self.looked[author]

    def answered(self, url: str, claim: Claim) -> None:
        """Note how a relay answered: by events, or by registers alone."""
        if not claim.answered:
            return
        self._read.discard(url)
        if claim.reading is not None:
            self._read.add(url)
        is_whole = claim.reading is None or claim.reading.complete
        self._registers[url] = claim.registers if is_whole else None

    def receive(
        self, query: Query, url: str, event: Event, now: float, relays: Collection[str]
    ) -> None:
        """Note a live event, unless its relay is read by events, which then name its author.

        `relays`: all that count. The author is new only if no registers of theirs have the key.
        """
        if query.reads or url in self._read or len(self.received) >= MOST_RECEIVED:
            return
        held = query.hold(event)
        if held is None:
            return
        known = [self._registers.get(one) for one in {url, *relays}]
        is_new = not query.one_per_author or _is_new(held.author, query.offset, known)
        self.received.append(LiveEvent(url, held, int(now), is_new))

    def has_lost(self, url: str, claim: Claim, gone: int | None) -> bool:
        """Whether a relay gives fewer people than it did, or some whose lists are replaced."""
        if claim.reading is None:
            return False
        state = (gone, claim.retracted)
        before, self._seen[url] = self._seen.get(url), state
        return before != state or self.more


def _is_new(author: bytes, offset: int | None, registers: Collection[bytes | None]) -> bool:
    """Whether the registers of all relays prove that an author was not counted in any of them.

    None: what a relay has is not known.
    """
    known = [one for one in registers if one is not None]
    if offset is None or not known or len(known) < len(registers):
        return False
    merged = hll.merge(*known)
    return hll.merge(merged, hll.from_pubkeys([author], offset)) != merged


class _Known(NamedTuple):
    """The newest list that matched: its version, and how many keys it named, if known."""

    created_at: int
    id: bytes
    size: int


async def find_departures(
    query: Query,
    book: ClaimBook,
    relays: Mapping[str, Relay],
    options: CountOptions,
    people: Sightings,
    claims: Iterable[Claim],
    believed: Collection[str],
    now: Moment,
) -> None:
    """Ask for the newest lists of authors that relays give no longer, and store what they prove.

    `believed`: the relays of the watch that its number believes, by normalised URL; `relays`: those
    of them that may be asked. `claims`: their newest answers, with what their lists show of the
    authors that other relays give. Raises StoreError; a relay's failure is not raised. Safe to
    cancel.
    """
    asked = asked_of(query)
    replaced: set[bytes] = set()
    for claim in claims:
        replaced |= claim.retracted.suspects | set(claim.retracted.lists.values())
    missing = await book.database.read(lambda conn: _missing(conn, asked.key, believed, replaced))
    due = people.due(missing, now.mono)
    due, people.more = due[:MOST_ASKED], len(due) > MOST_ASKED
    if not due:
        return
    lists = NewestLists(query, relays, options.patience, options.budget)
    found = await lists.lists(dict.fromkeys(relays, due))
    people.look(due, now.mono)
    gone = {a: missing[a] for a in due if _has_left(found.given.get(a, ()), lists.holds)}
    proven = {url: _departures(gone, found.newest_of(url), lists.holds, now) for url in relays}
    if any(proven.values()):
        await book.database.write(lambda conn: _store(conn, asked, proven))


def _has_left(lists: Iterable[Event], holds: Callable[[Event], bool]) -> bool:
    """Whether the newest of an author's lists no longer matches."""
    newest = min(lists, key=nip01_order, default=None)
    return newest is not None and not holds(newest)


def _departures(
    known: Mapping[bytes, _Known],
    lists: Mapping[bytes, Event],
    holds: Callable[[Event], bool],
    now: Moment,
) -> list[Departure]:
    """Return what one relay's lists prove: those that are newer than known and do not match."""
    newer = {
        author: one
        for author, one in lists.items()
        if author in known and not holds(one) and _version(one) < nip01_order(known[author])
    }
    return [
        Departure(
            author,
            one.created_at,
            bytes.fromhex(one.id),
            size=len(people_named(one)),
            earlier=known[author].size,
            proven_at=int(now.wall),
        )
        for author, one in newer.items()
    ]


def _version(one: Event) -> tuple[int, bytes]:
    """Return the order of a list among those that the store knows by raw ids."""
    return -one.created_at, bytes.fromhex(one.id)


def _store(
    conn: sqlite3.Connection, asked: StoredQuery, proven: Mapping[str, Sequence[Departure]]
) -> None:
    """Store departures by the normalised URLs of the relays that prove them."""
    q = query_number(conn, asked)
    for url, found in proven.items():
        if found:
            leave(conn, q, relay_number(conn, url), found)


_LOST: Final = (
    "SELECT author, created_at, id, amount FROM (SELECT c.* FROM claim_change c"
    " JOIN claim_query USING (q) WHERE key = ? AND c.r IN ({relays}) AND lost_at IS NOT NULL"
    " AND NOT EXISTS (SELECT 1 FROM claim_left l WHERE l.q = c.q AND l.r IN ({relays})"
    " AND l.author = c.author AND l.created_at >= c.created_at)"
    " ORDER BY lost_at DESC LIMIT ?) ORDER BY created_at, id DESC"
)
_HELD: Final = (
    "SELECT author, created_at, id, amount FROM claim_event JOIN claim_query USING (q)"
    " WHERE key = ? AND r IN ({relays}) AND amount <> ? ORDER BY created_at, id DESC"
)
_AGAIN: Final = (
    "SELECT e.author, e.created_at, e.id, e.amount FROM claim_event e JOIN claim_query USING (q)"
    " WHERE key = ? AND e.r IN ({relays}) AND e.amount <> ?"
    " AND EXISTS (SELECT 1 FROM claim_left l WHERE l.q = e.q AND l.r IN ({relays})"
    " AND l.author = e.author AND l.created_at < e.created_at)"
    " AND EXISTS (SELECT 1 FROM claim_change c WHERE c.q = e.q AND c.r IN ({relays})"
    " AND c.author = e.author AND c.lost_at IS NOT NULL) ORDER BY e.created_at, e.id DESC"
)
"""Lists of those who left, follow again by what one relay gives, and are lost by another."""

_LEFT: Final = (
    "SELECT author, max(created_at) FROM claim_left JOIN claim_query USING (q)"
    " WHERE key = ? AND r IN ({relays}) GROUP BY author"
)


def _missing(
    conn: sqlite3.Connection, key: str, urls: Collection[str], replaced: Collection[bytes]
) -> dict[bytes, _Known]:
    """Return the authors whose departure these relays do not prove yet, with their last list that
    matched, which any of the relays may give."""
    rows = conn.execute("SELECT r, url FROM claim_relay")
    relays = ",".join(str(int(r)) for r, url in rows if url in urls)
    lost, again, held, left = (sql.format(relays=relays) for sql in (_LOST, _AGAIN, _HELD, _LEFT))
    found = _newest(conn.execute(lost, (key, MOST_LOST)))
    found |= _newest(conn.execute(again, (key, VOID)))
    wanted = found.keys() | replaced
    if wanted:
        given = (row for row in conn.execute(held, (key, VOID)) if row[0] in wanted)
        for author, one in _newest(given).items():
            last = found.get(author, one)
            found[author] = min(last, one, key=nip01_order)
    proven = dict(conn.execute(left, (key,)).fetchall())
    return {a: one for a, one in found.items() if proven.get(a, -1) < one.created_at}


def _newest(rows: Iterable[tuple[bytes, int, bytes, int]]) -> dict[bytes, _Known]:
    """Return the last of each author's rows, which are in the order of versions."""
    return {author: _Known(at, id, size) for author, at, id, size in rows}
