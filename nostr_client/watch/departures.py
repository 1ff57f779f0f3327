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
from nostr_client.count.claims.rows import query_number
from nostr_client.count.remembering import asked_of
from nostr_client.count.unfollowed import NewestLists

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Collection, Iterable, Mapping

    from nostr_client.codecs.event import Event
    from nostr_client.count.asking import CountOptions
    from nostr_client.count.claims import ClaimBook
    from nostr_client.count.merge import Claim, Retracted
    from nostr_client.count.queries import Query
    from nostr_client.network.relay import Relay

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
    mono: float,
    wall: float,
) -> None:
    """Ask for the newest lists of authors that relays give no longer, and store what they prove.

    `claims`: newest answers, with what their lists show of the authors that other relays give.
    `mono` and `wall` are the time. Raises StoreError; a relay's failure is not raised. Safe to
    cancel.
    """
    asked = asked_of(query)
    replaced: set[bytes] = set()
    for claim in claims:
        replaced |= claim.retracted.suspects | set(claim.retracted.lists.values())
    missing = await book.database.read(lambda conn: _missing(conn, asked.key, replaced))
    due = people.due(missing, mono)
    due, people.more = due[:MOST_ASKED], len(due) > MOST_ASKED
    if not due:
        return
    lists = NewestLists(query, relays, options.patience, options.budget)
    found = await lists.lists(dict.fromkeys(relays, due))
    people.look(due, mono)
    proven = [
        departure
        for author in due
        if (departure := _departure(missing[author], found.given.get(author, ()), lists.holds))
    ]
    if proven:
        kept = [one._replace(proven_at=int(wall)) for one in proven]
        await book.database.write(lambda conn: leave(conn, query_number(conn, asked), kept))


def _departure(
    known: _Known, lists: Iterable[Event], holds: Callable[[Event], bool]
) -> Departure | None:
    """Return what an author's newest list proves: that it is newer, and no longer matches."""
    newest = min(lists, key=nip01_order, default=None)
    if newest is None or holds(newest):
        return None
    id = bytes.fromhex(newest.id)
    if (-newest.created_at, id) >= (-known.created_at, known.id):
        return None
    size = len(people_named(newest))
    return Departure(bytes.fromhex(newest.pubkey), newest.created_at, id, size, known.size, 0)


_LOST: Final = (
    "SELECT author, created_at, id, amount FROM (SELECT c.* FROM claim_change c"
    " JOIN claim_query USING (q) WHERE key = ? AND lost_at IS NOT NULL AND NOT EXISTS"
    " (SELECT 1 FROM claim_left l WHERE l.q = c.q AND l.author = c.author"
    " AND l.created_at >= c.created_at) ORDER BY lost_at DESC LIMIT ?) ORDER BY created_at, id DESC"
)
_HELD: Final = (
    "SELECT author, created_at, id, amount FROM claim_event JOIN claim_query USING (q)"
    " WHERE key = ? AND amount <> ? ORDER BY created_at, id DESC"
)
_AGAIN: Final = (
    "SELECT e.author, e.created_at, e.id, e.amount FROM claim_event e JOIN claim_query USING (q)"
    " JOIN claim_left l ON l.q = e.q AND l.author = e.author WHERE key = ? AND e.amount <> ?"
    " AND e.created_at > l.created_at AND EXISTS (SELECT 1 FROM claim_change c WHERE c.q = e.q"
    " AND c.author = e.author AND c.lost_at IS NOT NULL) ORDER BY e.created_at, e.id DESC"
)
"""Lists of those who left, follow again by what one relay gives, and are lost by another."""

_LEFT: Final = "SELECT author, created_at FROM claim_left JOIN claim_query USING (q) WHERE key = ?"


def _missing(
    conn: sqlite3.Connection, key: str, replaced: Collection[bytes]
) -> dict[bytes, _Known]:
    """Return the authors whose departure is not proven yet, with their last list that matched,
    which any relay may give."""
    found = _newest(conn.execute(_LOST, (key, MOST_LOST)))
    found |= _newest(conn.execute(_AGAIN, (key, VOID)))
    wanted = found.keys() | replaced
    if wanted:
        held = (row for row in conn.execute(_HELD, (key, VOID)) if row[0] in wanted)
        for author, one in _newest(held).items():
            last = found.get(author, one)
            found[author] = min(last, one, key=nip01_order)
    left = dict(conn.execute(_LEFT, (key,)).fetchall())
    return {a: one for a, one in found.items() if left.get(a, -1) < one.created_at}


def _newest(rows: Iterable[tuple[bytes, int, bytes, int]]) -> dict[bytes, _Known]:
    """Return the last of each author's rows, which are in the order of versions."""
    return {author: _Known(at, id, size) for author, at, id, size in rows}
